// Large sizes that take turns: never more than three blocks at a time, of any of 24 sizes up to 16 MiB, in an order that
// a number chooses. And two threads of one routine, of which the second needs twice as much as the first.
//
//   turns [SEED]
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 24, AT_ONCE = 3, BLOCKS = 3000 };

static size_t size_of(unsigned number) { return (size_t)(9 + number % 8) << (17 + number / 8 + 1); }

static void take_turns(uint32_t seed) {
  void *blocks[AT_ONCE] = {0};
  for (unsigned i = 0; i < 20 * SIZES; i++) {
    seed = seed * 1103515245 + 12345;
    unsigned place = i % AT_ONCE;
    free(blocks[place]);
    size_t size = size_of(i < SIZES ? i : seed / 65536 % SIZES);
    blocks[place] = malloc(size);
    if (!blocks[place]) abort();
    memset(blocks[place], 1, 64);
  }
  for (unsigned i = 0; i < AT_ONCE; i++) free(blocks[i]);
}

static pthread_barrier_t together;

static void *need(void *times) {
  pthread_barrier_wait(&together);
  void **blocks = calloc(2 * BLOCKS, sizeof *blocks);
  for (unsigned i = 0; i < BLOCKS * (unsigned)(uintptr_t)times; i++) blocks[i] = malloc(1000);
  for (unsigned i = 0; i < 2 * BLOCKS; i++) free(blocks[i]);
  free(blocks);
  return NULL;
}

int main(int argc, char **argv) {
  take_turns(argc > 1 ? (uint32_t)atoi(argv[1]) : 1);
  pthread_t threads[2];
  pthread_barrier_init(&together, NULL, 2);
  for (uintptr_t i = 0; i < 2; i++)
    if (pthread_create(&threads[i], NULL, need, (void *)(i + 1))) abort();
  for (unsigned i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return 0;
}
