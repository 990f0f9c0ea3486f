// probe.so: preloaded before an allocator, counts a process's allocations and times each one.
//
//     RTLAB_PROBE=/tmp/probe-%p.json LD_PRELOAD="probe.so allocator.so" program
//
// At exit it writes one JSON object to that file (%p becomes the process id): how many allocations and frees were
// served, the longest of each, and of allocations the shortest, the mean, the variance and the 99.99th
// percentile, in microseconds, and what of it the two readings of the counter take. Read by rtlab/probing.py.
//
// The front (malloc_front.h) says how it gets between a program and its allocator. The times include page faults and
// preemption: they are what the program waited. Allocations before this library's constructor are counted, not timed:
// in the first of them (libstdc++ makes one) an allocator loads its profile, which the papers do before all.

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ticks.h"

// ---- What is counted ---------------------------------------------------------------------------------------------------

// The histogram has STEPS buckets for each doubling of ticks, so a percentile read from it is at most 1/STEPS too high.
enum { STEP_BITS = 3, STEPS = 1 << STEP_BITS, BUCKETS = (64 - STEP_BITS + 1) * STEPS };
enum { SLOTS = 512, SHARED_SLOT = 0 };

// Counters of one thread; its thread writes, whoever ends the process reads. Threads beyond SLOTS - 1 share SHARED_SLOT.
struct slot {
  _Atomic uint64_t allocations;               // calls that returned a block
  _Atomic uint64_t timed;                     // of these, after the constructor
  _Atomic uint64_t frees;
  _Atomic uint64_t bytes;                     // sum of the sizes asked for
  _Atomic uint64_t longest_allocation;        // ticks
  _Atomic uint64_t shortest_below;            // 2^64 - 1 less the shortest allocation's ticks, so that 0 is none
  _Atomic uint64_t ticks;                     // of all allocations
  _Atomic double squares;                     // of their ticks: their sum does not fit into 64 bits
  _Atomic uint64_t longest_free;              // ticks
  _Atomic uint64_t histogram[BUCKETS];        // allocations by ticks
};
static struct slot slots[SLOTS];
static _Atomic unsigned next_slot = SHARED_SLOT + 1;
static __thread struct slot *own_slot;

static uint64_t start_ticks, start_ns;        // 0 before the constructor

static inline unsigned bucket_of(uint64_t ticks) {
  if (ticks < STEPS) { return (unsigned)ticks; }
  const unsigned exponent = 63u - (unsigned)__builtin_clzll(ticks);
  const unsigned step = (unsigned)(ticks >> (exponent - STEP_BITS)) & (STEPS - 1);
  return (exponent - STEP_BITS + 1) * STEPS + step;
}

static uint64_t bucket_upper_end(unsigned bucket) {
  if (bucket < STEPS) { return bucket; }
  const unsigned exponent = bucket / STEPS + STEP_BITS - 1;
  const uint64_t width = UINT64_C(1) << (exponent - STEP_BITS);
  return (STEPS + bucket % STEPS + 1) * width - 1;
}
_Static_assert(BUCKETS % STEPS == 0, "whole doublings only");

static struct slot *take_slot(void) {
  const unsigned index = atomic_fetch_add_explicit(&next_slot, 1, memory_order_relaxed);
  own_slot = &slots[index < SLOTS ? index : SHARED_SLOT];
  return own_slot;
}

static inline struct slot *slot_of_thread(void) { return own_slot != NULL ? own_slot : take_slot(); }

// Relaxed everywhere: the counters order nothing else, and are read for good after main has returned.
static inline void add(_Atomic uint64_t *counter, uint64_t amount, bool shared) {
  if (shared) {
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
  } else {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + amount, memory_order_relaxed);
  }
}

