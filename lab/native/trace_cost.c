// trace_cost: what librtmalloc-trace.so adds to a malloc and a free, each. Run it under the recorder:
//
//     build/rtmalloc trace record -o t -- build/trace_cost [PAIRS]
//
// It compares pairs within one process: a batch of mallocs and frees through the library, and the same batch by the
// addresses of libc's functions, past the library. It prints the smallest and the median difference in nanoseconds per
// operation: interrupts and other guests only ever add.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ticks.h"

enum { BATCH = 5000, LIVE = 50, MOST_PAIRS = 100000 };

typedef void *(*allocate)(size_t);
typedef void (*release)(void *);

// Nanoseconds per operation of BATCH mallocs and frees, LIVE blocks at a time.
static double batch(allocate take, release give) {
  void *blocks[LIVE];
  const uint64_t start = now_ns();
  for (int round = 0; round < BATCH / LIVE; round++) {
    for (int i = 0; i < LIVE; i++) { blocks[i] = take((size_t)(16 + 16 * (i % 8))); }
    for (int i = 0; i < LIVE; i++) { give(blocks[i]); }
  }
  return (double)(now_ns() - start) / (2 * BATCH);
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int count, char **arguments) {
  const long pairs = count > 1 ? strtol(arguments[1], NULL, 10) : 200;
  if (pairs < 1 || pairs > MOST_PAIRS) {
    fprintf(stderr, "usage: trace_cost [PAIRS]; PAIRS is 1 to %d\n", MOST_PAIRS);
    return 2;
  }
  void *libc = dlopen(LIBC_SO, RTLD_NOW);
  allocate straight_malloc;
  release straight_free;
  *(void **)&straight_malloc = dlsym(libc, "malloc");
  *(void **)&straight_free = dlsym(libc, "free");
  double *added = malloc((size_t)pairs * sizeof *added);
  double fastest_with = 1e9, fastest_without = 1e9;
  for (long i = 0; i < pairs; i++) {
    const double without = batch(straight_malloc, straight_free), with = batch(malloc, free);
    added[i] = with - without;
    if (with < fastest_with) { fastest_with = with; }
    if (without < fastest_without) { fastest_without = without; }
  }
  qsort(added, (size_t)pairs, sizeof *added, ascending);
  printf("ns per operation: %.1f with, %.1f without (fastest batches); added: fastest %.1f, median of pairs %.1f\n",
         fastest_with, fastest_without, fastest_with - fastest_without, added[pairs / 2]);
  free(added);
  return 0;
}
