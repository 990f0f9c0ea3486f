// One run of a load on one of the papers' allocators, measured in one of four ways. A load's main is:
//
//   int main(int count, char **arguments) { return session_main(count, arguments, &(struct load){"help", run}); }
//
// and run() makes session_malloc() and session_free(). Command line: LOAD ALGORITHM MEASURE PROFILE [--option N]...
//
//   space    CSV on stdout: mallocs,live,peak_live,reached in bytes, at --points times and at the end
//   cycles   CSV: operation,cycles for each; the smallest of --replicas runs with the same seed (the papers' voting),
//            less the timer's own cost
//   sizes    CSV: bytes of each request
//   count    nothing on stdout; run by stepcount, which counts the instructions of one operation in --sample
//
// Layer: lab/paper, above algorithm.h and lab/steps' marks. Exit status 2: wrong usage; 3: the area is too small.
#ifndef PAPER_SESSION_H
#define PAPER_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algorithm.h"

enum session_measure { SESSION_SPACE, SESSION_CYCLES, SESSION_SIZES, SESSION_COUNT };

struct session_options {
  uint64_t seed;
  uint64_t set_seed;  // of the task set; 0: the seed
  uint64_t mallocs;
  uint64_t area;      // bytes
  uint64_t sample;    // count: one operation in so many, at random
  uint64_t points;    // space: rows
  uint64_t replicas;  // cycles
  uint64_t server;    // task sets: period of the deallocation task, time units
  uint64_t in_time;   // task sets: holding times in time units
  uint64_t blocks;    // worst cases: smallest blocks in the area
};

struct session {
  const struct algorithm *algorithm;
  enum session_measure measure;
  const char *profile;
  struct session_options options;

  void *heap;
  uint64_t mallocs, frees;
  size_t live, peak;  // bytes requested
  uint64_t sampling;  // state of the random numbers that choose samples
  uint32_t *best[2];  // cycles of each malloc and each free
  uint64_t timer;     // cycles of an empty measurement
};

struct load {
  const char *help;  // the profiles
  void (*run)(struct session *session);
};

void *session_malloc(struct session *session, size_t bytes);
void session_free(struct session *session, void *block, size_t bytes);

// For worst cases: which operations are counted is said by the load, not sampled.
void session_count_all(struct session *session, bool counting);

_Noreturn void session_fail(int status, const char *format, ...);

int session_main(int count, char **arguments, const struct load *load);

#endif
