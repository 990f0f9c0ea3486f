// Threads allocate, free each other's blocks, exit and start, and look at every block's contents. Built twice:
//   proofs_stress       under the random scheduler (scheduler.h): a few threads, very many interleavings
//   proofs_stress_free  threads run freely, with pauses at random; under TSan by tests/sanitizers.sh
//   usage: proofs_stress [SCHEDULES [SEED]]
// After each schedule all threads have exited: every block is freed, collected and given back, and every invariant
// holds. A failure names the schedule's number and the seed of the whole run, which together repeat it (the scheduler
// only).
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "heap.h"
#include "rtmalloc.h"
#ifdef PROOFS_SCHEDULER
#include "scheduler.h"
#endif

enum { THREADS_MOST = 5, PLACES = 24, OPERATIONS_MOST = 60 };

static uint64_t seed, schedule;
static void *_Atomic places[PLACES];

_Noreturn static void fail(const char *what) {
  fprintf(stderr, "schedule %llu of seed %llu: %s\n", (unsigned long long)schedule, (unsigned long long)seed, what);
  abort();
}

static uint64_t mix(uint64_t word) {  // splitmix64's
  word += 0x9e3779b97f4a7c15u;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
  return word ^ (word >> 31);
}

struct stream {
  uint64_t state;
};
static uint64_t below(struct stream *stream, uint64_t most) { return mix(stream->state += 0x9e3779b97f4a7c15u) % most; }

// ---- blocks that know who they are ----

struct stamp {
  struct stamp *self;
  uint64_t size;
};

// Few sizes, so that threads meet in the same pages: many blocks a page, four, one; and medium blocks.
static size_t some_size(struct stream *stream) {
  static const size_t sizes[] = {16, 16, 64, 1000, 1000, 4000, 30000, 40000, 40000, 300000};
  return sizes[below(stream, sizeof sizes / sizeof *sizes)];
}

static struct stamp *make(size_t size) {
  struct stamp *block = rtm_malloc(size);
  if (!block) fail("no memory");
  block->self = block;
  block->size = size;
  if (size > 2 * sizeof *block) memset((char *)block + size - 8, 0x5a, 8);
  return block;
}

static void end(struct stamp *block) {
  static const char pattern[8] = {0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a};
  if (block->self != block) fail("a block's first word is another's");
  size_t size = block->size;
  if (rtm_usable_size(block) < size) fail("a block is too small");
  if (size > 2 * sizeof *block && memcmp((char *)block + size - 8, pattern, 8) != 0)
    fail("a block's last word is another's");
  block->self = NULL;
  rtm_free(block);
}

// ---- threads ----

struct worker {
  unsigned number;
  struct stream stream;
};

static void pause_sometimes(struct stream *stream) {
#ifndef PROOFS_SCHEDULER
  uint64_t chance = below(stream, 64);
  if (chance < 8) sched_yield();
  if (chance == 8) nanosleep(&(struct timespec){.tv_nsec = (long)below(stream, 50000)}, NULL);
#else
  (void)stream;
#endif
}

static void *work(void *argument) {
  struct worker *worker = argument;
  struct stream *stream = &worker->stream;
#ifdef PROOFS_SCHEDULER
  scheduler_enter(worker->number);
#endif
  struct stamp *own[4] = {0};
  unsigned kind = (unsigned)below(stream, 4);  // 0: mostly allocates; 1: mostly frees others' blocks; else both
  for (uint64_t i = below(stream, OPERATIONS_MOST); i > 0; i--) {
    pause_sometimes(stream);
    uint64_t choice = below(stream, 16);
    void *_Atomic *place = &places[below(stream, PLACES)];
    if (choice == 0) {
      unsigned mine = (unsigned)below(stream, 4);
      if (own[mine]) end(own[mine]);
      own[mine] = make(some_size(stream));
    } else if (choice == 1 && below(stream, 4) == 0) {
      rtm_trim();
    } else if (kind == 1 || (kind > 1 && choice < 8)) {
      struct stamp *block = atomic_exchange(place, NULL);
      if (block) end(block);
    } else {
      struct stamp *block = atomic_exchange(place, make(some_size(stream)));
      if (block) end(block);
    }
  }
  for (unsigned i = 0; i < 4; i++)
    if (own[i]) end(own[i]);
  return NULL;  // the heap becomes an orphan
}

static void check_all(void) {
  for (unsigned i = 0; i < PLACES; i++)
    if (atomic_load(&places[i])) end(atomic_exchange(&places[i], NULL));
  rtm_trim();
  struct rtm_stats stats;
  rtm_stats(&stats);
  if (stats.in_use) fail("a block is lost: it was freed, and no owner has seen it");
  for (struct heap *heap = heap_first(); heap; heap = heap->next) {
    const char *broken = check_heap(heap);
    if (broken) fail(broken);
  }
}

static void run_schedule(void) {
  struct worker workers[THREADS_MOST];
  pthread_t threads[THREADS_MOST];
  struct stream stream = {mix(seed) + mix(schedule)};
  unsigned count = 2 + (unsigned)below(&stream, THREADS_MOST - 1);
#ifdef PROOFS_SCHEDULER
  scheduler_begin(stream.state, count);
#endif
  for (unsigned i = 0; i < count; i++) {
    workers[i] = (struct worker){i, {mix(stream.state + i)}};
    if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) fail("no thread");
  }
  for (unsigned i = 0; i < count; i++) pthread_join(threads[i], NULL);
  // Now and then the blocks stay for the next schedule's threads.
  if (below(&stream, 2)) check_all();
}

int main(int argc, char **argv) {
  uint64_t schedules = argc > 1 ? (uint64_t)strtod(argv[1], NULL) : 300;
  seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL) ^ (uint64_t)getpid() << 32;
  if (argc > 3 || schedules == 0) {
    fprintf(stderr, "usage: %s [SCHEDULES [SEED]]\n", argv[0]);
    return 2;
  }
  rtm_free(rtm_malloc(1));  // the core's thread key comes first
  for (schedule = 0; schedule < schedules; schedule++) run_schedule();
  check_all();
#ifdef PROOFS_SCHEDULER
  printf("%llu schedules of seed %llu hold: %llu accesses, %llu changes of thread\n", (unsigned long long)schedules,
         (unsigned long long)seed, (unsigned long long)scheduler_accesses(), (unsigned long long)scheduler_changes());
#else
  printf("%llu rounds of seed %llu hold\n", (unsigned long long)schedules, (unsigned long long)seed);
#endif
  return 0;
}
