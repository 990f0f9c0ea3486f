// What a heap gets along with. Classes of large blocks that are busy one after the other, while small blocks come and
// stay: each class needs its pages only for a while. Generations of threads that leave blocks of many sizes to the main
// thread, which frees them: the next thread of the heap has little to do but to take them back. Blocks of LEAST to MOST
// KiB that another thread frees, the oldest first. And small sizes that take turns, in an order that a number chooses:
// whatever a block can do that has a store of its own size. And pages and spans that come and go side by side. And blocks
// of 1 MiB, of which three fit in a segment, among small ones, resized at times. And blocks of KIB, of which every
// other one is freed, and longer ones that do not fit where they were. And BLOCKS of each size in turn, which are freed with
// their size and alignment. And BLOCKS of KIB that another thread frees before as much memory is asked for in blocks of
// NEXT KiB, with small ones in pages between, three times. And blocks of many sizes, after which the program has unused
// memory given back. And BLOCKS of up to BYTES that THREADS, one after the other, have while their data are destroyed.
// And THREADS, one after the other, whose 40 blocks the main thread frees: memory must not grow with their number.
// And two threads of one routine that need nearly as much, of different sizes, at one time or one after the other.
//
//   sparing classes|generations|passing LEAST MOST|sizes [SEED]|mixed [SEED [MOST]]|arenas [SEED]|holes [KIB [BLOCKS]]
//           |ended THREADS|told BLOCKS|elsewhere KIB BLOCKS NEXT|trimmed|destructors BLOCKS BYTES THREADS|places together|places apart
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void free_sized(void *block, size_t size);  // C23
void free_aligned_sized(void *block, size_t alignment, size_t size);

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

enum { LEFT_BLOCKS = 40, LEFT_SEEDS = 50 };

struct left {
  uint32_t seed;
  void *blocks[LEFT_BLOCKS];
};

// Most to 800 bytes, one of 16 to 20,000.
static void *leave_all(void *argument) {
  struct left *left = argument;
  for (unsigned i = 0; i < LEFT_BLOCKS; i++) {
    uint32_t random = left->seed = left->seed * 1103515245 + 12345;
    left->blocks[i] = malloc((random >> 8) % 16 == 0 ? 8 + (random >> 12) % 20000 : 8 + (random >> 12) % 800);
  }
  return NULL;
}

