// What a profile's threads need is made side by side: no heap's memory is another's, whatever lay there before, and
// what is freed is joined with nothing else.
#include "prepare.h"

#include <string.h>

#include "check.h"
#include "plan.h"
#include "prepared.h"
#include "rtmalloc.h"
#include "test.h"

enum { THREADS = 5, LENGTH = 8, SIZE = (size_t)LENGTH * GRANULE_SIZE + 1, BLOCKS_MOST = 1024 };

static const uint32_t granules[THREADS] = {300, 2500, 40, 1, 700};  // that each had, and most in spans

static bool routine_of(const struct profile_record *thread, uintptr_t *routine) {
  *routine = 1 + thread->offset;
  return true;
}

static uint64_t threads(struct profile *profile, enum mode mode) {
  uint64_t blocks = 0;
  CHECK(profile_make(profile, THREADS));
  for (uint32_t i = 0; i < THREADS; i++) {
    struct profile_record *record = &profile->record[i];
    record->index = i;
    record->granules = record->granules_least = granules[i];
    record->span_granules = granules[i] / 2;
    record->page_granules = granules[i] - granules[i] / 2;
    record->span_largest = LENGTH + 1;
    record->blocks[size_class(100)] = 10 + i;
    record->blocks[bin_of_large(SIZE)] = granules[i] / (LENGTH + 1) + 1;
    struct plan plan;
    plan_make(record, mode, &plan);
    blocks += plan.granules;
  }
  return blocks;
}

// What has been somebody else's, and is full.
static void leave_traces(void) {
  enum { BYTES = 24 << 20 };
  void *block = rtm_malloc(BYTES);
  CHECK(block);
  memset(block, 0xff, BYTES);
  rtm_free(block);
  void *small[100];
  for (unsigned i = 0; i < 100; i++) CHECK(small[i] = rtm_malloc(100 << 10));
  for (unsigned i = 0; i < 100; i++) memset(small[i], 0xff, 100 << 10), rtm_free(small[i]);
  rtm_trim();
}

static uint64_t missed(const struct stores *stores) {
  uint64_t sum = 0;
  for (unsigned bin = 0; bin < BINS; bin++) sum += stores->misses[bin];
  return sum;
}

static void *blocks[THREADS][BLOCKS_MOST];

// All that the heap has; each block says whose it is.
static unsigned fill(struct stores *stores, unsigned number) {
  unsigned count = 0;
  rtm_heap = rtm_fast_heap = stores->heap;
  while (count < BLOCKS_MOST) {
    char *block = rtm_calloc(1, SIZE);
    CHECK(block);
    if (missed(stores)) break;
    CHECK(!block[0] && memcmp(block, block + 1, SIZE - 1) == 0);  // zero, whatever was there
    blocks[number][count++] = block;
    memset(block, (int)number + 1, SIZE);
  }
  return count;
}

static void check_and_free(struct stores *stores, unsigned number, unsigned count) {
  static char expected[SIZE];
  memset(expected, (int)number + 1, SIZE);
  rtm_heap = rtm_fast_heap = stores->heap;
  for (unsigned i = 0; i < count; i++) {
    CHECK(memcmp(blocks[number][i], expected, SIZE) == 0);
    rtm_free(blocks[number][i]);
  }
  CHECK_SOUND(rtm_check());
}

static uint64_t free_granules(const struct heap *heap) {
  uint64_t sum = 0;
  for (unsigned list = 0; list < EXTENT_LISTS; list++)
    for (const struct span *span = heap->extent.list[list].first; span; span = span->extent_next) sum += span->length;
  return sum;
}

static void heaps_are_apart(enum mode mode) {
  rtm_free(rtm_malloc(1));
  leave_traces();
  struct profile profile;
  uint64_t planned = threads(&profile, mode), found = 0;
  struct made made = {.permitted = true};
  CHECK(!prepare_check(&profile, mode, 0));
  CHECK(!prepare(&profile, mode, 0, routine_of, &made));
  size_t index_bytes;
  CHECK(!prepared_index(made.all, &index_bytes, &made.permitted));
  for (const struct stores *stores = made.all; stores; stores = stores->next)
    CHECK(prepared_take(stores->heap->routine) == stores->heap);
  CHECK(made.all && made.bytes > planned << GRANULE_SHIFT);
  struct heap *own = rtm_heap;
  unsigned count[THREADS], number = 0;
  for (struct stores *stores = made.all; stores; stores = stores->next, number++) {
    CHECK_EQUAL(stores->heap->index, number);
    found += free_granules(stores->heap);
  }
  CHECK_EQUAL(number, THREADS);
  CHECK_EQUAL(found, planned);
  number = 0;
  for (struct stores *stores = made.all; stores; stores = stores->next, number++) {
    count[number] = fill(stores, number);
    CHECK(count[number] >= granules[number] / (LENGTH + 1));
  }
  number = 0;
  for (struct stores *stores = made.all; stores; stores = stores->next, number++)
    check_and_free(stores, number, count[number]);
  found = 0;
  for (struct stores *stores = made.all; stores; stores = stores->next) found += free_granules(stores->heap);
  CHECK_EQUAL(found, planned);
  rtm_heap = rtm_fast_heap = own;
  CHECK_SOUND(rtm_check());
  profile_drop(&profile);
}

TEST(what_heaps_have_in_seg_is_apart) { heaps_are_apart(MODE_SEG); }
TEST(what_heaps_have_in_pag_is_apart) { heaps_are_apart(MODE_PAG); }

// The parts of several extents lie in one segment, and whole pieces follow.
TEST(parts_of_extents_share_a_segment) {
  rtm_free(rtm_malloc(1));
  struct profile profile;
  threads(&profile, MODE_SEG);
  struct made made = {.permitted = true};
  CHECK(!prepare(&profile, MODE_SEG, 0, routine_of, &made));
  unsigned together = 0, wholes = 0;
  uint32_t segment = segment_of_granule(made.all->heap->extent.part);
  for (struct stores *stores = made.all; stores; stores = stores->next) {
    const struct extent *extent = &stores->heap->extent;
    together += segment_of_granule(extent->part) == segment;
    wholes += extent->wholes;
    CHECK(!extent->wholes || extent->whole % SEGMENT_GRANULES == EXTENT_FIRST);
  }
  CHECK(together >= 2 && wholes >= 2);
  profile_drop(&profile);
}
