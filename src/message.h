// One clear line on stderr, without allocating. Layer: above os. Called by every layer that reports or aborts.
#ifndef RTM_MESSAGE_H
#define RTM_MESSAGE_H

#include "bits.h"

// A line under construction, for messages, tables and JSON. Text that does not fit is cut.
struct text {
  char *buffer;
  size_t size, length;
};
void text_add(struct text *text, const char *string);
void text_add_number(struct text *text, uint64_t number);
void text_add_hex(struct text *text, uint64_t number);
// Adds blanks until `column`, or one if the text is already there; `start` is where the line began.
void text_pad(struct text *text, size_t start, size_t column);

// "rtmalloc: error: WHAT: 0x...: WHY", then abort.
_Noreturn void message_misuse(const void *pointer, const char *what, const char *why);
// "rtmalloc: warning: WHAT 'GIVEN': WHY"
void message_warn(const char *what, const char *given, const char *why);
void message_warn_number(const char *what, uint64_t given, const char *why);

#endif
