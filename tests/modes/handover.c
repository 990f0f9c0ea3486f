// Threads that take turns, one at a time, allocate, resize and free each other's blocks at random, end, and have
// successors: handover SEED OPERATIONS MOST. No thread races, so a run is the same each time, and its profile covers it.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, BLOCKS = 300, STEPS = 20 };

static struct {
  unsigned char *at;
  size_t size;
  unsigned char filled;
} block[BLOCKS];
static uint64_t state;
static size_t most;
static sem_t go[THREADS], done;
static pthread_t thread[THREADS];
static int ends;

static uint64_t below(uint64_t limit) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (state >> 33) % limit;
}

// Each doubling is as likely as any other.
static size_t any_size(void) {
  size_t top = (size_t)16 << below(28);
  while (top > most) top /= 2;
  return top / 2 + below(top / 2) + 1;
}

static void check(unsigned i) {
  const unsigned char *at = block[i].at;
  size_t size = block[i].size;
  if (size && (at[0] != block[i].filled || at[size / 2] != block[i].filled || at[size - 1] != block[i].filled)) {
    printf("block %u of %zu bytes is damaged\n", i, size);
    exit(1);
  }
}

static void fill(unsigned i, void *at, size_t size) {
  if (!at) {
    printf("no memory for %zu bytes\n", size);
    exit(1);
  }
  block[i].at = at;
  block[i].size = size;
  block[i].filled = (unsigned char)below(256);
  memset(at, block[i].filled, size);
}

static void one(void) {
  unsigned i = (unsigned)below(BLOCKS);
  size_t size = any_size();
  check(i);
  if (!block[i].at) {
    if (below(2)) {
      fill(i, malloc(size), size);
    } else {
      unsigned char *zeros = calloc(1, size);
      if (zeros && (zeros[0] | zeros[size / 2] | zeros[size - 1])) printf("calloc of %zu is not zero\n", size), exit(1);
      fill(i, zeros, size);
    }
  } else if (below(3)) {
    // Of its own size, nearby, or any: what stays in place depends on how far it is.
    if (below(3)) size = block[i].size / 2 + below(block[i].size) + 1;
    fill(i, realloc(block[i].at, size), size);
  } else {
    free(block[i].at);
    block[i].at = NULL;
    block[i].size = 0;
  }
}

static void *work(void *number) {
  unsigned self = (unsigned)(uintptr_t)number;
  for (;;) {
    sem_wait(&go[self]);
    for (unsigned i = 0; i < STEPS; i++) one();
    if (ends) return NULL;
    sem_post(&done);
  }
}

int main(int count, char **argument) {
  if (count != 4) return 2;
  state = strtoull(argument[1], NULL, 10);
  most = strtoull(argument[3], NULL, 10);
  sem_init(&done, 0, 0);
  for (unsigned t = 0; t < THREADS; t++) {
    sem_init(&go[t], 0, 0);
    pthread_create(&thread[t], NULL, work, (void *)(uintptr_t)t);
  }
  for (long turns = strtol(argument[2], NULL, 10) / STEPS; turns > 0; turns--) {
    unsigned t = (unsigned)below(THREADS);
    ends = below(16) == 0;
    sem_post(&go[t]);
    if (!ends) {
      sem_wait(&done);
      continue;
    }
    pthread_join(thread[t], NULL);
    pthread_create(&thread[t], NULL, work, (void *)(uintptr_t)t);
  }
  puts("whole");
  return 0;
}