static void free_what_ended_threads_left(unsigned threads) {
  struct mallinfo2 soon = {0};
  for (unsigned i = 0; i < threads; i++) {
    struct left left = {.seed = 7919 * (i % LEFT_SEEDS) + 1};
    pthread_t thread;
    if (pthread_create(&thread, NULL, leave_all, &left) != 0) abort();
    pthread_join(thread, NULL);
    for (unsigned k = 0; k < LEFT_BLOCKS; k++) free(left.blocks[k]);
    if (i == threads / 4) soon = mallinfo2();
  }
  if (mallinfo2().arena > soon.arena + (4 << 20)) exit(3);
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

enum { LIVE = 300 };
static void *_Atomic passed;

static void *free_what_is_passed(void *end) {
  for (void *block; (block = atomic_exchange(&passed, NULL)) != end;)
    if (block)
      free(block);
    else
      sched_yield();
  return NULL;
}

static void pass(void *block) {
  for (void *empty = NULL; !atomic_compare_exchange_weak(&passed, &empty, block); empty = NULL) sched_yield();
}

static void pass_blocks_on(uint32_t least, uint32_t most) {
  static void *blocks[LIVE];
  uint32_t random = 1;
  pthread_t other;
  if (pthread_create(&other, NULL, free_what_is_passed, &passed)) abort();
  for (unsigned i = 0; i < 60 * LIVE; i++) {
    void **block = &blocks[i % LIVE];
    if (*block) pass(*block);
    random = random * 1664525 + 1013904223;
    *block = malloc((size_t)(least + (random >> 8) % (most - least)) << 10);
    if (!*block) abort();
  }
  pass(&passed);
  pthread_join(other, NULL);
}

enum { AT_ONCE = 1000 };
static char *taken[AT_ONCE];

static void check(bool holds) {
  if (!holds) abort();
}

static void *free_every_other(void *unused) {
  for (unsigned k = 0; k < AT_ONCE; k += 2) free(taken[k]);
  return unused;
}

// `size`: of one of eight classes.
static void take_many(size_t size, bool others_free) {
  size_t least = (size_t)1 << (63 - __builtin_clzll(size - 1));  // no class of the eight is smaller
  for (unsigned k = 0; k < AT_ONCE; k++) {
    bool aligned = k % 3 == 0 && size % 64 == 0;
    taken[k] = aligned ? aligned_alloc(64, size) : malloc(size);
    check(taken[k] && malloc_usable_size(taken[k]) >= size && (!aligned || (uintptr_t)taken[k] % 64 == 0));
    memset(taken[k], (int)k, size);
    taken[k] = realloc(taken[k], least + 1 + k % (size - least));
    check(taken[k] && taken[k][0] == (char)k && taken[k][least] == (char)k);
  }
  pthread_t other;
  if (others_free) {
    check(pthread_create(&other, NULL, free_every_other, NULL) == 0);
    pthread_join(other, NULL);
  } else {
    free_every_other(NULL);
  }
  for (unsigned k = 1; k < AT_ONCE; k += 2) free(taken[k]);
  void *exactly = malloc(size);
  free_sized(exactly, size);
}

static void let_sizes_take_turns(uint32_t seed) {
  enum { SIZES = 24, TURNS = 72 };
  for (unsigned i = 0; i < TURNS; i++) {
    seed = seed * 1103515245 + 12345;
    unsigned number = i < SIZES ? i : seed / 65536 % SIZES;
    take_many((size_t)(9 + number % 8) << (5 + number / 8), i % 2);
  }
}

static void tell_sizes(unsigned blocks) {
  enum { MOST = 4000, FROM = 144, TO = 2048 };
  static void *told[MOST];
  check(blocks <= MOST);
  for (size_t size = FROM; size <= TO; size += 16) {
    size_t alignment = size % 64 == 0 ? 64 : 0;
    for (unsigned k = 0; k < blocks; k++)
      check((told[k] = alignment ? aligned_alloc(alignment, size) : malloc(size)) && (uintptr_t)told[k] % 16 == 0);
    for (unsigned k = 0; k < blocks; k++) {
      if (alignment)
        free_aligned_sized(told[k], alignment, size);
      else
        free_sized(told[k], size);
    }
  }
}

// Pages and spans side by side, replaced at random: of 16 blocks one has up to MOST KiB, the others up to 4,000 bytes.
static void mix_pages_and_spans(uint32_t seed, uint32_t most) {
  enum { BLOCKS = 500, TURNS = 50000 };
  static void *blocks[BLOCKS];
  for (unsigned i = 0; i < TURNS; i++) {
    seed = seed * 1664525 + 1013904223;
    unsigned at = (seed >> 10) % BLOCKS;
    free(blocks[at]);
    blocks[at] = malloc(1 + (seed >> 9) % (seed >> 28 ? 4000 : most << 10));
  }
  for (unsigned i = 0; i < BLOCKS; i++) free(blocks[i]);
}

static void keep_arenas(uint32_t seed) {
  enum { ARENAS = 24, TURNS = 3000, SMALL = 400 };
  static char *arena[ARENAS], *small[SMALL];
  for (unsigned i = 0; i < TURNS; i++) {
    seed = seed * 1664525 + 1013904223;
    unsigned at = (seed >> 10) % ARENAS, other = (seed >> 10) % SMALL;
    free(small[other]);
    check((small[other] = malloc(1 + (seed >> 9) % 2000)) != NULL);
    if (i % 8) continue;
    if (arena[at]) check(arena[at][0] == (char)at);
    free(arena[at]);
    check((arena[at] = malloc((i % 5 ? 1024 : 300) << 10)) != NULL);
    memset(arena[at], (int)at, 100);
    if (i % 5) continue;
    check((arena[at] = realloc(arena[at], 1024 << 10)) != NULL && arena[at][99] == (char)at);
  }
  for (unsigned i = 0; i < ARENAS; i++) free(arena[i]);
  for (unsigned i = 0; i < SMALL; i++) free(small[i]);
}

static void free_half(void **blocks, unsigned count) {
  for (unsigned i = 0; i < count; i += 2) {
    free(blocks[i]);
    blocks[i] = NULL;
  }
}

static void leave_holes(size_t size, unsigned count) {
  enum { MOST = 1000, ROUNDS = 3 };
  static void *blocks[MOST], *longer[MOST];
  check(count <= MOST);
  for (unsigned round = 0; round < ROUNDS; round++) {
    for (unsigned i = 0; i < count; i++) check((blocks[i] = malloc(size)) != NULL);
    free_half(blocks, count);
    for (unsigned i = 0; i < count / 4; i++) check((longer[i] = malloc(2 * size)) != NULL);
    free_half(longer, count / 4);
    for (unsigned i = 0; i < count / 8; i++) check((longer[2 * i] = malloc(5 * size / 2)) != NULL);
    for (unsigned i = 0; i < count; i++) free(blocks[i]);
    for (unsigned i = 0; i < count / 4; i++) free(longer[i]);
  }
}

struct blocks {
  size_t count;
  void **block;
};
static void *free_all(void *argument) {
  const struct blocks *blocks = argument;
  for (size_t i = 0; i < blocks->count; i++) free(blocks->block[i]);
  return NULL;
}
static void make(struct blocks *blocks, size_t size) {
  for (size_t i = 0; i < blocks->count; i++) {
    memset(blocks->block[i] = malloc(size), 1, 64);
    for (unsigned k = 0; k < 50; k++) {
      void *volatile small = malloc(3000);
      free(small);
    }
  }
}
static void have_freed_elsewhere(size_t size, size_t count, size_t next) {
  enum { ROUNDS = 3, BLOCKS_MOST = 1000 };
  static void *places[BLOCKS_MOST];
  for (unsigned round = 0; round < ROUNDS; round++) {
    struct blocks blocks = {count < BLOCKS_MOST ? count : BLOCKS_MOST, places};
    make(&blocks, size);
    pthread_t thread;
    pthread_create(&thread, NULL, free_all, &blocks);
    pthread_join(thread, NULL);
    blocks.count = blocks.count * size / next;
    make(&blocks, next);
    free_all(&blocks);
  }
}

static void have_unused_memory_given_back(void) {
  enum { BLOCKS = 100, STEP = 3000, ROUNDS = 2 };
  static void *blocks[BLOCKS];
  for (unsigned round = 0; round < ROUNDS; round++) {
    for (size_t i = 0; i < BLOCKS; i++) memset(blocks[i] = malloc(i * STEP + 1), 1, 1);
    for (size_t i = 0; i < BLOCKS; i++) free(blocks[i]);
    malloc_trim(0);
  }
}

static pthread_key_t key;
static size_t destroyed_blocks, destroyed_bytes;

static void destroy(void *unused) {
  (void)unused;
  void *blocks[64];
  for (size_t i = 0; i < destroyed_blocks; i++) blocks[i] = malloc(1 + i * destroyed_bytes / destroyed_blocks);
  for (size_t i = 0; i < destroyed_blocks; i++) free(blocks[i]);
}

static void *have_data(void *unused) {
  pthread_setspecific(key, &key);
  free(malloc(10));
  return unused;
}

static void allocate_in_destructors(size_t blocks, size_t bytes, unsigned threads) {
  destroyed_blocks = blocks < 64 ? blocks : 64;
  destroyed_bytes = bytes;
  pthread_key_create(&key, destroy);
  for (unsigned i = 0; i < threads; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, have_data, NULL);
    pthread_join(thread, NULL);
  }
}

