// General mode's bound rests on this: what an operation needs of the arena and of the hint trees was prepared before it.
// `rtm_arena.late` counts the operations that found nothing; there are none, in whatever order requests come.
// (docs/bounded-work.md, "What is prepared".)
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "heap.h"
#include "medium.h"
#include "page_parts.h"
#include "rtmalloc.h"
#include "segment.h"
#include "test.h"

static uint32_t late(void) { return atomic_load(&rtm_arena.late); }
static void start(void) {
  rtm_free(rtm_malloc(1));  // the thread's first call makes its heap
  CHECK_EQUAL(late(), 0);
}

static size_t size_of(unsigned class) { return rtm_shape[class].block_size; }
static void *take(size_t size) {
  void *block = rtm_malloc(size);
  CHECK(block);
  return block;
}

// The class's next block needs a new page.
static void use_up(unsigned class) {
  for (;;) {
    const struct span *page = rtm_heap->page[class];
    if (!page_has_linked(page) && !page_has_unlinked(page) && !rtm_heap->queue[class].head) return;
    take(size_of(class));
  }
}

// The argument of docs/bounded-work.md: before there is a spare segment again, each class may need a page, and four
// operations that prepare it come between them.
TEST(the_shortest_pages_of_all_classes_fit_in_half_a_segment) {
  enum { PIECES = 4 };
  start();
  uint32_t granules = PIECES * PAGE_GRANULES_MAX;
  for (unsigned class = 1; class <= CLASSES; class ++) granules += page_first_length(class);
  CHECK_EQUAL(granules, 333 + PIECES * PAGE_GRANULES_MAX);
  CHECK(granules + PAGE_GRANULES_MAX <= SEGMENT_USED - MEDIUM_GRANULES_MAX);
}

// New pages only, one after the other, each of another class: no operation between them prepares anything.
TEST(a_new_page_of_each_class_in_a_row) {
  enum { ROUNDS = 60 };
  start();
  for (unsigned round = 0; round < ROUNDS; round++) {
    for (unsigned class = 1; class <= CLASSES; class ++) use_up(class);
    for (unsigned class = 1; class <= CLASSES; class ++) take(size_of(class));
    CHECK_EQUAL(late(), 0);
  }
  CHECK_SOUND(rtm_check());
}

// The same where every heap of many has to share the metadata.
static void *run_new_pages(void *argument) {
  (void)argument;
  rtm_free(rtm_malloc(1));
  for (unsigned round = 0; round < 6; round++) {
    for (unsigned class = 1; class <= CLASSES; class ++) use_up(class);
    for (unsigned class = 1; class <= CLASSES; class ++) take(size_of(class));
  }
  return NULL;
}
TEST(a_new_page_of_each_class_in_a_row_in_many_heaps) {
  start();
  for (unsigned i = 0; i < 40; i++) {
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, run_new_pages, NULL), 0);
    pthread_join(thread, NULL);
  }
  CHECK_EQUAL(late(), 0);
}

static void keep_medium_blocks(size_t least, size_t most, unsigned count, bool clear) {
  struct random random = test_random(most);
  start();
  for (unsigned i = 0; i < count; i++) {
    size_t size = least + random_below(&random, most - least + 1);
    CHECK(clear ? rtm_calloc(1, size) : rtm_malloc(size));
    CHECK_EQUAL(late(), 0);
  }
}
TEST(half_segments) { keep_medium_blocks(MEDIUM_MAX, MEDIUM_MAX, 400, false); }
TEST(nearly_half_segments) { keep_medium_blocks(MEDIUM_MAX / 2, MEDIUM_MAX, 400, false); }
TEST(the_smallest_medium_blocks) { keep_medium_blocks(BLOCK_MAX + 1, BLOCK_MAX + 1, 20000, false); }
TEST(medium_blocks_of_all_lengths) { keep_medium_blocks(BLOCK_MAX + 1, MEDIUM_MAX, 2000, false); }
TEST(half_segments_by_calloc) { keep_medium_blocks(MEDIUM_MAX, MEDIUM_MAX, 400, true); }
TEST(medium_blocks_by_calloc) { keep_medium_blocks(BLOCK_MAX + 1, MEDIUM_MAX / 4, 2000, true); }

// Everything: pages of classes that come in a row, medium blocks, those that grow in place, and alignments, which cut
// what is free; and all of it goes back now and then, so that whole segments do.
enum { PLACES = 4000 };
static void *places[PLACES];

