// The arena: runs of segments for huge blocks, their resizing and moving, limits, metadata.
#include "arena.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "os/pin.h"
#include "rtmalloc.h"
#include "secure/secure.h"
#include "test.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static struct rtm_stats stats(void) {
  struct rtm_stats now;
  rtm_stats(&now);
  return now;
}

// Walks all segments: free runs do not touch each other and are listed once; what is counted adds up.
static void check_arena(void) {
  struct arena *a = &rtm_arena;
  uint32_t listed = 0, walked = 0, free_segments = 0, singles = 0, retained = 0, retained_listed = 0;
  for (uint32_t list = 0; list < TLSF_LISTS; list++)
    for (struct span *run = a->runs.head[list]; run; run = run->free_next) {
      CHECK_EQUAL(run->kind, SPAN_FREE);
      CHECK(++listed <= a->segments_known);
    }
  for (uint32_t i = a->singles; i; i = segment_at(i)->next) {
    CHECK(++singles <= a->segments_known);
    retained += segment_at(i)->mapped;
  }
  bool free_before = false;
  for (uint32_t i = 1; i < a->segments_known;) {
    struct span *run = segment_slot(i, RUN_SLOT);
    bool is_free = run->kind == SPAN_FREE;
    CHECK(!(is_free && free_before));
    uint32_t length = is_free || run->kind == SPAN_HUGE ? run->length : 1;
    for (uint32_t j = 0; j < length && is_free; j++) retained += segment_at(i + j)->mapped;
    walked += is_free;
    free_segments += is_free ? length : 0;
    free_before = is_free;
    i += length;
    CHECK(i <= a->segments_known);
  }
  for (struct segment *i = a->retained_newest; i; i = i->older) retained_listed += i->mapped;
  CHECK_EQUAL(listed, walked);
  CHECK_EQUAL(retained, retained_listed);
  CHECK_EQUAL(retained, a->granules_retained);
  CHECK_EQUAL(a->segments_in_use, a->segments_known - 1 - free_segments - singles);
}

// ---- contents: the first and last word of each granule ----

static void mark(char *block, size_t from, size_t size, uint64_t value) {
  for (size_t at = bits_round_up(from, GRANULE_SIZE); at + 8 <= size; at += GRANULE_SIZE) *(uint64_t *)(block + at) = value + at;
  if (size >= 8) *(uint64_t *)(block + ((size - 8) & ~(size_t)7)) = value;
}
static void check_mark(const char *block, size_t size, uint64_t value) {
  for (size_t at = 0; at + 8 <= size; at += GRANULE_SIZE)
    if (at != ((size - 8) & ~(size_t)7)) CHECK_EQUAL(*(const uint64_t *)(block + at), value + at);
}

TEST(runs_split_and_coalesce) {
  enum { RUNS = 24 };
  struct random random = test_random(0);
  char *blocks[RUNS] = {NULL};
  size_t sizes[RUNS];
  uint64_t operations = test_operations(400);
  for (uint64_t step = 1; step <= operations; step++) {
    unsigned i = (unsigned)random_below(&random, RUNS);
    if (blocks[i]) {
      check_mark(blocks[i], sizes[i], i);
      rtm_free(blocks[i]);
      blocks[i] = NULL;
    } else {
      sizes[i] = SEGMENT_SIZE + 1 + random_below(&random, 10 * SEGMENT_SIZE);
      blocks[i] = rtm_malloc(sizes[i]);
      CHECK(blocks[i]);
      mark(blocks[i], 0, sizes[i], i);
    }
    check_arena();
    if (step % 100 == 0) rtm_trim();
  }
  for (unsigned i = 0; i < RUNS; i++) rtm_free(blocks[i]);
  rtm_trim();
  check_arena();
  CHECK_EQUAL(stats().in_use, 0);
  // All is one run again, and one block of that size fits without more addresses.
  uint32_t known = rtm_arena.segments_known;
  enum { GUARD_AND_CANARY = SECURE_VARIANT ? 2 * GRANULE_SIZE : 0 };
  void *all = rtm_malloc((size_t)(known - 1) * SEGMENT_SIZE - GUARD_AND_CANARY);
  CHECK(all);
  CHECK_EQUAL(rtm_arena.segments_known, known);
  rtm_free(all);
}

