// A chain of threads: each frees and replaces blocks of an array, starts its successor, and ends. What the successor
// frees was allocated by threads that are gone.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 2000, THREADS = 40 };
static void *blocks[BLOCKS];
static pthread_t before;
static unsigned started;

static void replace_each(void) {
  for (unsigned i = 0; i < BLOCKS; i++) {
    free(blocks[i]);
    blocks[i] = malloc(8 + (i * 31 + started * 17) % 1000);
    if (!blocks[i]) abort();
  }
}

static void *work(void *first) {
  if (!first) pthread_join(before, NULL);
  before = pthread_self();
  replace_each();
  pthread_t next;
  if (++started < THREADS && pthread_create(&next, NULL, work, NULL)) abort();
  if (started == THREADS) exit(0);
  return NULL;
}

int main(void) {
  pthread_t first;
  if (pthread_create(&first, NULL, work, blocks)) abort();
  pthread_exit(NULL);
}