static void *request(struct random *random, void *had) {
  size_t medium = BLOCK_MAX + 1 + random_size(random, MEDIUM_MAX - BLOCK_MAX - 1);
  switch (random_below(random, 16)) {
    case 0: return rtm_realloc(had, medium);
    case 1: return rtm_free(had), rtm_aligned_alloc((size_t)GRANULE_SIZE << random_below(random, 9), medium / 2);
    case 2: return rtm_free(had), rtm_calloc(1, medium);
    case 3:
    case 4: return rtm_free(had), take(medium);
    case 5: return rtm_free(had), NULL;
    case 6: return rtm_realloc(had, 1 + random_size(random, BLOCK_MAX));
    default: return rtm_free(had), take(size_of(1 + (unsigned)random_below(random, CLASSES)));
  }
}

static void storm(uint64_t stream, uint64_t operations) {
  struct random random = test_random(stream);
  uint64_t most = 1;
  unsigned class = 0;
  for (uint64_t i = 0; i < operations; i++) {
    if (i % 4096 == 0) most = 1 + random_below(&random, PLACES);
    void **place = &places[random_below(&random, most)];
    if (random_below(&random, 3) == 0) {
      rtm_free(*place);
      *place = take(size_of(1 + class++ % CLASSES));
    } else {
      *place = request(&random, *place);
    }
    CHECK_EQUAL(late(), 0);
    if (i % 16384 != 16383) continue;
    for (unsigned p = 0; p < PLACES; p++) {
      rtm_free(places[p]);
      places[p] = NULL;
    }
    CHECK_EQUAL(late(), 0);
  }
  for (unsigned p = 0; p < PLACES; p++) rtm_free(places[p]);
  CHECK_SOUND(rtm_check());
}
TEST(a_storm_of_everything) {
  start();
  storm(1, test_operations(200000));
}
TEST(a_storm_where_all_free_memory_goes_back_at_once) {
  test_needs_option("RTMALLOC_PURGE", "eager");
  start();
  storm(2, test_operations(100000));
}

// Blocks that another thread frees come back to a heap that has little else.
static void *_Atomic handed;
static _Atomic bool done;
static void *free_handed(void *argument) {
  (void)argument;
  while (!atomic_load(&done) || atomic_load(&handed)) rtm_free(atomic_exchange(&handed, NULL));
  return NULL;
}
TEST(another_thread_frees) {
  struct random random = test_random(3);
  pthread_t thread;
  start();
  CHECK_EQUAL(pthread_create(&thread, NULL, free_handed, NULL), 0);
  for (uint64_t i = test_operations(200000); i > 0; i--) {
    size_t size = i % 3 ? size_of(1 + (unsigned)(i % CLASSES)) : BLOCK_MAX + random_size(&random, MEDIUM_MAX - BLOCK_MAX);
    rtm_free(atomic_exchange(&handed, take(size)));
    CHECK_EQUAL(late(), 0);
  }
  atomic_store(&done, true);
  pthread_join(thread, NULL);
}

// What takes segments beside: huge blocks, heaps as objects that are used again, and threads' heaps one after the other.
TEST(huge_blocks_between) {
  start();
  for (unsigned i = 0; i < 60; i++) {
    take((size_t)(1 + i % 7) * SEGMENT_SIZE + 1);
    for (unsigned m = 0; m < i % 6; m++) take(MEDIUM_MAX);
    CHECK_EQUAL(late(), 0);
  }
}
TEST(heaps_that_are_used_again) {
  start();
  for (unsigned i = 0; i < 40; i++) {
    struct rtm_heap *heap = rtm_heap_new();
    CHECK(rtm_heap_malloc(heap, 1 + i * 5000));
    CHECK(rtm_heap_malloc(heap, 1));
    CHECK_EQUAL(late(), 0);
    rtm_heap_destroy(heap);
  }
}
static void *wait_here(void *barrier) {
  rtm_free(rtm_malloc(1));
  pthread_barrier_wait(barrier);
  return NULL;
}
TEST(threads_that_start_in_turn) {
  enum { THREADS = 30 };
  start();
  pthread_barrier_t barriers[THREADS];
  pthread_t threads[THREADS];
  for (unsigned i = 0; i < THREADS; i++) {
    pthread_barrier_init(&barriers[i], NULL, 2);
    CHECK_EQUAL(pthread_create(&threads[i], NULL, wait_here, &barriers[i]), 0);
    sched_yield();
  }
  for (unsigned i = 0; i < THREADS; i++) pthread_barrier_wait(&barriers[i]);
  for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (unsigned i = 0; i < 40; i++) take(MEDIUM_MAX);
  CHECK_EQUAL(late(), 0);
}

// The one time when nothing is prepared: all that was has just been given back.
TEST(after_a_trim_one_operation_is_late) {
  start();
  rtm_trim();
  take(100000);
  CHECK(late() <= 1);
  uint32_t before = late();
  for (unsigned i = 0; i < 100; i++) take(100000);
  CHECK_EQUAL(late(), before);
}