TEST(singles_join_the_runs_when_a_huge_block_needs_them) {
  enum { MEDIUM = 40 };
  void *blocks[MEDIUM];
  for (unsigned i = 0; i < MEDIUM; i++) blocks[i] = rtm_malloc(SEGMENT_SIZE);
  uint32_t known = rtm_arena.segments_known;
  for (unsigned i = 0; i < MEDIUM; i++) rtm_free(blocks[i]);
  rtm_trim();
  void *huge = rtm_malloc(MEDIUM * SEGMENT_SIZE);
  CHECK(huge);
  CHECK(rtm_arena.segments_known <= known + 1);
  check_arena();
  rtm_free(huge);
}

TEST(a_huge_block_grows_and_shrinks_in_place) {
  char *block = rtm_malloc(5 * MIB);
  mark(block, 0, 4 * MIB, 3);
  uint64_t moves = rtm_os_counts.remap;
  for (size_t size = 5 * MIB; size < 300 * MIB; size = size * 5 / 4) {
    char *again = rtm_realloc(block, size);
    CHECK(again == block);
    block = again;
    CHECK(rtm_usable_size(block) >= size);
    check_mark(block, 4 * MIB, 3);
    for (size_t at = size - 4096; at < size; at += 512) block[at] = 1;
    check_arena();
  }
  CHECK_EQUAL(rtm_os_counts.remap, moves);
  for (size_t size = 290 * MIB; size > 5 * MIB; size = size * 3 / 4) {
    char *again = rtm_realloc(block, size);
    CHECK(again == block);
    block = again;
    CHECK(rtm_usable_size(block) >= size && rtm_usable_size(block) < size + GRANULE_SIZE);
    check_mark(block, 4 * MIB, 3);
    check_arena();
    CHECK(stats().in_use <= size + 2 * SEGMENT_SIZE);
  }
  rtm_free(block);
}

TEST(what_a_shrunk_block_left_is_free_for_others) {
  char *block = rtm_malloc(64 * MIB);
  block = rtm_realloc(block, 5 * MIB);
  uint32_t known = rtm_arena.segments_known;
  char *other = rtm_malloc(50 * MIB);
  CHECK(other > block && other < block + 64 * MIB);
  CHECK_EQUAL(rtm_arena.segments_known, known);
  // The neighbour is taken: growing moves the block.
  mark(block, 0, 5 * MIB, 9);
  char *moved = rtm_realloc(block, 30 * MIB);
  CHECK(moved && moved != block);
  check_mark(moved, 5 * MIB, 9);
  rtm_free(moved);
  rtm_free(other);
  check_arena();
}

TEST(a_huge_block_moves_without_a_copy) {
  size_t size = 40 * MIB;
  char *block = rtm_malloc(size), *wall = rtm_malloc(size);
  CHECK(block && wall);
  mark(block, 0, size, 77);
  uint64_t moves = rtm_os_counts.remap;
  char *moved = rtm_realloc(block, 2 * size);
  CHECK(moved && moved != block);
  CHECK_EQUAL(rtm_os_counts.remap, moves + 1);
  check_mark(moved, size, 77);
  for (size_t at = size; at < 2 * size; at += GRANULE_SIZE) CHECK_EQUAL(moved[at], 0);
  mark(moved, 0, 2 * size, 78);
  check_mark(moved, 2 * size, 78);
  check_arena();
  // What it left serves again.
  char *other = rtm_malloc(size);
  CHECK(other == block);
  mark(other, 0, size, 1);
  rtm_free(other);
  rtm_free(wall);
  rtm_free(moved);
  rtm_trim();
  CHECK_EQUAL(stats().in_use, 0);
}

