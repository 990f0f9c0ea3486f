// RT-Mimalloc: its invariants under random loads, alone and among threads, and what each switch does. Each test runs in
// a process of its own (tests/unit/test.h); the program runs once for each setting, in RT_MIMALLOC_SETTING.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rt_mimalloc/heap.h"
#include "rt_mimalloc/page.h"
#include "rt_mimalloc/rt_mimalloc.h"
#include "rt_mimalloc/segment.h"
#include "test.h"

enum { SLOTS = 2000, THREADS = 6 };

static unsigned in_queue(const struct queue *queue) {
  unsigned count = 0;
  for (const struct page *page = queue->first; page; page = page->next) count++;
  return count;
}

static struct page *page_at(void *block) { return page_of(segment_of(block), block); }

// ---- contents: the size at the front, one pattern behind it ----

static char *fill(char *block, size_t size) {
  if (size >= sizeof size) {
    memcpy(block, &size, sizeof size);
    memset(block + sizeof size, (int)(size & 0xff), size - sizeof size);
  }
  return block;
}

static size_t size_in(const char *block) {
  size_t size;
  memcpy(&size, block, sizeof size);
  return size;
}

static void look(const char *block, size_t size) {
  CHECK_EQUAL(size_in(block), size);
  for (size_t i = sizeof size; i<size; i += size> 4096 ? 251 : 1) CHECK_EQUAL((unsigned char)block[i], size & 0xff);
}

static size_t random_bytes(struct random *random) {
  static const size_t most[] = {128, 1024, 1024, 8192, 20480, 600000};
  size_t bytes = 8 + random_size(random, random_below(random, 200) ? most[random_below(random, 5)] : most[5]);
  return random_below(random, 4000) ? bytes : bytes + (3 << 20);
}

// ---- random loads ----

TEST(random_operations_keep_contents_and_invariants) {
  struct random random = test_random(0);
  static char *blocks[SLOTS];
  static size_t sizes[SLOTS];
  for (uint64_t step = 0; step < test_operations(60000); step++) {
    size_t slot = random_below(&random, SLOTS), size = random_bytes(&random);
    char *block = blocks[slot];
    if (block) look(block, sizes[slot]);
    switch (random_below(&random, 8)) {
      case 0:
        if (block) CHECK(rtmi_usable_size(block) >= sizes[slot]);
        block = rtmi_realloc(block, size);
        for (size_t i = sizeof size; blocks[slot] && i < size && i < sizes[slot]; i += 97)
          CHECK_EQUAL((unsigned char)block[i], sizes[slot] & 0xff);
        break;
      case 1:
        rtmi_free(block);
        block = rtmi_calloc(size / 8, 8);
        size = size / 8 * 8;
        for (size_t i = 0; i < size; i++) CHECK_EQUAL(block[i], 0);
        break;
      case 2: {
        rtmi_free(block);
        size_t alignment = (size_t)1 << random_below(&random, 14);
        block = rtmi_aligned_alloc(alignment, size);
        CHECK_EQUAL((uintptr_t)block & (alignment - 1), 0);
        break;
      }
      case 3:
      case 4:
        rtmi_free(block);
        block = NULL;
        break;
      default:
        rtmi_free(block);
        block = rtmi_malloc(size);
        CHECK_EQUAL((uintptr_t)block & (size > 8 ? 15 : 7), 0);
    }
    blocks[slot] = block ? fill(block, size) : NULL;
    sizes[slot] = size;
    if (step % 512 == 0) CHECK_SOUND(rtmi_check());
  }
  for (int i = 0; i < SLOTS; i++) rtmi_free(blocks[i]);
  CHECK_SOUND(rtmi_check());
  CHECK_EQUAL(in_queue(&rtmi_heap->full), 0);
}

static _Atomic(char *) places[SLOTS];

// Blocks wander: most frees are of another thread's blocks.
static void *exchange(void *number) {
  struct random random = test_random((uint64_t)(uintptr_t)number);
  for (uint64_t step = 0; step < test_operations(20000); step++) {
    size_t size = random_bytes(&random);
    char *block = random_below(&random, 16) ? fill(rtmi_malloc(size), size) : NULL;
    char *old = atomic_exchange(&places[random_below(&random, SLOTS)], block);
    if (old) look(old, size_in(old));
    rtmi_free(old);
    if (step % 1024 == 0) CHECK_SOUND(rtmi_check());
  }
  CHECK_SOUND(rtmi_check());
  return NULL;
}