static inline void add_square(_Atomic double *sum, uint64_t ticks, bool shared) {
  const double square = (double)ticks * (double)ticks;
  double seen = atomic_load_explicit(sum, memory_order_relaxed);
  if (!shared) {
    atomic_store_explicit(sum, seen + square, memory_order_relaxed);
    return;
  }
  while (!atomic_compare_exchange_weak_explicit(sum, &seen, seen + square, memory_order_relaxed,
                                                memory_order_relaxed)) {}
}

static inline void raise_to(_Atomic uint64_t *highest, uint64_t value) {
  uint64_t seen = atomic_load_explicit(highest, memory_order_relaxed);
  while (value > seen && !atomic_compare_exchange_weak_explicit(highest, &seen, value, memory_order_relaxed,
                                                                memory_order_relaxed)) {}
}

static inline void count_allocation(uint64_t ticks, size_t bytes) {
  struct slot *slot = slot_of_thread();
  const bool shared = slot == &slots[SHARED_SLOT];
  add(&slot->allocations, 1, shared);
  add(&slot->bytes, bytes, shared);
  if (start_ticks == 0) { return; }
  add(&slot->timed, 1, shared);
  add(&slot->histogram[bucket_of(ticks)], 1, shared);
  add(&slot->ticks, ticks, shared);
  add_square(&slot->squares, ticks, shared);
  raise_to(&slot->longest_allocation, ticks);
  raise_to(&slot->shortest_below, UINT64_MAX - ticks);
}

static inline void count_free(uint64_t ticks) {
  struct slot *slot = slot_of_thread();
  add(&slot->frees, 1, slot == &slots[SHARED_SLOT]);
  raise_to(&slot->longest_free, ticks);
}

// ---- Around each call -------------------------------------------------------------------------------------------------------

// Evaluates CALL, with a time unless the allocator itself made it. The cleanup also runs when operator new throws.
#define FRONT_ALLOCATE(kind, bytes, alignment, call)                                      \
  __attribute__((cleanup(leave))) unsigned outer_depth = depth;                           \
  if (outer_depth > 0) { return (call); }                                                 \
  depth = 1;                                                                              \
  const uint64_t before = ticks_before();                                                 \
  void *const block = (call);                                                             \
  const uint64_t after = ticks_after();                                                   \
  if (block != NULL) { count_allocation(after - before, (bytes)); }                       \
  return block

#define FRONT_RESIZE(old, bytes, call) FRONT_ALLOCATE(RESIZE, bytes, 0, call)

#define FRONT_RELEASE(block, call)                                                        \
  __attribute__((cleanup(leave))) unsigned outer_depth = depth;                           \
  if (outer_depth > 0) {                                                                  \
    (call);                                                                               \
    return;                                                                               \
  }                                                                                       \
  depth = 1;                                                                              \
  const uint64_t before = ticks_before();                                                 \
  (call);                                                                                 \
  count_free(ticks_after() - before)

#define FRONT_NAME "probe.so"
#include "malloc_front.h"

// ---- The report --------------------------------------------------------------------------------------------------------------

static uint64_t sum(size_t field_offset) {
  uint64_t total = 0;
  for (unsigned i = 0; i < SLOTS; i++) {
    total += atomic_load_explicit((_Atomic uint64_t *)((char *)&slots[i] + field_offset), memory_order_relaxed);
  }
  return total;
}

static uint64_t highest(size_t field_offset) {
  uint64_t most = 0;
  for (unsigned i = 0; i < SLOTS; i++) {
    const uint64_t value =
        atomic_load_explicit((_Atomic uint64_t *)((char *)&slots[i] + field_offset), memory_order_relaxed);
    if (value > most) { most = value; }
  }
  return most;
}

// Of all allocations, in ticks squared.
static double variance_of(double mean, uint64_t total) {
  double squares = 0;
  for (unsigned i = 0; i < SLOTS; i++) { squares += atomic_load_explicit(&slots[i].squares, memory_order_relaxed); }
  const double variance = squares / (double)total - mean * mean;
  return variance > 0 ? variance : 0;
}