static pthread_barrier_t both;
static bool at_one_time;

static void *have_blocks(void *is_first) {
  enum { BLOCKS = 4000, FIRST = 100, SECOND = 90 };
  static _Thread_local void *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) blocks[i] = malloc(is_first ? FIRST : SECOND);
  if (at_one_time) pthread_barrier_wait(&both);
  for (size_t i = 0; i < BLOCKS; i++) free(blocks[i]);
  return NULL;
}

static void take_places(bool together) {
  pthread_t first, second;
  at_one_time = together;
  pthread_barrier_init(&both, NULL, 2);
  pthread_create(&first, NULL, have_blocks, &both);
  if (!together) pthread_join(first, NULL);
  pthread_create(&second, NULL, have_blocks, NULL);
  if (together) pthread_join(first, NULL);
  pthread_join(second, NULL);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  if (strcmp(argv[1], "classes") == 0)
    use_classes_in_turn();
  else if (strcmp(argv[1], "ended") == 0 && argc == 3)
    free_what_ended_threads_left((unsigned)atoi(argv[2]));
  else if (strcmp(argv[1], "passing") == 0)
    pass_blocks_on(argc > 2 ? (uint32_t)atoi(argv[2]) : 20, argc > 3 ? (uint32_t)atoi(argv[3]) : 32);
  else if (strcmp(argv[1], "sizes") == 0)
    let_sizes_take_turns(argc > 2 ? (uint32_t)atoi(argv[2]) : 1);
  else if (strcmp(argv[1], "told") == 0)
    tell_sizes(argc > 2 ? (unsigned)atoi(argv[2]) : 1000);
  else if (strcmp(argv[1], "arenas") == 0)
    keep_arenas(argc > 2 ? (uint32_t)atoi(argv[2]) : 1);
  else if (strcmp(argv[1], "holes") == 0)
    leave_holes((size_t)(argc > 2 ? atoi(argv[2]) : 50) << 10, argc > 3 ? (unsigned)atoi(argv[3]) : 400);
  else if (strcmp(argv[1], "elsewhere") == 0 && argc == 5)
    have_freed_elsewhere((size_t)atoi(argv[2]) << 10, (size_t)atoi(argv[3]), (size_t)atoi(argv[4]) << 10);
  else if (strcmp(argv[1], "trimmed") == 0)
    have_unused_memory_given_back();
  else if (strcmp(argv[1], "destructors") == 0 && argc == 5)
    allocate_in_destructors((size_t)atoi(argv[2]), (size_t)atoi(argv[3]), (unsigned)atoi(argv[4]));
  else if (strcmp(argv[1], "places") == 0 && argc == 3)
    take_places(strcmp(argv[2], "together") == 0);
  else if (strcmp(argv[1], "mixed") == 0)
    mix_pages_and_spans(argc > 2 ? (uint32_t)atoi(argv[2]) : 1, argc > 3 ? (uint32_t)atoi(argv[3]) : 200);
  else
    follow_each_other();
  return 0;
}
