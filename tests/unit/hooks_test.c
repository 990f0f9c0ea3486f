// Callbacks and options by call.
#include "hooks.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rtmalloc.h"
#include "test.h"

// A runtime that frees later: a list through the blocks' first words, of which each heartbeat ends some.
static struct {
  void *list;
  unsigned long long beats, last;
  uint64_t freed;
  bool forced;
} later;

static void free_some(bool force, unsigned long long heartbeat, void *argument) {
  CHECK(argument == &later);
  CHECK(heartbeat > later.last);
  later.last = heartbeat;
  later.beats++;
  later.forced |= force;
  for (int i = 0; later.list && (force || i < 600); i++) {
    void *block = later.list;
    later.list = *(void **)block;
    rtm_free(block);
    later.freed++;
    rtm_free(rtm_malloc(100));  // callbacks may allocate, and are not called again
  }
}

TEST(deferred_freeing_keeps_memory_bounded) {
  rtm_register_deferred_free(free_some, &later);
  uint64_t operations = test_operations(100000);
  for (uint64_t i = 0; i < operations; i++) {
    void **block = rtm_malloc(64);
    CHECK(block);
    *block = later.list;
    later.list = block;
    if (i % 256 == 0) CHECK(later.beats >= i / 256);
  }
  struct rtm_stats stats;
  rtm_stats(&stats);
  CHECK(stats.in_use < 1 << 20);
  CHECK(!later.forced);
  rtm_collect(true);
  CHECK(later.forced);
  CHECK_EQUAL(later.freed, operations);
  rtm_register_deferred_free(NULL, NULL);
  unsigned long long beats = later.beats;
  for (int i = 0; i < 1000; i++) CHECK(rtm_malloc(64));
  rtm_collect(false);
  CHECK_EQUAL(later.beats, beats);
}

TEST(medium_blocks_beat_too) {
  rtm_register_deferred_free(free_some, &later);
  for (int i = 0; i < 100; i++) rtm_free(rtm_malloc(100000));
  CHECK(later.beats >= 100);
}

static int reported;
static void report(int error, void *argument) { *(int *)argument = error; }

static void exit_with(int error, void *argument) {
  (void)argument;
  _exit(error);
}
static void *block;
static void double_free(void) {
  rtm_free(block);
  rtm_free(block);
}
static void invalid_free(void) { rtm_free(&reported); }

TEST(errors_are_told) {
  rtm_register_error(report, &reported);
  errno = 0;
  CHECK(!rtm_malloc(SIZE_MAX));
  CHECK_EQUAL(reported, ENOMEM);
  CHECK_EQUAL(errno, ENOMEM);
  struct rtm_heap *heap = rtm_heap_new();
  reported = 0;
  CHECK(!rtm_heap_malloc(heap, SIZE_MAX));
  CHECK_EQUAL(reported, ENOMEM);
  reported = 0;
  CHECK_EQUAL(rtm_heap_set_limits(heap, &(struct rtm_limits){.most_held = 100}), 0);
  CHECK(!rtm_heap_malloc(heap, 1000));
  CHECK_EQUAL(reported, 0);  // a limit is no want of memory
  rtm_heap_destroy(heap);
  rtm_register_error(exit_with, NULL);
  block = rtm_malloc(10);
  int status = test_in_child(double_free);
  CHECK(WIFEXITED(status));
  CHECK_EQUAL(WEXITSTATUS(status), EAGAIN);
  status = test_in_child(invalid_free);
  CHECK(WIFEXITED(status));
  CHECK_EQUAL(WEXITSTATUS(status), EINVAL);
  rtm_register_error(report, &reported);
  status = test_in_child(invalid_free);  // whoever returns sees the end all the same
  CHECK(WIFSIGNALED(status));
  CHECK_EQUAL(WTERMSIG(status), SIGABRT);
}

static struct {
  void *reserve;
  int calls;
  size_t size;
} emergency;
static bool free_reserve(size_t size, void *argument) {
  (void)argument;
  emergency.calls++;
  emergency.size = size;
  rtm_free(emergency.reserve);
  bool again = emergency.reserve != NULL;
  emergency.reserve = NULL;
  return again;
}

