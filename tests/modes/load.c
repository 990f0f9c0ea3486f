// A program for the modes' tests: a main thread and three workers that hand blocks to each other, the same in every
// run.
//
//   load [MORE]   MORE: so many blocks more of 777 bytes at the end, which no profile of a run without it has
//
// It does rounds, and as many again, and says on stdout how many page faults and system calls of the allocator there
// were in the second half; -1: the kernel does not tell.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "rtmalloc.h"

enum { WORKERS = 3, SLOTS = 200, ROUNDS = 20, LARGE = 4 };

// With a library that is not rtmalloc these are missing.
#pragma weak rtm_stats

static void *slots[WORKERS + 1][SLOTS];
static pthread_barrier_t barrier;

static size_t size_of(unsigned worker, unsigned slot, unsigned round) {
  static const size_t large[LARGE] = {40000, 150000, 1000000, 3000000};
  if (slot < LARGE) return large[slot];
  return 8 + (slot * 37 + worker * 11 + round % 4 * 5) % 3000;
}

// Each worker allocates its own slots, and frees those of the next one.
static void rounds(unsigned worker, unsigned count) {
  for (unsigned round = 0; round < count; round++) {
    for (unsigned slot = 0; slot < SLOTS; slot++) {
      size_t size = size_of(worker, slot, round);
      slots[worker][slot] = malloc(size);
      memset(slots[worker][slot], (int)slot, size < 64 ? size : 64);
    }
    pthread_barrier_wait(&barrier);
    unsigned other = (worker + 1) % (WORKERS + 1);
    for (unsigned slot = 0; slot < SLOTS; slot++) {
      if (*(unsigned char *)slots[other][slot] != (unsigned char)slot) abort();
      free(slots[other][slot]);
    }
    pthread_barrier_wait(&barrier);
  }
}

static void *work(void *argument) {
  unsigned worker = (unsigned)(uintptr_t)argument;
  rounds(worker, ROUNDS);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  rounds(worker, ROUNDS);
  pthread_barrier_wait(&barrier);
  return NULL;
}

static uint64_t calls(void) {
  struct rtm_stats stats = {0};
  if (rtm_stats) rtm_stats(&stats);
  return stats.system_calls;
}

int main(int count, char **arguments) {
  pthread_t threads[WORKERS];
  bool watched = faults_start();
  pthread_barrier_init(&barrier, NULL, WORKERS + 1);
  for (unsigned i = 0; i < WORKERS; i++) pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1));
  rounds(0, ROUNDS);
  pthread_barrier_wait(&barrier);
  uint64_t calls_before = calls();
  for (unsigned i = 0; i < (WORKERS + 1) * SLOTS; i++) faults_block(slots[i / SLOTS][i % SLOTS]);
  faults_mark();
  pthread_barrier_wait(&barrier);
  rounds(0, ROUNDS);
  pthread_barrier_wait(&barrier);
  unsigned all = 0, own = faults_of_allocator(&all);
  uint64_t calls_made = calls() - calls_before;
  for (unsigned i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
  unsigned refused = 0;
  for (int i = 0, more = count > 1 ? atoi(arguments[1]) : 0; i < more; i++) refused += malloc(777) == NULL;
  printf("faults %d of %u calls %llu refused %u\n", watched ? (int)own : -1, all, (unsigned long long)calls_made,
         refused);
  return 0;
}
