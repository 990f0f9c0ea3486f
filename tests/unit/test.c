// Checks and random numbers; see test.h. Also linked into the fuzzer, which has no runner.
#include "test.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

_Noreturn void test_fail(const char *file, int line, const char *format, ...) {
  va_list values;
  fprintf(stderr, "%s:%d: ", file, line);
  va_start(values, format);
  vfprintf(stderr, format, values);
  va_end(values);
  fprintf(stderr, "\n  again with RTM_TEST_SEED=%llu\n", (unsigned long long)test_seed());
  abort();
}

static uint64_t from_environment(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

// Chosen once, by the first caller: before any test forks or starts a thread.
uint64_t test_seed(void) {
  static uint64_t seed;
  if (!seed) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    seed = from_environment("RTM_TEST_SEED", 1 + (uint64_t)now.tv_nsec / 1000 + 1000000 * ((uint64_t)now.tv_sec % 1000));
  }
  return seed;
}

uint64_t test_operations(uint64_t otherwise) { return from_environment("RTM_TEST_OPERATIONS", otherwise); }

struct random test_random(uint64_t stream) {
  struct random random = {test_seed() ^ (stream * 0x9e3779b97f4a7c15u)};
  random_next(&random);
  return random;
}

uint64_t random_next(struct random *random) {
  uint64_t z = random->state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t random_below(struct random *random, uint64_t most) { return random_next(random) % most; }

uint64_t random_size(struct random *random, uint64_t most) {
  unsigned bits = 0;
  if (!most) return 0;
  while (bits < 63 && most >> bits) bits++;
  uint64_t size = random_next(random) >> (64 - 1 - random_below(random, bits));
  return size <= most ? size : most - random_below(random, most / 2 + 1);
}

void random_shuffle(struct random *random, void **items, size_t count) {
  for (size_t i = count; i > 1; i--) {
    size_t j = random_below(random, i);
    void *item = items[i - 1];
    items[i - 1] = items[j];
    items[j] = item;
  }
}
