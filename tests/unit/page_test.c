// Pages: filled and emptied in all orders; the states current, queued and full; empty pages are released.
#include "page.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "check.h"
#include "rtmalloc.h"
#include "test.h"

enum { BLOCKS_MOST = 4096 };

static struct heap *start(void) {
  rtm_free(rtm_malloc(1));
  rtm_trim();
  return rtm_heap;
}

static struct span *page_of(const void *block) { return span_of(window_granule(block)); }
static bool is_full(const void *block) { return span_tag(page_of(block)) & TAG_SLOW; }

// Blocks that the program has; the current page counts one more as used.
static uint32_t held(const struct span *page) { return page->used - (rtm_heap->page[page->kind] == page); }

static bool is_queued(const struct heap *heap, const struct span *page) {
  for (uint32_t i = heap->queue[page->kind].head; i; i = span_at(i)->next)
    if (span_at(i) == page) return true;
  return false;
}

static void *take(size_t size) {
  char *block = rtm_malloc(size);
  CHECK(block);
  CHECK_EQUAL((size_t)(block - page_of(block)->start) % rtm_shape[page_of(block)->kind].block_size, 0);
  memset(block, (int)((uintptr_t)block >> 4), size);
  return block;
}

static void give(void *block, size_t size) {
  for (size_t i = 0; i < size; i += 8) CHECK_EQUAL(((unsigned char *)block)[i], ((uintptr_t)block >> 4) & 0xff);
  rtm_free(block);
}

enum order { FORWARD, BACKWARD, RANDOM, ALTERNATING, ORDERS };

static void sort_for(enum order order, void **blocks, unsigned count, struct random *random) {
  if (order == RANDOM) random_shuffle(random, blocks, count);
  for (unsigned i = 0; i < count / 2 && order == BACKWARD; i++) {
    void *block = blocks[i];
    blocks[i] = blocks[count - 1 - i];
    blocks[count - 1 - i] = block;
  }
  for (unsigned i = 0; i + 1 < count && order == ALTERNATING; i += 2) {
    unsigned j = count - 1 - i;
    if (j <= i) break;
    void *block = blocks[i];
    blocks[i] = blocks[j];
    blocks[j] = block;
  }
}

// Several pages of each class, filled and freed in each order; the blocks are the page's, each once.
TEST(every_class_filled_and_freed_in_every_order) {
  struct heap *heap = start();
  struct random random = test_random(0);
  static void *blocks[BLOCKS_MOST];
  for (unsigned class = 1; class <= CLASSES; class++) {
    size_t size = rtm_shape[class].block_size;
    unsigned count = size <= 256 ? 800 : size <= 4096 ? 100 : 20;
    for (enum order order = 0; order < ORDERS; order++) {
      for (unsigned i = 0; i < count; i++) blocks[i] = take(size);
      CHECK_SOUND(check_heap(heap));
      uint32_t used = 0;
      for (unsigned i = 0; i < count; i++) {
        struct span *page = page_of(blocks[i]);
        CHECK_EQUAL(page->kind, class);
        // Counted once for each page: at its first block.
        if (blocks[i] == page->start) used += held(page);
      }
      CHECK_EQUAL(used, count);
      sort_for(order, blocks, count, &random);
      for (unsigned i = 0; i < count; i++) {
        give(blocks[i], size);
        if (i % 37 == 0) CHECK_SOUND(check_heap(heap));
      }
      page_release_empty(heap);
      CHECK_SOUND(check_heap(heap));
      CHECK_EQUAL(heap->pages[class], 0);
    }
  }
  CHECK_EQUAL(heap->live, 0);
}

// Fills the current page of the class and returns its blocks; the page's last block has just been taken.
static unsigned fill_page(unsigned class, void **blocks) {
  unsigned count = 0;
  do blocks[count++] = take(rtm_shape[class].block_size);
  while (held(page_of(blocks[count - 1])) < page_blocks(page_of(blocks[count - 1])));
  return count;
}

