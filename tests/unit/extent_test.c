// Extents (mode `seg`): spans are cut and joined, the lists hold what they say, and what other threads free comes back
// as fast as it goes out, whatever the order.
#include "extent.h"

#include <string.h>

#include "check.h"
#include "mode.h"
#include "os/os.h"
#include "prepared.h"
#include "remote.h"
#include "rtmalloc.h"
#include "store.h"
#include "test.h"
#include "walk.h"

static struct heap *other, *heap;

static void use(struct heap *used) {
  rtm_heap = used;
  rtm_fast_heap = heap_fast(used);
}

enum { STRIDE = EXTENT_CHUNK + 1, SEGMENT_CHUNKS = (EXTENT_END - EXTENT_FIRST) / STRIDE };  // of chunks, side by side

static uint32_t divided_up(uint32_t value, uint32_t by) { return (value + by - 1) / by; }

// The first of so many granules of the window.
static uint32_t take_granules(uint32_t granules) {
  bool zero;
  const struct span *run = arena_take_run(granules, 1, &zero);
  CHECK(run && zero);
  return span_granule(run);
}

// The thread uses a heap with an extent of so many granules, as loading makes it; `other` frees as another thread does.
static void start_heap(uint32_t granules, bool shares) {
  heap = heap_new(1, 0, heap_owned());
  struct stores *stores = os_map(bits_round_up(sizeof *stores, GRANULE_SIZE));
  CHECK(heap && stores);
  for (unsigned i = 0; i < BINS_LARGE; i++) stores->large[i] = &rtm_no_store[0];
  stores->heap = heap;
  stores->mode = MODE_SEG;
  stores->extent_max = EXTENT_MAX;
  heap->stores = stores;
  size_t index_bytes;
  bool permitted;
  CHECK(!prepared_index(stores, &index_bytes, &permitted) && prepared_take(heap->routine) == heap);
  heap->unusual = true;
  heap->store_from = EXTENT_MAX + 1;
  heap->store_reach = BIN_SIZE_MAX + 1 - heap->store_from;
  extent_start(heap, granules, 0, shares, os_map(bits_round_up(extent_bytes(granules, shares), GRANULE_SIZE)));
  uint32_t at = take_granules(divided_up(granules, EXTENT_GRANULES) * SEGMENT_GRANULES) + EXTENT_FIRST;
  for (uint32_t made = 0, length; made < granules; made += length, at += SEGMENT_GRANULES) {
    length = granules - made < EXTENT_GRANULES ? granules - made : EXTENT_GRANULES;
    extent_add(heap, at, made, length);
  }
  use(heap);
  CHECK_SOUND(rtm_check());
}

static void start(uint32_t granules) {
  rtm_free(rtm_malloc(1));
  other = rtm_heap;
  start_heap(granules, false);
}

// It may take so many chunks, too.
static void start_with_chunks(uint32_t granules, uint32_t chunks) {
  rtm_free(rtm_malloc(1));
  other = rtm_heap;
  extent_share(chunks);
  extent_share_at(os_map(bits_round_up(extent_share_bytes(chunks), GRANULE_SIZE)));
  uint32_t first = take_granules(divided_up(chunks, SEGMENT_CHUNKS) * SEGMENT_GRANULES) + EXTENT_FIRST;
  for (uint32_t i = 0; i < chunks; i++)
    extent_add_chunk(first + i / SEGMENT_CHUNKS * SEGMENT_GRANULES + i % SEGMENT_CHUNKS * STRIDE, i);
  start_heap(granules, true);
}

static uint64_t misses(void) {
  uint64_t sum = 0;
  for (unsigned bin = 0; bin < BINS; bin++) sum += heap->stores->misses[bin];
  return sum;
}

static void free_elsewhere(void *block) {
  use(other);
  rtm_free(block);
  use(heap);
}

// Free granules in all lists, and the longest free span.
static uint32_t free_granules(uint32_t *longest) {
  uint32_t sum = 0;
  *longest = 0;
  for (unsigned list = 0; list < EXTENT_LISTS; list++)
    for (const struct span *span = heap->extent.list[list].first; span; span = span->extent_next) {
      sum += span->length;
      if (span->length > *longest) *longest = span->length;
    }
  return sum;
}