TEST(a_reserve_is_given_up_when_memory_ends) {
  emergency.reserve = rtm_malloc(64 << 20);
  CHECK(emergency.reserve);
  struct rtm_stats stats;
  rtm_stats(&stats);
  CHECK_EQUAL(rtm_option_set(RTM_OPTION_LIMIT, stats.mapped + (16 << 20)), 0);
  rtm_register_out_of_memory(free_reserve, NULL);
  void *large = rtm_malloc(48 << 20);  // of the reserve
  CHECK(large);
  CHECK_EQUAL(emergency.calls, 1);
  CHECK_EQUAL(emergency.size, 48 << 20);
  CHECK(!rtm_malloc(48 << 20));
  CHECK_EQUAL(emergency.calls, 2);
  rtm_free(large);
}

// The same for small blocks, of the thread's heap and of a heap object.
static void fill_up(struct rtm_heap *heap) {
  emergency.reserve = rtm_malloc(32 << 20);
  struct rtm_stats stats;
  rtm_stats(&stats);
  CHECK_EQUAL(rtm_option_set(RTM_OPTION_LIMIT, stats.mapped + (8 << 20)), 0);
  rtm_register_out_of_memory(free_reserve, NULL);
  size_t count = 0;
  while (heap ? rtm_heap_malloc(heap, 10000) : rtm_malloc(10000)) count++;
  CHECK_EQUAL(emergency.calls, 2);
  CHECK(count * 10000 > 24 << 20);
}
TEST(a_reserve_serves_small_blocks) { fill_up(NULL); }
TEST(a_reserve_serves_heap_objects) { fill_up(rtm_heap_new()); }

TEST(options_are_set_and_read) {
  CHECK_EQUAL(rtm_option_get(RTM_OPTION_PURGE), 0);
  CHECK_EQUAL(rtm_option_set(RTM_OPTION_PURGE, 2), 0);
  CHECK_EQUAL(rtm_option_get(RTM_OPTION_PURGE), 2);
  CHECK_EQUAL(rtm_option_set(RTM_OPTION_PURGE, 3), EINVAL);
  CHECK_EQUAL(rtm_option_get(RTM_OPTION_PURGE), 2);
  CHECK_EQUAL(rtm_option_get(RTM_OPTION_LIMIT), UINT64_MAX);
  CHECK_EQUAL(rtm_option_set(RTM_OPTION_ON_MISS, 1), 0);
  CHECK_EQUAL(rtm_option_get(RTM_OPTION_ON_MISS), 1);
  CHECK_EQUAL(rtm_option_set(RTM_OPTION_ON_MISS, 4), EINVAL);
  CHECK_EQUAL(rtm_option_set(RTM_OPTION_RESERVE, 8 << 20), 0);
  CHECK_EQUAL(rtm_option_set(RTM_OPTION_RESERVE, 8 << 20), EBUSY);
  CHECK_EQUAL(rtm_option_get(RTM_OPTION_RESERVE), 8 << 20);
  CHECK_EQUAL(rtm_option_set(RTM_OPTIONS, 0), EINVAL);
  CHECK_EQUAL(rtm_option_get(RTM_OPTIONS), UINT64_MAX);
}

// What purge says holds from then on.
static uint64_t purged_by_a_cycle(void) {
  struct rtm_stats before, after;
  rtm_stats(&before);
  for (int round = 0; round < 10; round++) {
    void *blocks[64];
    for (int i = 0; i < 64; i++) CHECK((blocks[i] = rtm_malloc(500000)));
    for (int i = 0; i < 64; i++) rtm_free(blocks[i]);
  }
  rtm_stats(&after);
  return after.purged - before.purged;
}
TEST(purge_may_be_changed) {
  purged_by_a_cycle();
  CHECK_EQUAL(rtm_option_set(RTM_OPTION_PURGE, 2), 0);
  CHECK_EQUAL(purged_by_a_cycle(), 0);
  CHECK_EQUAL(rtm_option_set(RTM_OPTION_PURGE, 1), 0);
  CHECK(purged_by_a_cycle() > 100 << 20);
}

static void *free_it(void *argument) {
  rtm_free(argument);
  return NULL;
}
TEST(collecting_takes_back_what_others_have_freed) {
  void *medium = rtm_malloc(1 << 20);
  struct rtm_stats before, after;
  pthread_t thread;
  CHECK_EQUAL(pthread_create(&thread, NULL, free_it, medium), 0);
  pthread_join(thread, NULL);
  rtm_stats(&before);
  rtm_collect(false);
  rtm_stats(&after);
  CHECK(before.in_use >= after.in_use + (1 << 20));
  CHECK_SOUND(rtm_check());
}
