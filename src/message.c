// See message.h.
#include "message.h"

#include <errno.h>
#include <string.h>

#include "hooks.h"
#include "os/os.h"

void text_add(struct text *text, const char *string) {
  size_t n = strlen(string), room = text->size - text->length;
  if (n > room) n = room;
  memcpy(text->buffer + text->length, string, n);
  text->length += n;
}

static void add_digits(struct text *text, uint64_t number, unsigned base) {
  char digits[21];
  unsigned at = sizeof digits - 1;
  digits[at] = 0;
  do {
    digits[--at] = "0123456789abcdef"[number % base];
    number /= base;
  } while (number);
  text_add(text, digits + at);
}

void text_add_number(struct text *text, uint64_t number) { add_digits(text, number, 10); }

void text_add_hex(struct text *text, uint64_t number) {
  text_add(text, "0x");
  add_digits(text, number, 16);
}

void text_pad(struct text *text, size_t start, size_t column) {
  do text_add(text, " ");
  while (text->length - start < column && text->length < text->size);
}

// As mimalloc's error callback tells them apart.
static int error_of(const char *what) {
  return strcmp(what, "double free") == 0 ? EAGAIN : strncmp(what, "invalid", 7) == 0 ? EINVAL : EFAULT;
}

_Noreturn RTM_COLD void message_misuse(const void *pointer, const char *what, const char *why) {
  char buffer[256];
  struct text text = {buffer, sizeof buffer, 0};
  text_add(&text, "rtmalloc: error: ");
  text_add(&text, what);
  text_add(&text, ": ");
  text_add_hex(&text, (uintptr_t)pointer);
  text_add(&text, ": ");
  text_add(&text, why);
  text_add(&text, "\n");
  os_write(2, buffer, text.length);
  hooks_error(error_of(what));
  hooks_end();  // a handler of SIGABRT may allocate
  os_abort();
}

RTM_COLD void message_warn(const char *what, const char *given, const char *why) {
  char buffer[512];
  struct text text = {buffer, sizeof buffer, 0};
  text_add(&text, "rtmalloc: warning: ");
  text_add(&text, what);
  text_add(&text, " '");
  text_add(&text, given);
  text_add(&text, "': ");
  text_add(&text, why);
  text_add(&text, "\n");
  os_write(2, buffer, text.length);
}

RTM_COLD void message_warn_number(const char *what, uint64_t given, const char *why) {
  char number[24];
  struct text text = {number, sizeof number - 1, 0};
  text_add_number(&text, given);
  number[text.length] = 0;
  message_warn(what, number, why);
}