TEST(a_page_is_current_then_full_then_queued_then_current) {
  struct heap *heap = start();
  static void *blocks[BLOCKS_MOST];
  for (unsigned class = 1; class <= CLASSES; class++) {
    unsigned count = fill_page(class, blocks);
    struct span *page = page_of(blocks[0]);
    CHECK(heap->page[class] == page);
    CHECK(!is_full(blocks[0]));
    // The next request finds that it is full.
    void *next = take(rtm_shape[class].block_size);
    CHECK(page_of(next) != page);
    CHECK(is_full(blocks[0]));
    CHECK(!is_queued(heap, page));
    CHECK(heap->page[class] == page_of(next));
    CHECK_SOUND(check_heap(heap));
    // A block comes back: the page waits in the queue, at its end, and keeps that place.
    rtm_free(blocks[0]);
    CHECK(!is_full(blocks[1]));
    CHECK(is_queued(heap, page));
    CHECK_SOUND(check_heap(heap));
    // When the current page is full, the queued one is taken before a new one.
    static void *more[BLOCKS_MOST];
    unsigned extra = 0;
    do more[extra++] = take(rtm_shape[class].block_size);
    while (page_of(more[extra - 1]) != page);
    CHECK(more[extra - 1] == blocks[0]);
    CHECK(heap->page[class] == page);
    CHECK_EQUAL(heap->pages[class], 2);
    for (unsigned i = 1; i < count; i++) rtm_free(blocks[i]);
    for (unsigned i = 0; i < extra; i++) rtm_free(more[i]);
    rtm_free(next);
    CHECK_SOUND(check_heap(heap));
    rtm_trim();
  }
  CHECK_EQUAL(heap->live, 0);
}

TEST(a_page_of_one_block_is_full_and_empty_by_turns) {
  struct heap *heap = start();
  size_t size = BLOCK_MAX;
  void *blocks[64];
  for (unsigned round = 0; round < 20; round++) {
    for (unsigned i = 0; i < 64; i++) blocks[i] = take(size);
    CHECK_SOUND(check_heap(heap));
    for (unsigned i = 0; i < 64; i++) rtm_free(blocks[(i * 13 + round) % 64]);
    CHECK_SOUND(check_heap(heap));
  }
  rtm_trim();
  CHECK_EQUAL(heap->live, 0);
}

// Of the pages that became empty at most one waits for its class, beside the current one; nothing else is held.
TEST(at_most_one_empty_page_is_kept) {
  struct heap *heap = start();
  static void *blocks[BLOCKS_MOST];
  unsigned count = 1000;
  for (unsigned i = 0; i < count; i++) blocks[i] = take(512);
  for (unsigned i = 0; i < count; i++) rtm_free(blocks[i]);
  unsigned class = size_class(512);
  CHECK_SOUND(check_heap(heap));
  CHECK(heap->pages[class] <= 2);
  rtm_trim();
  CHECK_EQUAL(heap->pages[class], 0);
  CHECK_SOUND(check_heap(heap));
}

// As mode `pag` without a profile has it: of the pages that are emptied a class keeps two.
TEST(where_classes_keep_their_pages_a_few_stay) {
  enum { KEPT = 2 };
  struct heap *heap = start();
  heap->unusual = heap->keeps_class_pages = true;
  static void *blocks[BLOCKS_MOST];
  unsigned count = 2000, class = size_class(512);
  for (unsigned i = 0; i < count; i++) blocks[i] = take(512);
  unsigned pages = heap->pages[class];
  CHECK(pages > KEPT);
  for (unsigned i = 0; i < count; i++) rtm_free(blocks[i]);
  CHECK_EQUAL(heap->pages[class], KEPT);
  CHECK_SOUND(check_heap(heap));
  for (unsigned i = 0; i < count; i++) blocks[i] = take(512);
  CHECK(heap->pages[class] <= pages);
  void *medium = rtm_malloc(100000);
  CHECK(medium);
  rtm_free(medium);
  for (unsigned i = 0; i < count; i++) give(blocks[i], 512);
  CHECK_SOUND(check_heap(heap));
  rtm_trim();
  CHECK_EQUAL(heap->pages[class], 0);
  heap->unusual = heap->keeps_class_pages = false;
}

// There, the first page is full-grown, and each further one twice as long as the last, up to what 256 blocks take.
TEST(where_classes_keep_their_pages_these_are_long) {
  enum { LIVE = 1500, MOST = PAGE_GRANULES_KEPT / PAGE_GRANULES_MAX };
  static const size_t sizes[] = {300, 8192, 32768};
  struct heap *heap = start();
  heap->unusual = heap->keeps_class_pages = true;
  static void *blocks[LIVE];
  for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    unsigned class = size_class(sizes[s]);
    uint32_t usual = rtm_shape[class].granules_most, all = size_class_granules(class), next = usual;
    for (unsigned i = 0; i < LIVE; i++) {
      blocks[i] = take(sizes[s]);
      const struct span *page = page_of(blocks[i]);
      if (blocks[i] != page->start) continue;
      CHECK_EQUAL(page->length, next);
      if (next < usual * MOST) next = next * 2 < all ? next * 2 : all;
    }
    CHECK_SOUND(check_heap(heap));
    for (unsigned i = 0; i < LIVE; i++) give(blocks[i], sizes[s]);
    CHECK_SOUND(check_heap(heap));
    CHECK(heap->pages[class] <= 3);
  }
  rtm_trim();
  heap->unusual = heap->keeps_class_pages = false;
}