TEST(random_resizing) {
  enum { BLOCKS = 6 };
  struct random random = test_random(0);
  char *blocks[BLOCKS] = {NULL};
  size_t sizes[BLOCKS] = {0};
  uint64_t operations = test_operations(800);
  for (uint64_t step = 1; step <= operations; step++) {
    unsigned i = (unsigned)random_below(&random, BLOCKS);
    size_t size = 1 + random_size(&random, 60 * MIB - 1);
    if (random_below(&random, 4) == 0) size = bits_round_up(size, SEGMENT_SIZE);
    char *again = rtm_realloc(blocks[i], size);
    CHECK(again);
    size_t kept = size < sizes[i] ? size : sizes[i];
    // The last word of the block was another one.
    for (size_t at = 0; at + 16 <= kept; at += GRANULE_SIZE) CHECK_EQUAL(*(uint64_t *)(again + at), i + at);
    blocks[i] = again;
    sizes[i] = size;
    mark(again, 0, size, i);
    check_arena();
    if (random_below(&random, 16) == 0) {
      rtm_free(blocks[i]);
      blocks[i] = NULL;
      sizes[i] = 0;
    }
  }
  for (unsigned i = 0; i < BLOCKS; i++) rtm_free(blocks[i]);
  rtm_trim();
  check_arena();
  CHECK_EQUAL(stats().in_use, 0);
}

TEST(alignments_up_to_a_gibibyte) {
  static const size_t sizes[] = {1, 4096, 100000, 3 << 20, 4 << 20, 9 << 20};
  for (size_t alignment = 16; alignment <= GIB; alignment *= 2)
    for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
      char *blocks[3];
      for (unsigned i = 0; i < 3; i++) {
        blocks[i] = rtm_aligned_alloc(alignment, sizes[s]);
        CHECK(blocks[i]);
        CHECK_EQUAL((uintptr_t)blocks[i] % alignment, 0);
        CHECK(rtm_usable_size(blocks[i]) >= sizes[s]);
        mark(blocks[i], 0, sizes[s], i);
      }
      check_arena();
      for (unsigned i = 0; i < 3; i++) {
        check_mark(blocks[i], sizes[s], i);
        rtm_free(blocks[i]);
      }
    }
  CHECK_SOUND(rtm_check());
  rtm_trim();
  check_arena();
  CHECK_EQUAL(stats().in_use, 0);
}

// ---- zero ----

TEST(calloc_of_used_memory_is_zero) {
  struct random random = test_random(0);
  uint64_t operations = test_operations(80);
  for (uint64_t step = 1; step <= operations; step++) {
    size_t size = SEGMENT_SIZE + 1 + random_below(&random, 3 * SEGMENT_SIZE);
    uint64_t *block = rtm_calloc(1, size);
    CHECK(block);
    for (size_t i = 0; i < size / 8; i++)
      if (block[i]) CHECK_EQUAL(block[i], 0);
    memset(block, 0xff, size);
    if (step % 3 == 0) block = rtm_realloc(block, SEGMENT_SIZE + 1 + random_below(&random, 5 * SEGMENT_SIZE));
    rtm_free(block);
  }
}

// ---- limits ----

static void *refused(size_t size) {
  errno = 0;
  void *block = rtm_malloc(size);
  if (!block) CHECK_EQUAL(errno, ENOMEM);
  return block;
}

TEST(beyond_the_limit_there_is_no_memory_and_below_it_there_is_again) {
  test_needs_option("RTMALLOC_LIMIT", "64M");
  static const size_t sizes[] = {16, 1000, 30000, 100000, 3 << 20, 5 << 20, 20 << 20};
  static void *blocks[70 << 14];
  for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    // Each size in turn has nearly all of the memory; then all of it comes back.
    size_t count = 0;
    while (count < sizeof blocks / sizeof blocks[0] && (blocks[count] = refused(sizes[s]))) count++;
    CHECK(stats().mapped <= 64 * MIB);
    CHECK(sizes[s] < 64 || count * sizes[s] >= (sizes[s] > SEGMENT_SIZE ? 35 : 48) * MIB);
    CHECK_SOUND(rtm_check());
    // A block that cannot grow is unchanged.
    if (count) {
      memset(blocks[0], 5, sizes[s]);
      errno = 0;
      CHECK(!rtm_realloc(blocks[0], 63 * MIB));
      CHECK_EQUAL(errno, ENOMEM);
      for (size_t i = 0; i < sizes[s]; i += 16) CHECK_EQUAL(((char *)blocks[0])[i], 5);
    }
    for (size_t i = 0; i < count; i++) rtm_free(blocks[i]);
    CHECK_SOUND(rtm_check());
    rtm_trim();
    check_arena();
    CHECK_EQUAL(stats().in_use, 0);
  }
  CHECK(stats().mapped_peak <= 64 * MIB);
}

