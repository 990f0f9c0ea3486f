// Messages of preload.c and preload_profile.c without printf, which allocates.
#ifndef ALGORITHMS_PRELOAD_MESSAGE_H
#define ALGORITHMS_PRELOAD_MESSAGE_H

#include <string.h>
#include <unistd.h>

#include "algorithm.h"

extern const struct algorithm PRELOAD_ALGORITHM;

static inline void say(const char *text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

static inline void say_number(size_t number) {
  char digits[24], *digit = digits + sizeof digits - 1;
  *digit = 0;
  do *--digit = (char)('0' + number % 10);
  while (number /= 10);
  say(digit);
}

static inline void say_name(void) {
  say(PRELOAD_ALGORITHM.name);
  say("-preload: ");
}

#endif
