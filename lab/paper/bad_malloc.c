// Two faulty mallocs for the tests of day.c, chosen by DAY_FAULT: `leak`, each thousandth free does nothing; `overlap`,
// after 100,000 blocks one is handed out while it is live.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t bytes);
void __libc_free(void *block);

// -1: not yet asked.
static int leaks = -1, overlaps = -1;
static unsigned long mallocs, frees;
static void *last;

static int chosen(const char *fault) {
  const char *given = getenv("DAY_FAULT");
  return given && strcmp(given, fault) == 0;
}

void *malloc(size_t bytes) {
  if (overlaps < 0) overlaps = chosen("overlap");
  if (overlaps && ++mallocs == 100000) return last;
  return last = __libc_malloc(bytes);
}

void free(void *block) {
  if (leaks < 0) leaks = chosen("leak");
  if (leaks && ++frees % 1000 == 0) return;
  __libc_free(block);
}