// The ticks that at most one allocation in `one_in` exceeded.
static uint64_t percentile(uint64_t total, uint64_t one_in) {
  uint64_t above = total / one_in;            // allocations that may lie beyond the answer
  for (unsigned bucket = BUCKETS; bucket-- > 0;) {
    const uint64_t here = sum(offsetof(struct slot, histogram) + bucket * sizeof(uint64_t));
    if (here > above) { return bucket_upper_end(bucket); }
    above -= here;
  }
  return 0;
}

// Ticks per microsecond times 1000. A process shorter than 20 ms waits until its clock is good to about 0.1 %.
static uint64_t ticks_per_ms(void) {
  enum { CALIBRATION_NS = 20 * 1000 * 1000 };
  uint64_t ns;
  while ((ns = now_ns() - start_ns) < CALIBRATION_NS) {}
  return (uint64_t)((double)(ticks_after() - start_ticks) * 1e6 / (double)ns);
}

// Replaces %p in the pattern by the process id; false if the result does not fit.
static bool report_path(char *path, size_t room, const char *pattern) {
  const char *mark = strstr(pattern, "%p");
  const int length = mark == NULL ? snprintf(path, room, "%s", pattern)
                                  : snprintf(path, room, "%.*s%d%s", (int)(mark - pattern), pattern, (int)getpid(),
                                             mark + 2);
  return length > 0 && (size_t)length < room;
}

static __attribute__((destructor)) void report(void) {
  depth = 1;                                  // nothing below counts, whatever libc does
  const char *pattern = getenv("RTLAB_PROBE");
  char path[4096];
  if (pattern == NULL || *pattern == '\0') { return; }
  const int file = report_path(path, sizeof path, pattern)
                       ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
  if (file < 0) {
    static const char message[] = "probe.so: cannot write the file named by RTLAB_PROBE\n";
    (void)!write(STDERR_FILENO, message, sizeof message - 1);
    return;
  }
  const uint64_t allocations = sum(offsetof(struct slot, allocations)), timed = sum(offsetof(struct slot, timed));
  const uint64_t per_ms = ticks_per_ms();
  const uint64_t longest = highest(offsetof(struct slot, longest_allocation));
  const uint64_t rare = percentile(timed, 10000);
  const uint64_t longest_free = highest(offsetof(struct slot, longest_free));
  const uint64_t shortest = timed > 0 ? UINT64_MAX - highest(offsetof(struct slot, shortest_below)) : 0;
  const double mean = timed > 0 ? (double)sum(offsetof(struct slot, ticks)) / (double)timed : 0;
  const double variance = timed > 0 ? variance_of(mean, timed) : 0;
  const double us = 1000.0 / (double)per_ms;
  char text[1024];
  const int length = snprintf(
      text, sizeof text,
      "{\"pid\": %d, \"allocations\": %llu, \"frees\": %llu, \"bytes\": %llu, \"longest_us\": %.3f, "
      "\"p9999_us\": %.3f, \"shortest_us\": %.4f, \"mean_us\": %.4f, \"variance_us2\": %.6f, \"overhead_us\": %.4f, "
      "\"longest_free_us\": %.3f, \"ticks_per_ms\": %llu}\n",
      (int)getpid(), (unsigned long long)allocations, (unsigned long long)sum(offsetof(struct slot, frees)),
      (unsigned long long)sum(offsetof(struct slot, bytes)), (double)longest * us,
      (double)(rare < longest ? rare : longest) * us, (double)shortest * us, mean * us, variance * us * us,
      (double)reading_overhead() * us, (double)longest_free * us, (unsigned long long)per_ms);
  (void)!write(file, text, (size_t)length);
  close(file);
}

// A forked child reports what it does itself, not its parent's past.
static void forget_parent(void) {
  memset(slots, 0, sizeof slots);
  start_ns = now_ns();
  start_ticks = ticks_after();
}

static __attribute__((constructor)) void begin(void) {
  start_ns = now_ns();
  start_ticks = ticks_after();
  (void)ready();
  pthread_atfork(NULL, NULL, forget_parent);
}