// Whatever is in a list from list_for on is long enough, and little that is long enough is in another.
TEST(each_length_finds_what_is_long_enough) {
  start(1);
  const struct extent *extent = &heap->extent;
  for (uint32_t length = 1; length <= EXTENT_SPAN_MAX; length++) {
    uint32_t first = 0;
    for (uint32_t other_length = EXTENT_GRANULES; other_length > 0; other_length--) {
      size_t list = extent->list_of[other_length] / sizeof *extent->list;
      CHECK(list < EXTENT_LISTS);
      if (list >= extent->list_for[length]) first = other_length;
    }
    CHECK(first >= length);
    CHECK(first <= length + length / 13 + 1);
    if (length <= PAGE_GRANULES_MAX || length == EXTENT_SPAN_MAX) CHECK_EQUAL(first, length);
  }
}

TEST(two_of_the_largest_fit_in_a_segment_and_all_is_one_span_again) {
  start(EXTENT_GRANULES);
  void *two[] = {rtm_malloc(EXTENT_MAX), rtm_malloc(EXTENT_MAX)};
  CHECK(two[0] && two[1]);
  CHECK_EQUAL(misses(), 0);
  CHECK_SOUND(rtm_check());
  rtm_free(two[1]);
  rtm_free(two[0]);
  uint32_t longest;
  CHECK_EQUAL(free_granules(&longest), EXTENT_GRANULES);
  CHECK_EQUAL(longest, EXTENT_GRANULES);
  void *third = rtm_malloc(EXTENT_MAX), *fourth = rtm_malloc(EXTENT_MAX), *fifth = rtm_malloc(EXTENT_MAX);
  CHECK(third && fourth && fifth);
  CHECK_EQUAL(misses(), 1);
  CHECK_SOUND(rtm_check());
}

// ---- any order ----

enum { SLOTS = 300 };
static struct {
  char *block;
  size_t size;
} slots[SLOTS];

static size_t any_size(struct random *random) {
  unsigned shift = (unsigned)random_below(random, 21);
  return 1 + (size_t)random_below(random, (uint64_t)1 << shift);
}

static void fill(unsigned slot) {
  memset(slots[slot].block, (int)slot, slots[slot].size < 64 ? slots[slot].size : 64);
  slots[slot].block[slots[slot].size - 1] = (char)slot;
}

static void look_at(unsigned slot) {
  size_t size = slots[slot].size;
  for (size_t i = 0; i < size && i < 64; i++) CHECK_EQUAL((unsigned char)slots[slot].block[i], (unsigned char)slot);
  CHECK_EQUAL((unsigned char)slots[slot].block[size - 1], (unsigned char)slot);
}

static void take(unsigned slot, struct random *random) {
  size_t size = any_size(random);
  size_t alignment = (size_t)16 << random_below(random, 14);
  bool aligned = random_below(random, 4) == 0;
  slots[slot].block = aligned ? rtm_aligned_alloc(alignment, size) : rtm_malloc(size);
  slots[slot].size = size;
  CHECK(slots[slot].block);
  if (aligned) CHECK_EQUAL((uintptr_t)slots[slot].block % alignment, 0);
  fill(slot);
}

static void resize(unsigned slot, struct random *random) {
  size_t size = any_size(random);
  look_at(slot);
  slots[slot].block = rtm_realloc(slots[slot].block, size);
  CHECK(slots[slot].block);
  slots[slot].size = size;
  fill(slot);
}

static void do_anything(void) {
  struct random random = test_random(0);
  uint64_t operations = test_operations(60000);
  for (uint64_t i = 0; i < operations; i++) {
    unsigned slot = (unsigned)random_below(&random, SLOTS);
    if (!slots[slot].block) {
      take(slot, &random);
    } else if (random_below(&random, 4) == 0) {
      resize(slot, &random);
    } else {
      look_at(slot);
      if (random_below(&random, 2))
        rtm_free(slots[slot].block);
      else
        free_elsewhere(slots[slot].block);
      slots[slot].block = NULL;
    }
    if (i % 512 == 0) CHECK_SOUND(rtm_check());
  }
  CHECK_SOUND(rtm_check());
}

TEST(any_order_of_operations_by_two_threads) {
  start(40 * EXTENT_GRANULES);
  do_anything();
}

// ---- chunks ----

static bool count_block(void *block, size_t size, void *count) {
  CHECK(block && size);
  ++*(unsigned *)count;
  return true;
}