static void run_threads(void *(*routine)(void *), int first, int count) {
  pthread_t threads[THREADS];
  for (int i = 0; i < count; i++)
    CHECK_EQUAL(pthread_create(&threads[i], NULL, routine, (void *)(uintptr_t)(first + i)), 0);
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

TEST(threads_exchange_blocks_and_exit) {
  for (int round = 0; round < 4; round++) run_threads(exchange, round * THREADS, THREADS);
  for (int i = 0; i < SLOTS; i++) rtmi_free(places[i]);
  CHECK_SOUND(rtmi_check());
}

// One only allocates, the other only frees: every block comes back by the thread list, and full pages by the heap's.
static _Atomic(char *) conveyor[64];
enum { CONVEYED = 300000 };
static void *consume(void *ignored) {
  (void)ignored;
  for (uint64_t i = 0; i < CONVEYED; i++) {
    char *block;
    while (!(block = atomic_exchange(&conveyor[i % 64], NULL))) sched_yield();
    look(block, size_in(block));
    rtmi_free(block);
  }
  return NULL;
}

TEST(a_producer_gets_its_blocks_back) {
  pthread_t consumer;
  CHECK_EQUAL(pthread_create(&consumer, NULL, consume, NULL), 0);
  for (uint64_t i = 0; i < CONVEYED; i++) {
    size_t size = 16 + i % 500;
    char *block = fill(rtmi_malloc(size), size), *none = NULL;
    while (!atomic_compare_exchange_weak(&conveyor[i % 64], &none, block)) none = NULL, sched_yield();
  }
  pthread_join(consumer, NULL);
  CHECK_SOUND(rtmi_check());
  // 64 blocks were on their way at once, of 11 classes below 512 bytes; the rest waited for a collection.
  CHECK(rtmi_heap->segment_peak[SMALL].most <= 2);
}

// ---- threads that exit ----

static void *leave_blocks(void *ignored) {
  (void)ignored;
  for (int i = 0; i < SLOTS; i++) places[i] = fill(rtmi_malloc(i % 2 ? 100 : 1 + 8 * (size_t)i), i % 2 ? 100 : 0);
  return NULL;
}

TEST(an_abandoned_segment_is_adopted_and_its_blocks_can_be_freed) {
  run_threads(leave_blocks, 0, 1);
  char *left = places[1];
  struct segment *segment = segment_of(left);
  CHECK(atomic_load(&segment->heap) == NULL);
  rtmi_free(places[3]);  // nobody's: joins the page's list
  places[3] = NULL;
  rtmi_heap_of_thread();
  for (int i = 0; i < 8 && atomic_load(&segment->heap) == NULL; i++) rtmi_heap_adopt(rtmi_heap, MEDIUM);
  CHECK(atomic_load(&segment->heap) == rtmi_heap);
  CHECK_SOUND(rtmi_check());
  for (int i = 1; i < SLOTS; i += 2)
    if (places[i]) look(places[i], 100);
  for (int i = 0; i < SLOTS; i++) rtmi_free(places[i]);
  CHECK_SOUND(rtmi_check());
  CHECK_EQUAL(page_at(left)->used, 0);
}

static void *nothing_left(void *ignored) {
  (void)ignored;
  void *blocks[100];
  for (int i = 0; i < 100; i++) blocks[i] = rtmi_malloc(5000);
  for (int i = 0; i < 100; i++) rtmi_free(blocks[i]);
  return NULL;
}

TEST(threads_that_leave_nothing_share_one_heap) {
  for (int i = 0; i < 50; i++) run_threads(nothing_left, 0, 1);
  unsigned heaps = 0;
  for (struct heap *heap = rtmi_heap_first(); heap; heap = heap->next) heaps++;
  CHECK_EQUAL(heaps, 2);
}

// ---- the arithmetic ----

TEST(block_sizes_are_those_of_the_set_b) {
  for (size_t bytes = 1; bytes <= 4 << 20; bytes += bytes < 5000 ? 1 : 997) {
    size_t block = class_bytes(class_of(bytes));
    CHECK(block >= bytes);
    if (bytes > 8) CHECK_EQUAL(block % 16, 0);
    if (bytes > 64) {
      CHECK((block - bytes) * 5 < block);  // the next smaller of B does not hold it: four to a doubling
      CHECK(class_bytes(class_of(bytes) - 1) < bytes);
    }
  }
  CHECK_EQUAL(class_of(CLASS_BYTES_MOST), CLASSES - 1);
  CHECK_EQUAL(class_of(MEDIUM_MOST), MEDIUM_CLASSES - 1);
  CHECK_EQUAL(class_bytes(class_of(1025)), 1280);
}

TEST(impossible_requests_are_refused) {
  errno = 0;
  CHECK(!rtmi_malloc(SIZE_MAX) && errno == ENOMEM);
  CHECK(!rtmi_malloc((size_t)1 << 62));
  CHECK(!rtmi_calloc(SIZE_MAX / 2, 3));
  CHECK(!rtmi_aligned_alloc(16 << 20, 10) && errno == ENOMEM);
  CHECK(!rtmi_aligned_alloc(48, 10) && errno == EINVAL);
  char *block = fill(rtmi_malloc(100), 100);
  CHECK(!rtmi_realloc(block, SIZE_MAX));
  look(block, 100);
  CHECK(rtmi_malloc(0) != NULL);
  rtmi_free(NULL);
}

// ---- the switches, each by what it does ----

TEST(the_free_list_is_extended_as_the_switch_says) {
  struct page *page = page_at(rtmi_malloc(320));
  uint32_t expected[] = {[EXTEND_PROPORTIONAL] = 4096 / 320, [EXTEND_TWO] = 2, [EXTEND_WHOLE] = page->reserved};
  CHECK_EQUAL(page->capacity, expected[rtmi_switches.extend]);
  for (uint32_t i = 1; i <= page->capacity; i++)
    CHECK(page_at(rtmi_malloc(320)) == page || page->capacity == page->reserved);
  CHECK_SOUND(rtmi_check());
}

TEST(pages_direct_changes_one_pointer_or_all_entries) {
  size_t entries = 0;
  void *before[DIRECT_ENTRIES_COUNT];
  rtmi_heap_of_thread();
  memcpy(before, rtmi_heap->direct, sizeof before);
  struct page *page = page_at(rtmi_malloc(1000));
  for (int i = 0; i < DIRECT_ENTRIES_COUNT; i++) entries += rtmi_heap->direct[i] != before[i];
  // 897 to 1024 bytes are 16 numbers of words.
  CHECK_EQUAL(entries, rtmi_switches.direct == DIRECT_POINTER ? 0 : 16);
  CHECK(rtmi_heap->available[class_of(1000)] == page);
}

TEST(linear_search_and_bitmap_find_the_same_page) {
  struct random random = test_random(0);
  struct segment segment = {.kind = SMALL, .count = PAGES_MOST, .unused = UINT64_MAX, .in_free_list = true};
  for (int step = 0; step < 10000; step++) {
    unsigned index = (unsigned)random_below(&random, PAGES_MOST);
    if (segment.pages[index].in_use) {
      rtmi_segment_mark_unused(&segment, &segment.pages[index]);
    } else if (segment.used < PAGES_MOST - 1) {
      segment.pages[index].in_use = true;
      segment.unused &= ~((uint64_t)1 << index);
      segment.used++;
    }
    unsigned first = 0;
    while (segment.pages[first].in_use) first++;
    CHECK_EQUAL(rtmi_segment_find_free(&segment), first);
  }
}

// Fills pages of one class, and gives everything back.
static void fill_and_empty(size_t bytes, int count) {
  void *blocks[SLOTS];
  for (int i = 0; i < count; i++) blocks[i] = rtmi_malloc(bytes);
  for (int i = 0; i < count; i++) rtmi_free(blocks[i]);
  CHECK_SOUND(rtmi_check());
}

TEST(empty_pages_go_or_stay_as_the_switch_says) {
  fill_and_empty(4096, 500);
  unsigned small = in_queue(&rtmi_heap->queues[class_of(4096)]);
  CHECK_EQUAL(small, rtmi_switches.free_pages == FREE_NONE ? rtmi_heap->page_peak[class_of(4096)].most : 1);
  fill_and_empty(1 << 20, 5);
  unsigned huge = in_queue(&rtmi_heap->queues[class_of(1 << 20)]);
  CHECK_EQUAL(huge, rtmi_switches.free_pages == FREE_ALL ? 0 : 5);
  fill_and_empty(1 << 20, 5);  // kept ones are used again
  CHECK_EQUAL(rtmi_heap->page_peak[class_of(1 << 20)].most, 5);
}

TEST(empty_segments_go_or_stay_as_the_switch_says) {
  fill_and_empty(100000, 500);
  uint32_t most = rtmi_heap->segment_peak[MEDIUM].most, now = rtmi_heap->segment_peak[MEDIUM].now;
  CHECK(most >= 500 * 100000 / SEGMENT_BYTES);
  CHECK_EQUAL(now, rtmi_switches.free_segments && rtmi_switches.free_pages != FREE_NONE ? 1 : most);
}

TEST(a_retired_page_is_collected_if_the_switch_says_so) {
  fill_and_empty(64, 1);
  struct queue *queue = &rtmi_heap->queues[class_of(64)];
  CHECK_EQUAL(in_queue(queue), 1);
  CHECK_EQUAL(queue->first->retired, rtmi_switches.free_pages == FREE_NONE ? 0 : RETIRE_ROUNDS);
  // Each page that must be made is a round.
  for (int i = 0; i < RETIRE_ROUNDS; i++)
    rtmi_malloc(600000 + (size_t)i * 100000), rtmi_malloc(300000), rtmi_malloc(8192);
  for (int i = 0; i < 8 * RETIRE_ROUNDS; i++) rtmi_malloc(8192);
  CHECK_EQUAL(in_queue(queue), rtmi_switches.collect_retired && rtmi_switches.free_pages != FREE_NONE ? 0 : 1);
}

// ---- profiles ----

static void profiled_load(void) {
  static void *blocks[SLOTS];
  struct random random = {42};
  for (int step = 0; step < 20000; step++) {
    size_t slot = random_below(&random, SLOTS);
    rtmi_free(blocks[slot]);
    blocks[slot] = rtmi_malloc(random_bytes(&random));
  }
  for (int i = 0; i < SLOTS; i++) rtmi_free(blocks[i]), blocks[i] = NULL;
}

// In a thread, as a heap is prepared when it is made.
static void *load_prepared(void *ignored) {
  (void)ignored;
  rtmi_prepare_thread();
  CHECK_SOUND(rtmi_check());
  struct heap *heap = rtmi_heap;
  struct peak small = heap->segment_peak[SMALL], medium = heap->segment_peak[MEDIUM];
  unsigned pages = in_queue(&heap->queues[class_of(300)]);
  CHECK(medium.now > 0);
  CHECK_EQUAL(pages > 0, rtmi_switches.prepare == PREPARE_PAGES);
  profiled_load();
  CHECK_EQUAL(heap->segment_peak[SMALL].most, small.most);
  CHECK_EQUAL(heap->segment_peak[MEDIUM].most, medium.most);
  if (rtmi_switches.prepare == PREPARE_PAGES) CHECK_EQUAL(heap->page_peak[class_of(300)].most, pages);
  return NULL;
}

static char profile[] = "/tmp/rt-mimalloc-test-XXXXXX";
static void make_profile_file(const char *text) {
  int file = mkstemp(profile);
  CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
  close(file);
}

TEST(a_loaded_profile_covers_the_recorded_load) {
  make_profile_file("");
  if (rtmi_switches.prepare == PREPARE_NOTHING) {
    CHECK(!rtmi_save_profile(profile) && !rtmi_load_profile(profile));
  } else {
    profiled_load();
    CHECK(rtmi_save_profile(profile) && rtmi_save_profile(profile) && rtmi_load_profile(profile));
    run_threads(load_prepared, 0, 1);
  }
  unlink(profile);
}

TEST(a_profile_that_is_none_is_refused) {
  static const char *const wrong[] = {"",
                                      "hello\n",
                                      "rt-mimalloc profile 2 pages\nend\n",
                                      "rt-mimalloc profile 1 pages\n",
                                      "rt-mimalloc profile 1 pages\npages 17 1\nend\n",
                                      "rt-mimalloc profile 1 pages\npages 16 x\nend\n",
                                      "rt-mimalloc profile 1 pages\npages 16 99999999\nend\n",
                                      "rt-mimalloc profile 1 segments\nsegments large 1\nend\n",
                                      "rt-mimalloc profile 1 segments\npages 16 1\nend\n",
                                      "rt-mimalloc profile 1 segments\nsegments small 1\nend\nmore\n"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    strcpy(profile + strlen(profile) - 6, "XXXXXX");
    make_profile_file(wrong[i]);
    CHECK(!rtmi_load_profile(profile));
    if (*wrong[i]) CHECK(!rtmi_save_profile(profile));  // what is there is not written over
    unlink(profile);
  }
  CHECK(!rtmi_load_profile("/nonexistent/profile"));
}
