// Blocks that are aligned to more than a granule: of each alignment from 8 KiB to MOST KiB and each of some sizes a few,
// beside blocks of malloc that are as large, in an order that SEED chooses. Each is written to at both ends. They are all
// there at one time, so the peaks are the same in each order. Then some go to another thread, which frees them and asks for
// as many itself; the others are resized, or freed with their size and alignment.
//
//   wide [SEED [MOST]]
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

static void *work(void *unused) {
  give(wide[0], seed + 2);
  take(wide[1], seed + 3);
  return unused;
}

int main(int argc, char **argv) {
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