static unsigned walked(void) {
  unsigned count = 0;
  CHECK(walk_heap(heap, count_block, &count));
  return count;
}

// Medium blocks, and pages of one block each: all granules of all chunks serve, once and again, whoever frees.
TEST(chunks_serve_when_the_extent_is_used_up) {
  enum { CHUNKS = 2 * SEGMENT_CHUNKS + 5, LENGTH = 16, BLOCKS = (CHUNKS + 1) * EXTENT_CHUNK / LENGTH };
  start_with_chunks(EXTENT_CHUNK, CHUNKS);
  static void *blocks[BLOCKS];
  for (unsigned round = 0; round < 4; round++) {
    for (unsigned i = 0; i < BLOCKS; i++) CHECK(blocks[i] = rtm_malloc(LENGTH * GRANULE_SIZE));
    CHECK_EQUAL(misses(), round);
    CHECK_EQUAL(walked(), BLOCKS);
    CHECK_SOUND(rtm_check());
    void *one_more = rtm_malloc(LENGTH * GRANULE_SIZE);
    CHECK(one_more);
    CHECK_EQUAL(misses(), round + 1);
    for (unsigned i = 0; i < BLOCKS; i++) {
      if (round % 2)
        rtm_free(blocks[i]);
      else
        free_elsewhere(blocks[i]);
    }
    extent_collect(heap);
    CHECK_SOUND(rtm_check());
    rtm_free(one_more);
    uint32_t longest;
    CHECK_EQUAL(free_granules(&longest), (CHUNKS + 1) * EXTENT_CHUNK);
    CHECK_EQUAL(longest, EXTENT_CHUNK);
  }
}

TEST(any_order_of_operations_in_chunks) {
  start_with_chunks(1, 40 * SEGMENT_CHUNKS);
  do_anything();
}

// Chunks that lie side by side, of two heaps by turns: what is freed is never joined with the other's.
TEST(chunks_of_two_heaps_stay_apart) {
  enum { CHUNKS = 2 * SEGMENT_CHUNKS, SIZE = EXTENT_CHUNK * GRANULE_SIZE };
  start_with_chunks(1, CHUNKS);
  struct heap *first = heap;
  start_heap(1, true);
  struct heap *of_both[] = {first, heap};
  void *blocks[CHUNKS];
  for (unsigned i = 0; i < CHUNKS; i++) {
    use(heap = of_both[i % 2]);
    CHECK(blocks[i] = rtm_malloc(SIZE));
  }
  for (unsigned i = 0; i < CHUNKS; i++) {
    use(heap = of_both[i % 4 / 2]);  // half of them by the other
    rtm_free(blocks[i]);
  }
  for (unsigned i = 0; i < 2; i++) {
    use(heap = of_both[i]);
    extent_collect(heap);
    uint32_t longest;
    CHECK_EQUAL(free_granules(&longest), 1 + CHUNKS / 2 * EXTENT_CHUNK);
    CHECK_EQUAL(longest, EXTENT_CHUNK);
    CHECK_EQUAL(misses(), 0);
    CHECK_SOUND(rtm_check());
  }
}

// ---- what comes back ----

// `live` blocks of these sizes, the oldest freed by another thread, or any; the extent has a quarter more than they
// take in full pages, and 64 granules. At most one operation in a thousand finds nothing and has to collect all; none
// where all pages are of one length.
static void passes_through(const size_t *sizes, unsigned count, unsigned live, bool any) {
  struct random random = test_random(1);
  size_t granules = 0;
  static void *blocks[4096];
  for (unsigned i = 0; i < count; i++) {
    size_t each = (live + count - 1) / count;
    // A block of two in a page has half of it.
    granules += (each * bits_round_up(sizes[i], GRANULE_SIZE) >> GRANULE_SHIFT) + 4 * PAGE_GRANULES_MAX;
  }
  start((uint32_t)(granules + granules / 4 + 64));
  for (unsigned i = 0; i < 60 * live; i++) {
    unsigned slot = any ? (unsigned)random_below(&random, live) : i % live;
    if (blocks[slot]) free_elsewhere(blocks[slot]);
    blocks[slot] = rtm_malloc(sizes[i % count]);
    CHECK(blocks[slot]);
  }
  CHECK(misses() * 1000 <= (count == 1 ? 0 : 60 * live));
  CHECK_SOUND(rtm_check());
}