// There, blocks that come and go in random order need no more pages than those that only come.
TEST(where_classes_keep_their_pages_they_do_not_grow) {
  enum { LIVE = 3000, TURNS = 50000 };
  static const size_t sizes[] = {1000, 4000, 16000};
  struct heap *heap = start();
  heap->unusual = heap->keeps_class_pages = true;
  static void *blocks[LIVE];
  struct random random = test_random(0);
  for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    unsigned class = size_class(sizes[s]);
    for (unsigned i = 0; i < LIVE; i++) blocks[i] = take(sizes[s]);
    unsigned pages = heap->pages[class];
    for (unsigned i = 0; i < TURNS; i++) {
      void **block = &blocks[random_below(&random, LIVE)];
      give(*block, sizes[s]);
      *block = take(sizes[s]);
    }
    CHECK(heap->pages[class] <= pages);
    CHECK_SOUND(check_heap(heap));
    for (unsigned i = 0; i < LIVE; i++) give(blocks[i], sizes[s]);
  }
  rtm_trim();
  heap->unusual = heap->keeps_class_pages = false;
}

// And when the heap's thread ends, they are as they were for the next one, unless there are many such heaps.
TEST(where_classes_keep_their_pages_the_next_thread_finds_them) {
  enum { SIZE = 2000 };
  struct heap *heap = start();
  heap->unusual = heap->keeps_class_pages = true;
  unsigned class = size_class(SIZE);
  void *block = take(SIZE);
  struct span *page = page_of(block);
  page_leave_all(heap, true);
  CHECK(heap->page[class] == page && heap->pages[class] == 1);
  give(block, SIZE);
  CHECK(heap->page[class] == page && heap->pages[class] == 1);
  CHECK_SOUND(check_heap(heap));
  page_leave_all(heap, false);
  CHECK(heap->page[class] == &rtm_no_page && heap->pages[class] == 0);
  CHECK_SOUND(check_heap(heap));
  heap->keeps_pages = true;
  heap->unusual = heap->keeps_class_pages = false;
}

TEST(a_small_empty_page_serves_its_class_again) {
  struct heap *heap = start();
  static void *blocks[BLOCKS_MOST];
  unsigned class = size_class(1024);
  unsigned first = fill_page(class, blocks), second = fill_page(class, blocks + first);
  struct span *page = page_of(blocks[0]);
  for (unsigned i = 0; i < first; i++) rtm_free(blocks[i]);
  CHECK_EQUAL(heap->pages[class], 2);
  CHECK_SOUND(check_heap(heap));
  blocks[0] = take(1024);
  CHECK(page_of(blocks[0]) == page);
  CHECK_EQUAL(held(page), 1);
  CHECK_EQUAL(heap->pages[class], 2);
  CHECK_SOUND(check_heap(heap));
  rtm_free(blocks[0]);
  for (unsigned i = first; i < first + second; i++) rtm_free(blocks[i]);
  rtm_trim();
  CHECK_EQUAL(heap->live, 0);
}

// Design section 2: page size follows demand.
TEST(the_first_page_of_a_class_is_small_and_later_ones_are_full_grown) {
  struct heap *heap = start();
  static void *blocks[BLOCKS_MOST];
  for (unsigned class = 1; class <= CLASSES; class++) {
    const struct class_shape *shape = &rtm_shape[class];
    unsigned count = fill_page(class, blocks);
    CHECK_EQUAL(page_of(blocks[0])->length, shape->granules_first);
    uint32_t before = shape->granules_first;
    for (unsigned pages = 1; pages < 11; pages++) {
      unsigned more = fill_page(class, blocks + count);
      uint32_t length = page_of(blocks[count])->length;
      CHECK(length >= before && length <= 2 * before);
      before = length;
      count += more;
    }
    CHECK_EQUAL(before, shape->granules_most);
    for (unsigned i = 0; i < count; i++) rtm_free(blocks[i]);
    rtm_trim();
    CHECK_EQUAL(heap->pages[class], 0);
  }
}

