// Blocks that are aligned to more than a granule: of each alignment from 8 KiB to MOST KiB and each of some sizes a few,
// beside blocks of malloc that are as large, in an order that SEED chooses. Each is written to at both ends. They are all
// there at one time, so the peaks are the same in each order. Then some go to another thread, which frees them and asks for
// as many itself; half of them are freed with their size and alignment. Or something that cannot be had is asked for. Or of
// two threads, side by side or one after the other, one asks for some.
//
//   wide [SEED [MOST]] | wide impossible | wide beside | wide after 0|1
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void free_aligned_sized(void *block, size_t alignment, size_t size);  // C23

enum { FEW = 3, SIZES = 6, ALIGNMENTS = 10, BLOCKS = FEW * SIZES * ALIGNMENTS };
static const size_t sizes[SIZES] = {100, 5000, 40 << 10, 100 << 10, 700 << 10, 3000 << 10};

struct wide {
  char *block, *usual;
  size_t alignment, size;
};
static struct wide wide[2][BLOCKS];
static size_t most = 256 << 10;

static void check(bool holds) {
  if (!holds) abort();
}

static void shuffle(struct wide *all, uint32_t seed) {
  for (unsigned i = BLOCKS - 1; i > 0; i--) {
    seed = seed * 1664525 + 1013904223;
    unsigned at = (seed >> 8) % (i + 1);
    struct wide other = all[i];
    all[i] = all[at];
    all[at] = other;
  }
}

static void take(struct wide *all, uint32_t seed) {
  for (unsigned i = 0; i < BLOCKS; i++)
    all[i] = (struct wide){.alignment = (size_t)8192 << i % ALIGNMENTS, .size = sizes[i / ALIGNMENTS % SIZES]};
  shuffle(all, seed);
  for (unsigned i = 0; i < BLOCKS; i++) {
    struct wide *one = &all[i];
    if (one->alignment > most) continue;
    check((one->block = aligned_alloc(one->alignment, one->size)) && ((uintptr_t)one->block & (one->alignment - 1)) == 0);
    check((one->usual = malloc(one->size)) != NULL);
    one->block[0] = one->block[one->size - 1] = one->usual[0] = one->usual[one->size - 1] = (char)i;
  }
}

static void give(struct wide *all, uint32_t seed) {
  for (unsigned i = 0; i < BLOCKS; i++)
    if (all[i].block) check(all[i].block[0] == (char)i && all[i].block[all[i].size - 1] == (char)i);
  shuffle(all, seed + 1);
  for (unsigned i = 0; i < BLOCKS; i++) {
    if (i % 2)
      free(all[i].block);
    else
      free_aligned_sized(all[i].block, all[i].alignment, all[i].size);
    free(all[i].usual);
  }
}

static uint32_t seed = 1;
static bool beside_each_other;

static void *work(void *unused) {
  give(wide[0], seed + 2);
  take(wide[1], seed + 3);
  return unused;
}

static pthread_barrier_t beside;

static void *ask(void *asks) {
  if (beside_each_other) pthread_barrier_wait(&beside);
  for (unsigned i = 0; asks && i < 20; i++) check((wide[0][i].block = aligned_alloc(1 << 16, 1 << 16)) != NULL);
  for (unsigned i = 0; asks && i < 20; i++) free(wide[0][i].block);
  if (beside_each_other) pthread_barrier_wait(&beside);
  return NULL;
}

static void let_one_ask(unsigned which) {
  pthread_t thread[2];
  pthread_barrier_init(&beside, NULL, 2);
  for (unsigned i = 0; i < 2; i++) {
    check(pthread_create(&thread[i], NULL, ask, i == which ? wide : NULL) == 0);
    if (!beside_each_other) pthread_join(thread[i], NULL);
  }
  for (unsigned i = 0; beside_each_other && i < 2; i++) pthread_join(thread[i], NULL);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "impossible") == 0) {
    for (unsigned shift = 44; shift < 47; shift++) check(aligned_alloc(1 << 20, (size_t)1 << shift) == NULL);
    free(malloc((size_t)1 << 42));  // larger than any bin; it may be had
    for (size_t size = 16; size < 1000; size += 16) check((wide[0][0].block = malloc(size)) != NULL);
    return 0;
  }
  beside_each_other = argc > 1 && strcmp(argv[1], "beside") == 0;
  if (beside_each_other || (argc > 2 && strcmp(argv[1], "after") == 0)) {
    let_one_ask(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
    return 0;
  }
  if (argc > 1) seed = (uint32_t)atoi(argv[1]);
  if (argc > 2) most = (size_t)atoi(argv[2]) << 10;
  take(wide[0], seed);
  pthread_t thread;
  check(pthread_create(&thread, NULL, work, NULL) == 0 && pthread_join(thread, NULL) == 0);
  give(wide[1], seed + 4);
  take(wide[0], seed + 5);
  give(wide[0], seed + 6);
  return 0;
}