TEST(pages_of_two_blocks_pass_through) { passes_through((const size_t[]){32 << 10}, 1, 400, false); }
TEST(pages_of_two_and_three_blocks_pass_through) {
  passes_through((const size_t[]){32 << 10, 28 << 10, 20 << 10, 24 << 10}, 4, 1200, false);
}
TEST(medium_blocks_pass_through) {
  passes_through((const size_t[]){33 << 10, 100 << 10, 700 << 10, 64 << 10}, 4, 200, false);
}
TEST(small_and_medium_blocks_pass_through) {
  passes_through((const size_t[]){16, 100 << 10, 512, 300 << 10, 4096, 16 << 10}, 6, 600, false);
}
TEST(blocks_of_any_age_pass_through) {
  passes_through((const size_t[]){32 << 10, 100, 40 << 10, 2000, 9000}, 5, 600, true);
}

// Small blocks come until each class has been visited.
static void visit_all(void) {
  for (unsigned i = 0; i < 40000; i++) CHECK(rtm_malloc(16));
}

// A current page that is empty serves another class; the class goes on with the page that was queued, if there is one.
TEST(classes_are_visited_in_turn) {
  start(2 * EXTENT_GRANULES);
  enum { BLOCKS = 400 };
  size_t sizes[] = {2048, 1024};
  static void *blocks[2][BLOCKS];
  for (unsigned k = 0; k < 2; k++) {
    struct span *page = NULL;
    unsigned first = 0;  // block of the page that is current at last
    for (unsigned i = 0; i < BLOCKS; i++) {
      blocks[k][i] = rtm_malloc(sizes[k]);
      if (heap->page[size_class(sizes[k])] != page) page = heap->page[size_class(sizes[k])], first = i;
    }
    for (unsigned i = k ? 0 : first; i < BLOCKS; i++) rtm_free(blocks[k][i]);
    if (!k) rtm_free(blocks[k][0]);  // its page was full, and is queued
    CHECK(heap->page[size_class(sizes[k])] == page && page->used == 1);
    CHECK_EQUAL(heap->queue[size_class(sizes[k])].head != 0, !k);
  }
  visit_all();
  CHECK(heap->page[size_class(sizes[0])] == span_of(window_granule(blocks[0][0])));
  CHECK(heap->page[size_class(sizes[1])] == &rtm_no_page);
  CHECK_EQUAL(rtm_no_page.used, 0);
  CHECK_SOUND(rtm_check());
  CHECK(!extent_may_open(heap, size_class(sizes[0])));
  void *again = rtm_malloc(sizes[0]);
  CHECK(again == blocks[0][0]);
  CHECK(rtm_malloc(sizes[1]));
  CHECK_EQUAL(misses(), 0);
  CHECK_SOUND(rtm_check());
}

// The owner begins to look for what others have freed REST bytes after the last time, and where memory is scarce at once.
TEST(the_owner_rests_unless_memory_is_scarce) {
  enum { BLOCKS = 8000, SIZE = 64 };
  static void *blocks[BLOCKS];
  start(EXTENT_GRANULES);
  unsigned begun[2] = {0};
  for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = rtm_malloc(SIZE);
  for (unsigned scarce = 0; scarce < 2; scarce++) {
    while (scarce && heap->extent.lists >= heap->extent.enough) CHECK(rtm_malloc(16 * GRANULE_SIZE));
    for (unsigned i = 0; i < BLOCKS; i++) {
      free_elsewhere(blocks[i]);
      blocks[i] = rtm_malloc(SIZE);
      CHECK(blocks[i]);
      begun[scarce] += !hint_top(&heap->hints, 0);
    }
  }
  CHECK(begun[0] > 0 && begun[0] <= BLOCKS * SIZE / REST + 1);
  CHECK(begun[1] > 2 * begun[0]);
  CHECK_EQUAL(misses(), 0);
  CHECK_SOUND(rtm_check());
}

