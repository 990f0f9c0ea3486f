// Chains of threads of one routine: each frees and replaces the blocks of an array, starts its successor, and ends. What
// the successor frees was allocated by threads that are gone.
//
//   chain         one chain; each thread waits for the end of the one before
//   chain early   the same, but one thread allocates before the one before has ended
//   chain race    two chains whose threads do not wait, and start a thread that only frees beside each successor
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 2000, THREADS = 40, RACERS = 400, RACER_BLOCKS = 50, EARLY = 3 };

struct chain {
  unsigned *blocks[BLOCKS];
  unsigned count, threads, started;
  pthread_t before;
};
static struct chain chains[2];
static _Atomic unsigned running;
static int race, early;
static _Atomic bool was_early;

static void check(const unsigned *block) {
  if (block && *block != (unsigned)((uintptr_t)block >> 4)) abort();
}

static void replace_each(struct chain *chain) {
  for (unsigned i = 0; i < chain->count; i++) {
    check(chain->blocks[i]);
    free(chain->blocks[i]);
    chain->blocks[i] = malloc(8 + (i * 31 + chain->started * 17) % 1000);
    if (!chain->blocks[i]) abort();
    *chain->blocks[i] = (unsigned)((uintptr_t)chain->blocks[i] >> 4);
  }
}

static void *work(void *argument);

static void start(void *argument) {
  pthread_t thread;
  if (race) running++;
  if (pthread_create(&thread, NULL, work, argument)) abort();
  if (race) pthread_detach(thread);
}

// Of `argument` the lowest bit says that it is a block, to be freed.
static void *work(void *argument) {
  if ((uintptr_t)argument & 1) {
    unsigned *block = (unsigned *)((uintptr_t)argument - 1);
    check(block);
    free(block);
    running--;
    return NULL;
  }
  struct chain *chain = argument;
  if (early && chain->started == EARLY) {
    free(malloc(1));
    was_early = true;
  }
  if (!race && chain->started) pthread_join(chain->before, NULL);
  chain->before = pthread_self();
  replace_each(chain);
  unsigned started = ++chain->started, last = chain->threads;
  if (race && started < last) {
    unsigned *block = chain->blocks[0];
    chain->blocks[0] = NULL;
    if (started % 2) start((void *)((uintptr_t)block + 1));
    start(chain);  // the chain belongs to the successor
    if (started % 2 == 0) start((void *)((uintptr_t)block + 1));
  } else if (started < last) {
    start(chain);
    while (early && started == EARLY && !was_early) sched_yield();
  }
  if (race)
    running--;
  else if (started == last)
    exit(0);
  return NULL;
}

int main(int argc, char **argv) {
  race = argc > 1 && strcmp(argv[1], "race") == 0;
  early = argc > 1 && strcmp(argv[1], "early") == 0;
  for (unsigned i = 0; i < (race ? 2 : 1); i++) {
    chains[i].count = race ? RACER_BLOCKS : BLOCKS;
    chains[i].threads = race ? RACERS : THREADS;
    start(&chains[i]);
  }
  if (!race) pthread_exit(NULL);
  while (running) sched_yield();
  return 0;
}
