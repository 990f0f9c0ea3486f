// ticks.h: the processor's cycle counter, with the fences that keep a measured call between two readings.
#ifndef RTLAB_TICKS_H
#define RTLAB_TICKS_H

#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
// The fences keep the measured call's instructions between the two readings (Intel's guide to rdtscp).
static inline uint64_t ticks_before(void) {
  _mm_lfence();
  const uint64_t ticks = __rdtsc();
  _mm_lfence();
  return ticks;
}
static inline uint64_t ticks_after(void) {
  unsigned processor;
  const uint64_t ticks = __rdtscp(&processor);
  _mm_lfence();
  return ticks;
}
#elif defined(__aarch64__)
static inline uint64_t ticks_before(void) {
  uint64_t ticks;
  __asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(ticks)::"memory");
  return ticks;
}
static inline uint64_t ticks_after(void) { return ticks_before(); }
#else
#error "ticks.h knows the cycle counters of x86-64 and aarch64 only: add ticks_before and ticks_after for this processor"
#endif

// What two readings with nothing between them take, at least.
static inline uint64_t reading_overhead(void) {
  enum { READINGS = 10000 };
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < READINGS; i++) {
    const uint64_t before = ticks_before();
    const uint64_t passed = ticks_after() - before;
    if (passed < least) { least = passed; }
  }
  return least;
}

static inline uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
