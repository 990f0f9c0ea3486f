// Prepared heaps: each start routine finds its own, the lowest number first, and never one that a thread has.
#include "prepared.h"

#include <pthread.h>

#include "os/os.h"
#include "test.h"

// `of[i]` heaps for routine 0x1000 * i, as loading makes them: the lowest number is the first of the list.
static struct stores *index_of(const uint32_t *of, uint32_t routines) {
  struct stores *all = NULL;
  for (uint32_t routine = routines; routine-- > 0;)
    for (uint32_t number = of[routine]; number-- > 0;) {
      struct stores *stores = os_map(bits_round_up(sizeof *stores, GRANULE_SIZE));
      struct heap *heap = os_map(bits_round_up(sizeof *heap, GRANULE_SIZE));
      CHECK(stores && heap);
      *heap = (struct heap){.routine = 0x1000 * (uintptr_t)routine, .index = number, .stores = stores};
      stores->heap = heap;
      stores->next = all;
      all = stores;
    }
  size_t bytes;
  bool permitted = true;
  CHECK(prepared_index(all, &bytes, &permitted) == NULL);
  CHECK(bytes >= GRANULE_SIZE);
  return all;
}

static void takes_in_order(uintptr_t routine, uint32_t from, uint32_t to) {
  for (uint32_t number = from; number < to; number++) {
    struct heap *heap = prepared_take(routine);
    CHECK(heap);
    CHECK_EQUAL(heap->routine, routine);
    CHECK_EQUAL(heap->index, number);
  }
}

TEST(nothing_is_found_before_the_index_is_built) {
  CHECK(prepared_take(0) == NULL);
  CHECK(prepared_take(0x1234) == NULL);
}

TEST(each_routine_has_its_own_heaps_the_lowest_first) {
  static const uint32_t of[] = {1, 3, 0, 65};
  index_of(of, 4);
  takes_in_order(0x3000, 0, 65);
  takes_in_order(0x1000, 0, 3);
  takes_in_order(0, 0, 1);
  for (uintptr_t routine = 0; routine < 0x5000; routine += 0x800) CHECK(prepared_take(routine) == NULL);
}

TEST(what_a_thread_leaves_is_found_again_in_groups_of_any_size) {
  static const uint32_t sizes[] = {1, 63, 64, 65, 4096, 4200};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    uint32_t of[] = {0, sizes[i]};
    index_of(of, 2);
    struct heap *first = prepared_take(0x1000);
    takes_in_order(0x1000, 1, sizes[i]);
    CHECK(prepared_take(0x1000) == NULL);
    prepared_leave(first->stores);
    CHECK(prepared_take(0x1000) == first);
    CHECK(prepared_take(0x1000) == NULL);
  }
}

TEST(many_routines_are_told_apart) {
  enum { ROUTINES = 2000 };
  static uint32_t of[ROUTINES];
  for (uint32_t i = 0; i < ROUTINES; i++) of[i] = 1;
  index_of(of, ROUTINES);
  for (uint32_t i = ROUTINES; i-- > 0;) takes_in_order(0x1000 * (uintptr_t)i, 0, 1);
}

TEST(a_heap_with_such_blocks_is_found_among_those_that_wait) {
  enum { BIN = CLASSES };
  static struct span store = {.kind = SPAN_STORE, .store_blocks = 1};
  static const uint32_t of[] = {0, 200};
  struct stores *all = index_of(of, 2);
  for (struct stores *one = all; one; one = one->next) {
    for (unsigned class = 1; class <= CLASSES; class ++) one->heap->page[class] = &rtm_no_store[class];
    if (one->heap->index == 50 || one->heap->index == 190) one->heap->page[BIN] = &store;
  }
  struct heap *own = prepared_take(0x1000);
  CHECK_EQUAL(own->index, 0);
  CHECK(!prepared_take_other(own->stores, BIN - 1));
  struct heap *other = prepared_take_other(own->stores, BIN);
  CHECK(other);
  CHECK_EQUAL(other->index, 50);
  CHECK(!prepared_take_other(own->stores, BIN));  // none of the first ones that wait
  takes_in_order(0x1000, 1, 50);
  takes_in_order(0x1000, 51, 190);
  prepared_leave(other->stores);
  CHECK(prepared_take_other(own->stores, BIN) == other);
  other = prepared_take_other(own->stores, BIN);
  CHECK(other);
  CHECK_EQUAL(other->index, 190);
  takes_in_order(0x1000, 191, 200);
  CHECK(!prepared_take_other(own->stores, BIN));
}

enum { THREADS = 4, ROUNDS = 20000, HEAPS = 70 };
static _Atomic int owners[HEAPS];

// Takes two heaps and leaves them: nobody else may have them meanwhile, and as there are enough, some always wait.
static void *come_and_go(void *unused) {
  (void)unused;
  for (unsigned round = 0; round < ROUNDS; round++) {
    struct heap *heap[2];
    for (unsigned i = 0; i < 2; i++) {
      heap[i] = prepared_take(0x1000);
      CHECK(heap[i]);
      CHECK_EQUAL(atomic_fetch_add(&owners[heap[i]->index], 1), 0);
    }
    for (unsigned i = 0; i < 2; i++) {
      atomic_fetch_sub(&owners[heap[i]->index], 1);
      prepared_leave(heap[i]->stores);
    }
  }
  return NULL;
}

TEST(threads_that_come_and_go_at_once_never_share_a_heap_and_never_miss_one) {
  static const uint32_t of[] = {0, HEAPS};
  index_of(of, 2);
  pthread_t threads[THREADS];
  for (unsigned i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, come_and_go, NULL) == 0);
  for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  uint32_t waiting = 0;
  while (prepared_take(0x1000)) waiting++;
  CHECK_EQUAL(waiting, HEAPS);
}
