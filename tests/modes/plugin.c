// A module that is opened when the program runs already. Its threads allocate; its constructor waits for one.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_barrier_t all_run;  // at one time, so that each has a heap of its own in every run

static void *work(void *unused) {
  (void)unused;
  pthread_barrier_wait(&all_run);
  enum { BLOCKS = 500 };
  static _Thread_local char *blocks[BLOCKS];
  for (unsigned i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(16 + i * 7);
    if (!blocks[i]) abort();
    memset(blocks[i], 1, 16 + i * 7);
  }
  for (unsigned i = 0; i < BLOCKS; i++) free(blocks[i]);
  return NULL;
}

static void run(unsigned threads) {
  pthread_t started[8];
  pthread_barrier_init(&all_run, NULL, threads);
  for (unsigned i = 0; i < threads; i++)
    if (pthread_create(&started[i], NULL, work, NULL) != 0) abort();
  for (unsigned i = 0; i < threads; i++) pthread_join(started[i], NULL);
  pthread_barrier_destroy(&all_run);
}

__attribute__((constructor)) static void at_open(void) { run(1); }
void plugin_run(void) { run(3); }
