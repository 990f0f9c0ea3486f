// Random sequences of every operation against a shadow (shadow.h): all size ranges, one thread and several.
// Long runs: RTM_TEST_OPERATIONS=10000000 build/tests/unit/unit_model
#include <pthread.h>
#include <stdlib.h>

#include "mode.h"
#include "rtmalloc.h"
#include "shadow.h"

#define MIB ((size_t)1 << 20)

static void run(struct shadow *shadow, struct random *random, size_t size_most, uint64_t operations,
                struct shadow_block *_Atomic *places, unsigned place_count) {
  for (uint64_t step = 1; step <= operations; step++) {
    shadow_apply(shadow, shadow_random_operation(random, size_most));
    if (place_count && random_below(random, 4) == 0)
      shadow_exchange(shadow, (unsigned)random_below(random, SHADOW_SLOTS), &places[random_below(random, place_count)]);
    if (step % 1024 == 0) CHECK_SOUND(rtm_check());
  }
}

// (In the modes for real time nothing is given back.)
static void check_nothing_held(void) {
  CHECK_SOUND(rtm_check());
  if (mode_now() != MODE_GENERAL) return;
  rtm_trim();
  CHECK_SOUND(rtm_check());
  struct rtm_stats stats;
  rtm_stats(&stats);
  CHECK_EQUAL(stats.in_use, 0);
}

static void alone(size_t size_most, size_t bytes_most, uint64_t operations) {
  struct shadow shadow = {.bytes_most = bytes_most};
  struct random random = test_random(0);
  run(&shadow, &random, size_most, test_operations(operations), NULL, 0);
  shadow_free_all(&shadow);
  check_nothing_held();
}

TEST(small_blocks) { alone(1024, 64 * MIB, 300000); }
TEST(blocks_in_pages) { alone(32768, 64 * MIB, 100000); }
TEST(medium_blocks) { alone(4 * MIB, 256 * MIB, 40000); }
TEST(all_sizes) { alone(64 * MIB, 512 * MIB, 15000); }

static void with_purge(const char *mode) {
  test_needs_option("RTMALLOC_PURGE", mode);
  alone(64 * MIB, 256 * MIB, 4000);
}
TEST(all_sizes_purged_at_once) { with_purge("eager"); }
TEST(all_sizes_never_purged) { with_purge("never"); }

TEST(all_sizes_counted) {
  test_needs_option("RTMALLOC_REPORT", "/dev/null");
  alone(64 * MIB, 256 * MIB, 4000);
}

TEST(all_sizes_below_a_limit) {
  test_needs_option("RTMALLOC_LIMIT", "100M");
  struct shadow shadow = {.bytes_most = 512 * MIB, .may_refuse = true};
  struct random random = test_random(0);
  run(&shadow, &random, 64 * MIB, test_operations(8000), NULL, 0);
  CHECK(test_operations(8000) < 8000 || shadow.refused > 0);
  shadow_free_all(&shadow);
  check_nothing_held();
}

// ---- threads that pass blocks to each other ----

enum { THREADS = 4, PLACES = 128 };
static struct shadow_block *_Atomic places[PLACES];
static size_t thread_size_most;
static uint64_t thread_operations;
static pthread_barrier_t barrier;

static void *thread(void *argument) {
  uintptr_t number = (uintptr_t)argument;
  struct shadow shadow = {.bytes_most = 64 * MIB, .patterns = number << 40};
  struct random random = test_random(number);
  run(&shadow, &random, thread_size_most, thread_operations, places, PLACES);
  shadow_free_all(&shadow);
  // What is left in the places is freed by somebody else than who put it there, more often than not.
  pthread_barrier_wait(&barrier);
  for (uintptr_t i = number; i < PLACES; i += THREADS) {
    shadow_exchange(&shadow, 0, &places[i]);
    shadow_free_all(&shadow);
  }
  pthread_barrier_wait(&barrier);
  rtm_trim();
  CHECK_SOUND(rtm_check());
  return NULL;
}

static void together(size_t size_most, uint64_t operations) {
  thread_size_most = size_most;
  thread_operations = test_operations(operations);
  pthread_barrier_init(&barrier, NULL, THREADS);
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, thread, (void *)i);
  for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  check_nothing_held();
}

TEST(small_blocks_among_threads) { together(1024, 100000); }
TEST(medium_blocks_among_threads) { together(4 * MIB, 5000); }
TEST(all_sizes_among_threads) { together(20 * MIB, 3000); }

// Threads come and go; heaps are adopted with blocks of others in them.
TEST(threads_that_come_and_go) {
  pthread_barrier_init(&barrier, NULL, THREADS);
  thread_size_most = 100000;
  thread_operations = test_operations(20000) / 10 + 1;
  for (unsigned round = 0; round < 10; round++) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, thread, (void *)i);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  }
  check_nothing_held();
}
