// One run of a load on one of the papers' allocators, measured in one of five ways. A load's main is:
//
//   int main(int count, char **arguments) { return session_main(count, arguments, &(struct load){"help", run}); }
//
// and run() makes session_malloc() and session_free(). Command line: LOAD ALGORITHM MEASURE PROFILE [--option N]...
// ALGORITHM is a name of algorithm.h; 'malloc', that of the process (process_malloc.h); or the path of a library with
// one of others (algorithms/foreign), with a '/' in it.
//
//   space    CSV on stdout: mallocs,live,peak_live,reached in bytes, at --points times and at the end
//   parts    CSV, of 'malloc' alone: peak_live,live,usable,in_use,reserve,metadata in bytes, all but the first and the
//            last at the moment at which most was in use; its `reached` is in_use + metadata
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
#include "process_malloc.h"

enum session_measure { SESSION_SPACE, SESSION_PARTS, SESSION_CYCLES, SESSION_SIZES, SESSION_COUNT };

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
  uint64_t copies;    // task sets: each request is made so many times
};

// Bytes, of the process's malloc.
struct session_use {
  size_t live;    // requested
  size_t usable;  // by malloc_usable_size: more for rounding
  size_t in_use;  // of granules: more for open pages, or for what a profile had made
  size_t reserve;
};

struct session {
  const struct algorithm *algorithm;
  enum session_measure measure;
  const char *profile;
  struct session_options options;

  void *heap;
  uint64_t mallocs, frees;
  size_t live, peak;  // bytes requested
  size_t reached;     // highest end of a block in the area; only of algorithms/foreign, which do not count it
  char *memory;       // the area
  bool is_foreign;
  bool is_process;         // the algorithm is the process's malloc
  struct session_use use;  // of that: now and, with the highest in_use, then
  struct session_use most;
  size_t metadata;         // after the last malloc
  char *lowest, *highest;  // of its blocks
  uint64_t sampling;       // state of the random numbers that choose samples
  uint32_t *best[2];       // cycles of each malloc and each free
  uint64_t timer;          // cycles of an empty measurement
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