TEST(sizes_that_no_machine_has) {
  static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2, (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX,
                                 (size_t)1 << 62, (size_t)1 << 47, (size_t)1 << 44};
  void *block = rtm_malloc(100);
  for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    volatile size_t size = sizes[i];
    CHECK(!refused(size));
    errno = 0;
    CHECK(!rtm_realloc(block, size));
    CHECK_EQUAL(errno, ENOMEM);
    errno = 0;
    CHECK(!rtm_calloc(1, size));
    CHECK_EQUAL(errno, ENOMEM);
    errno = 0;
    CHECK(!rtm_calloc(size, 2 + size / 4));
    CHECK_EQUAL(errno, ENOMEM);
    errno = 0;
    CHECK(!rtm_reallocarray(block, size, 8));
    CHECK_EQUAL(errno, ENOMEM);
    for (size_t alignment = 16; alignment; alignment *= 2) {
      errno = 0;
      CHECK(!rtm_aligned_alloc(alignment, size));
      CHECK_EQUAL(errno, ENOMEM);
    }
  }
  for (size_t alignment = (size_t)1 << 44; alignment; alignment *= 2) {
    errno = 0;
    CHECK(!rtm_aligned_alloc(alignment, 1));
    CHECK_EQUAL(errno, ENOMEM);
  }
  static const size_t no_powers[] = {0, 3, 24, 4097, SIZE_MAX};
  for (unsigned i = 0; i < sizeof no_powers / sizeof no_powers[0]; i++) {
    volatile size_t alignment = no_powers[i];
    errno = 0;
    CHECK(!rtm_aligned_alloc(alignment, 64));
    CHECK_EQUAL(errno, EINVAL);
  }
  rtm_free(block);
  rtm_trim();
  check_arena();
  CHECK_EQUAL(stats().in_use, 0);
}

TEST(the_reserve_is_there_at_the_start_and_stays) {
  test_needs_option("RTMALLOC_RESERVE", "32M");
  rtm_free(rtm_malloc(1));
  CHECK(stats().mapped >= 32 * MIB);
  CHECK(stats().free_held >= 32 * MIB - SEGMENT_SIZE);
  uint64_t calls = rtm_os_counts.map;
  void *block = rtm_malloc(20 * MIB);
  CHECK_EQUAL(rtm_os_counts.map, calls + SECURE_VARIANT);  // its guard
  rtm_free(block);
  rtm_trim();
  // With these, what a huge block held goes back at once.
  if (!SECURE_VARIANT || !(rtm_secure.features & (SECURE_ZERO | SECURE_QUARANTINE)))
    CHECK(stats().mapped >= 32 * MIB);
  check_arena();
}

// A value that is no machine's memory is refused with a warning; the program runs. The units may not wrap around.
static void refused_reserve(const char *value) {
  test_needs_option("RTMALLOC_LIMIT", "1G");
  test_needs_option("RTMALLOC_RESERVE", value);
  void *block = rtm_malloc(10 * MIB);
  CHECK(block);
  rtm_free(block);
  check_arena();
  CHECK_EQUAL(rtm_arena.granules_reserved, 0);
}
TEST(a_reserve_above_the_machines_memory_is_left_out) {
  char text[32];
  snprintf(text, sizeof text, "%zu", os_machine_memory() + 1);
  refused_reserve(text);
}
TEST(a_reserve_of_2_to_the_44_is_left_out) { refused_reserve("16T"); }
TEST(a_reserve_of_2_to_the_44_and_1_is_left_out) { refused_reserve("17592186044417"); }
TEST(a_reserve_of_2_to_the_64_less_1_is_left_out) { refused_reserve("18446744073709551615"); }