// Where memory is scarce, the pages of classes that are no longer asked for come back, though others go on to free.
TEST(idle_classes_give_their_pages_back_while_others_free) {
  enum { BLOCKS = 4000, SIZE = 64, IDLE = 20, TURNS = 20 * BLOCKS };
  static void *blocks[BLOCKS];
  start(EXTENT_GRANULES);
  struct random random = test_random(0);
  for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = rtm_malloc(SIZE);
  for (unsigned i = 0; i < IDLE; i++) rtm_free(rtm_malloc(2000 + 256 * i));
  while (heap->extent.lists >= heap->extent.enough) CHECK(rtm_malloc(16 * GRANULE_SIZE));
  for (unsigned turn = 0; turn < TURNS; turn++) {
    unsigned i = (unsigned)random_below(&random, BLOCKS);
    free_elsewhere(blocks[i]);
    blocks[i] = rtm_malloc(SIZE);
  }
  for (unsigned i = 0; i < IDLE; i++) CHECK(heap->page[size_class(2000 + 256 * i)] == &rtm_no_page);
  CHECK_EQUAL(misses(), 0);
  CHECK_SOUND(rtm_check());
}

// As a_page_that_is_taken_has_many_free_blocks of page_test.c.
TEST(a_class_whose_pages_are_nearly_full_gets_one_more) {
  enum { BLOCKS = 20000, SIZE = 32, TURNS = 10 * BLOCKS, EACH_SERVES = 16, NEEDED = BLOCKS / PAGE_BLOCKS_MAX + 1 };
  start(EXTENT_GRANULES);
  struct random random = test_random(0);
  static void *blocks[BLOCKS];
  unsigned changes = 0, class = size_class(SIZE);
  for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = rtm_malloc(SIZE);
  for (unsigned turn = 0; turn < 2 * TURNS; turn++) {
    const struct span *before = heap->page[class];
    unsigned i = (unsigned)random_below(&random, BLOCKS);
    rtm_free(blocks[i]);
    blocks[i] = rtm_malloc(SIZE);
    changes += turn >= TURNS && heap->page[class] != before;
  }
  CHECK(changes < TURNS / EACH_SERVES);
  CHECK(heap->pages[class] > NEEDED && heap->pages[class] * PAGE_BLOCKS_MAX <= BLOCKS * 5 / 4);
  CHECK_EQUAL(misses(), 0);
  CHECK_SOUND(rtm_check());
}

// Its full pages are all that a class has when its empty current page has gone to another class: one of them serves when a
// block came back, and the page that stands for none is nobody's.
TEST(a_class_whose_current_page_was_taken_away_goes_on) {
  enum { SIZE = GRANULE_SIZE, MOST = 1000 };
  start(EXTENT_GRANULES);
  unsigned class = size_class(SIZE), count = 0;
  void *blocks[MOST], *small[MOST];
  while (heap->pages[class] < 3) blocks[count++] = rtm_malloc(SIZE);
  rtm_free(blocks[--count]);
  for (unsigned i = 0; i < MOST && heap->page[class] != &rtm_no_page; i++) CHECK(small[i] = rtm_malloc(2048));
  CHECK(heap->page[class] == &rtm_no_page);
  rtm_free(blocks[0]);
  CHECK(heap->queue[class].head);
  CHECK(rtm_malloc(SIZE) == blocks[0]);
  CHECK_EQUAL(rtm_no_page.used, 0);
  CHECK_EQUAL(span_tag(&rtm_no_page), TAG_NONE);
  CHECK_SOUND(rtm_check());
}

// A bit that comes late leads to what is something else by then: nothing is lost, and nothing handed out twice.
TEST(late_hints_do_no_harm) {
  start(4 * EXTENT_GRANULES);
  struct random random = test_random(2);
  for (unsigned round = 0; round < 20000; round++) {
    unsigned slot = (unsigned)random_below(&random, SLOTS);
    if (slots[slot].block) {
      look_at(slot);
      free_elsewhere(slots[slot].block);
      slots[slot].block = NULL;
    } else {
      slots[slot].size = random_below(&random, 2) ? 64 + random_below(&random, 3000) : (size_t)40 << 10;
      slots[slot].block = rtm_malloc(slots[slot].size);
      CHECK(slots[slot].block);
      fill(slot);
    }
    // Any granule's bit, in either tree.
    uint32_t granule = (uint32_t)random_below(&random, 4 * EXTENT_GRANULES);
    char *leaf = heap->extent.leaves + (size_t)(granule / 64) * 2 * EXTENT_LEAF + random_below(&random, 2) * EXTENT_LEAF;
    hint_raise((struct hint_word *)leaf, UINT64_C(1) << granule % 64);
    if (round % 64 == 0) CHECK_SOUND(rtm_check());
  }
}