// Classes that were busy once do not keep their last page, which is full-grown, for ever.
TEST(idle_current_pages_serve_other_classes) {
  enum { SIZES = 32, BLOCKS = 1600, ROUNDS = 40 * SIZES, FULL_GROWN = PAGE_GRANULES_MAX };
  struct heap *heap = start();
  static void *blocks[BLOCKS];
  for (unsigned round = 0; round < ROUNDS; round++) {
    size_t size = 32 * (1 + round * 7 % SIZES);
    for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = take(size);
    for (unsigned i = 0; i < BLOCKS; i++) give(blocks[i], size);
  }
  CHECK(!check_heap(heap));
  CHECK(heap->live <= SIZES * FULL_GROWN / 2);
}

// Where blocks come and go in all pages of a class, each page that is taken has many free, and the class little more than
// it needs.
TEST(a_page_that_is_taken_has_many_free_blocks) {
  enum { BLOCKS = 20000, SIZE = 32, TURNS = 10 * BLOCKS, EACH_SERVES = 16 };
  struct heap *heap = start();
  struct random random = test_random(0);
  static void *blocks[BLOCKS];
  unsigned changes = 0, class = size_class(SIZE);
  for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = take(SIZE);
  for (unsigned turn = 0; turn < 2 * TURNS; turn++) {
    const struct span *before = heap->page[class];
    unsigned i = (unsigned)random_below(&random, BLOCKS);
    give(blocks[i], SIZE);
    blocks[i] = take(SIZE);
    changes += turn >= TURNS && heap->page[class] != before;
  }
  CHECK(changes < TURNS / EACH_SERVES);
  CHECK(heap->pages[class] * PAGE_BLOCKS_MAX <= BLOCKS * 5 / 4);
  CHECK_SOUND(check_heap(heap));
  for (unsigned i = 0; i < BLOCKS; i++) give(blocks[i], SIZE);
  rtm_trim();
  CHECK_EQUAL(heap->live, 0);
}

// Of two queued pages: the first (0) has two free blocks, the second (1) one. Which serves?
static unsigned which_serves(size_t size) {
  enum { GROWN = 11 };
  static void *blocks[BLOCKS_MOST];
  unsigned count = 0, class = size_class(size), of[2];
  for (unsigned i = 0; i < GROWN; i++) count += fill_page(class, blocks + count);
  for (unsigned i = 0; i < 2; i++) count += fill_page(class, blocks + (of[i] = count));
  count += fill_page(class, blocks + count);
  struct span *second = page_of(blocks[of[1]]);
  for (unsigned i = 0; i < 2; i++) rtm_free(blocks[of[0] + i]);
  rtm_free(blocks[of[1]]);
  void *block = take(size);
  unsigned serves = page_of(block) == second;
  CHECK(serves || page_of(block) == page_of(blocks[of[0] + 2]));
  CHECK_SOUND(check_heap(rtm_heap));
  rtm_free(block);
  for (unsigned i = 0; i < count; i++)
    if (i != of[0] && i != of[0] + 1 && i != of[1]) rtm_free(blocks[i]);
  rtm_trim();
  return serves;
}

TEST(of_large_blocks_the_fuller_page_serves) {
  const struct heap *heap = start();
  CHECK_EQUAL(which_serves(64), 0);
  CHECK_EQUAL(which_serves(1024), 0);
  CHECK_EQUAL(which_serves(1025), 1);
  CHECK_EQUAL(which_serves(8192), 1);
  CHECK_EQUAL(which_serves(8193), 1);
  CHECK_EQUAL(heap->live, 0);
}

TEST(random_blocks_of_a_few_classes) {
  enum { SLOTS = 3000 };
  struct heap *heap = start();
  struct random random = test_random(0);
  static const size_t sizes[] = {16, 48, 500, 1024, 5000, BLOCK_MAX};
  static void *blocks[SLOTS];
  static size_t size_of[SLOTS];
  uint64_t operations = test_operations(200000);
  for (uint64_t step = 0; step < operations; step++) {
    unsigned i = (unsigned)random_below(&random, SLOTS);
    if (blocks[i]) {
      give(blocks[i], size_of[i]);
      blocks[i] = NULL;
    } else if (step / 10000 % 3 != 2) {  // every third phase only frees
      size_of[i] = sizes[random_below(&random, sizeof sizes / sizeof sizes[0])];
      blocks[i] = take(size_of[i]);
    }
    if (step % 1024 == 0) CHECK_SOUND(check_heap(heap));
  }
  for (unsigned i = 0; i < SLOTS; i++)
    if (blocks[i]) give(blocks[i], size_of[i]);
  rtm_trim();
  CHECK_SOUND(check_heap(heap));
  CHECK_EQUAL(heap->live, 0);
}