// Addresses that someone else has mapped are passed over.
TEST(foreign_mappings_in_the_window_are_left_alone) {
  rtm_free(rtm_malloc(1));
  enum { FOREIGN = 3 };
  char *foreign[FOREIGN];
  for (unsigned i = 0; i < FOREIGN; i++) {
    char *at = (char *)(rtm_window_base + ((uintptr_t)(rtm_arena.segments_known + 9 * i + 2) << SEGMENT_SHIFT) + (1 << 16));
    foreign[i] = mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(foreign[i] == at);
    memset(foreign[i], 42, 4096);
  }
  char *blocks[40];
  for (unsigned i = 0; i < 40; i++) {
    size_t size = i % 2 ? 3 * MIB : 9 * MIB;
    blocks[i] = rtm_malloc(size);
    CHECK(blocks[i]);
    memset(blocks[i], 1, size);
    if (i % 4 == 0) {  // moving must not land on one either
      blocks[i] = rtm_realloc(blocks[i], 18 * MIB);
      CHECK(blocks[i]);
      memset(blocks[i], 1, 18 * MIB);
    }
  }
  for (unsigned i = 0; i < FOREIGN; i++)
    for (unsigned at = 0; at < 4096; at++) CHECK_EQUAL(foreign[i][at], 42);
  for (unsigned i = 0; i < 40; i++) rtm_free(blocks[i]);
  CHECK_SOUND(rtm_check());
  rtm_trim();
  CHECK_EQUAL(stats().in_use, 0);
}

// ---- metadata ----

TEST(metadata_is_zero_aligned_and_apart) {
  rtm_free(rtm_malloc(1));
  struct random random = test_random(0);
  uint64_t operations = test_operations(3000);
  char *before = NULL;
  for (uint64_t i = 0; i < operations; i++) {
    size_t bytes = 1 + random_size(&random, i % 100 == 0 ? 300000 : 3000);
    char *data = arena_metadata(bytes);
    CHECK(data);
    CHECK_EQUAL((uintptr_t)data % 64, 0);
    for (size_t at = 0; at < bytes; at++)
      if (data[at]) CHECK_EQUAL(data[at], 0);
    memset(data, 0xee, bytes);
    if (before) CHECK_EQUAL((unsigned char)*before, 0xee);
    before = data;
  }
}

// ---- threads: a run that one thread has left is another's at once ----

enum { THREADS = 4 };

static void *resizer(void *argument) {
  struct random random = test_random((uintptr_t)argument);
  char *block = NULL;
  size_t size = 0;
  uint64_t operations = test_operations(4000);
  for (uint64_t i = 0; i < operations; i++) {
    uint64_t value = (uintptr_t)argument << 32 | i;
    size_t next = SEGMENT_SIZE + 1 + random_below(&random, 8 * SEGMENT_SIZE);
    char *again = rtm_realloc(block, next);
    CHECK(again);
    if (size) CHECK_EQUAL(*(uint64_t *)again, (value - 1));
    *(uint64_t *)again = value;
    block = again;
    size = next;
    if (random_below(&random, 4) == 0) {
      rtm_free(block);
      block = NULL;
      size = 0;
    }
    rtm_free(rtm_malloc(SEGMENT_SIZE - random_below(&random, 1000)));
  }
  rtm_free(block);
  rtm_trim();
  return NULL;
}

TEST(threads_resize_huge_blocks_beside_each_other) {
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, resizer, (void *)(i + 1));
  for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  rtm_trim();
  check_arena();
  CHECK_EQUAL(stats().in_use, 0);
}

// A block that moves leaves its place; another thread may be there before realloc returns.
static _Atomic bool moving;

static void *taker(void *argument) {
  (void)argument;
  while (moving) {
    void *blocks[4];
    for (unsigned i = 0; i < 4; i++) blocks[i] = rtm_malloc(5 * MIB);
    for (unsigned i = 0; i < 4; i++) rtm_free(blocks[i]);
  }
  return NULL;
}

TEST(the_place_of_a_moved_block_is_anothers_at_once) {
  pthread_t threads[2];
  moving = true;
  for (unsigned i = 0; i < 2; i++) pthread_create(&threads[i], NULL, taker, NULL);
  for (uint64_t i = test_operations(4000); i > 0; i--) {
    void *block = rtm_malloc(5 * MIB), *wall = rtm_malloc(5 * MIB);
    block = rtm_realloc(block, 13 * MIB);
    CHECK(block && wall);
    rtm_free(wall);
    rtm_free(block);
  }
  moving = false;
  for (unsigned i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  rtm_trim();
  check_arena();
}
