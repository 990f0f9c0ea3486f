// What every test program of this folder is made of: tests that register themselves, checks that print the values, and
// random numbers from one seed. Each test runs in a process of its own (runner.c), so that it starts with an allocator
// that nobody has used yet, and may set its options by the environment.
//
//   RTM_TEST_SEED        the seed of all random tests; printed at a failure; otherwise taken from the clock
//   RTM_TEST_OPERATIONS  the length of all random tests, in operations; each has a short one of its own otherwise
#ifndef RTM_TEST_H
#define RTM_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void test_function(void);
void test_register(const char *name, test_function *run);

#define TEST(name)                                                                                   \
  static void name(void);                                                                            \
  __attribute__((constructor)) static void register_##name(void) { test_register(#name, name); }     \
  static void name(void)

// Prints the message and the seed, then aborts.
_Noreturn void test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define CHECK(condition)                                                                   \
  do {                                                                                     \
    if (!(condition)) test_fail(__FILE__, __LINE__, "expected: %s", #condition);           \
  } while (0)

// Two integers, each evaluated once.
#define CHECK_EQUAL(actual, expected)                                                                              \
  do {                                                                                                             \
    unsigned long long actual_ = (unsigned long long)(actual), expected_ = (unsigned long long)(expected);         \
    if (actual_ != expected_)                                                                                      \
      test_fail(__FILE__, __LINE__, "expected: %s == %s; %#llx is not %#llx", #actual, #expected, actual_, expected_); \
  } while (0)

// A checker's answer: NULL, or the sentence that does not hold.
#define CHECK_SOUND(answer)                                                                \
  do {                                                                                     \
    const char *broken_ = (answer);                                                        \
    if (broken_) test_fail(__FILE__, __LINE__, "broken: %s", broken_);                     \
  } while (0)

// The test runs with the environment variable from the start of its process, as the allocator reads its options before
// main: the program runs itself again with it. Where that is impossible (under qemu-user), the test ends here.
void test_needs_option(const char *name, const char *value);
// Runs the function in a new process; returns what waitpid gives (0: it returned).
int test_in_child(test_function *run);

uint64_t test_seed(void);
uint64_t test_operations(uint64_t otherwise);

// splitmix64. Each test takes streams of its own: test_random(0), test_random(1) for threads.
struct random {
  uint64_t state;
};
struct random test_random(uint64_t stream);
uint64_t random_next(struct random *random);
// 0..most - 1.
uint64_t random_below(struct random *random, uint64_t most);
// Uniform in its logarithm: each doubling up to `most` is equally likely. 0..most.
uint64_t random_size(struct random *random, uint64_t most);
void random_shuffle(struct random *random, void **items, size_t count);

#endif
