// What a heap gets along with. Classes of large blocks that are busy one after the other, while small blocks come and
// stay: each class needs its pages only for a while. And generations of threads that leave blocks of many sizes to the
// main thread, which frees them: the next thread of the heap has little to do but to take them back.
//
//   sparing classes|generations
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void use_classes_in_turn(void) {
  enum { SIZES = 20, BLOCKS = 12, SMALL = 6000 };
  static void *small[SIZES][SMALL];
  for (unsigned i = 0; i < SIZES; i++) {
    void *blocks[BLOCKS];
    for (unsigned k = 0; k < BLOCKS; k++) memset(blocks[k] = malloc(7000 + 1000 * i), 1, 64);
    for (unsigned k = 0; k < BLOCKS; k++) free(blocks[k]);
    for (unsigned k = 0; k < SMALL; k++) small[i][k] = malloc(16);
  }
  for (unsigned i = 0; i < SIZES; i++)
    for (unsigned k = 0; k < SMALL; k++) free(small[i][k]);
}

enum { THREADS = 2, GENERATIONS = 1000, KEPT = 50, WORK = 100, LEFT = 25 };

struct job {
  uint32_t seed;
  void *left[LEFT];
};

// 8 bytes to 8 KiB or 2 KiB, as many of each doubling.
static void *some_block(uint32_t *seed, unsigned doublings) {
  *seed = *seed * 1103515245 + 12345;
  size_t least = (size_t)8 << *seed / 65536 % doublings;
  *seed = *seed * 1103515245 + 12345;
  return malloc(least + *seed / 65536 % least);
}

static void *live(void *argument) {
  struct job *job = argument;
  void *kept[KEPT], *work[WORK];
  for (unsigned i = 0; i < KEPT; i++) kept[i] = some_block(&job->seed, 10);
  for (unsigned i = 0; i < WORK; i++) work[i] = some_block(&job->seed, 8);
  for (unsigned i = 0; i < WORK; i++) free(work[i]);
  for (unsigned i = 0; i < LEFT; i++) job->left[i] = some_block(&job->seed, 10);
  for (unsigned i = 0; i < KEPT; i++) free(kept[i]);
  return NULL;
}

static void follow_each_other(void) {
  struct job jobs[THREADS];
  for (unsigned generation = 0; generation < GENERATIONS; generation++) {
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
      jobs[i].seed = generation * THREADS + i;
      if (pthread_create(&threads[i], NULL, live, &jobs[i])) abort();
    }
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
      for (unsigned k = 0; k < LEFT; k++) free(jobs[i].left[k]);
  }
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  if (strcmp(argv[1], "classes") == 0)
    use_classes_in_turn();
  else
    follow_each_other();
  return 0;
}
