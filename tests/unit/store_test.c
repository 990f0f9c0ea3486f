// Stores: the tree of what other threads have freed, in order and in every disorder; bins.
#include "store.h"

#include <pthread.h>
#include <string.h>

#include "arena.h"
#include "rtmalloc.h"
#include "test.h"

static struct heap owner;

// A store of its own, in a run of segments that nothing else uses.
static struct span *make_by(void (*make_it)(struct heap *, struct span *, char *, size_t, uint32_t, _Atomic uint64_t *),
                            size_t block_size, uint32_t blocks) {
  rtm_free(rtm_malloc(1));
  bool zero;
  struct span *run = arena_take_run((uint32_t)((blocks * block_size + GRANULE_SIZE - 1) / GRANULE_SIZE), 1, &zero);
  CHECK(run);
  struct span *store = span_at(span_granule(run) / SEGMENT_GRANULES * SEGMENT_GRANULES + FIRST_SPAN_SLOT);
  _Atomic uint64_t *words = os_map(bits_round_up(store_words(blocks), GRANULE_SIZE));
  CHECK(words);
  make_it(&owner, store, run->start, block_size, blocks, words);
  return store;
}
static struct span *make(size_t block_size, uint32_t blocks) { return make_by(store_make, block_size, blocks); }

static void *take(struct span *store) {
  void *block = store->free;
  if (!block) return store_take(store);
  store->free = *(void **)block;
  return block;
}

static uint32_t number_of(const struct span *store, const void *block) {
  size_t offset = (size_t)((const char *)block - store->start);
  CHECK_EQUAL(offset % store->store_size, 0);
  return (uint32_t)(offset / store->store_size);
}

TEST(each_large_bin_holds_what_lies_between_the_last_and_its_own_size) {
  for (unsigned bin = CLASSES + 1; bin < BINS; bin++) {
    CHECK_EQUAL(bin_of_large(bin_size(bin)), bin);
    CHECK_EQUAL(bin_of_large(bin_size(bin - 1) + 1), bin);
    CHECK_EQUAL(bin_size(bin) % GRANULE_SIZE, 0);
  }
  CHECK_EQUAL(bin_size(CLASSES), BLOCK_MAX);
  CHECK_EQUAL(bin_size(BINS - 1), BIN_SIZE_MAX);
}

TEST(every_block_is_handed_out_once_and_comes_back_in_any_order) {
  static const struct {
    size_t size;
    uint32_t blocks;
  } stores[] = {{16, 1},     {16, 63},     {48, 64},     {112, 65},   {16, 4096},
                {640, 4097}, {16, 300000}, {40960, 100}, {3 << 20, 5}};
  struct random random = test_random(0);
  for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
    uint32_t blocks = stores[i].blocks;
    struct span *store = make(stores[i].size, blocks);
    void **held = os_map(bits_round_up(blocks * sizeof *held, GRANULE_SIZE));
    bool *seen = os_map(bits_round_up(blocks, GRANULE_SIZE));
    for (unsigned round = 0; round < 3; round++) {
      memset(seen, 0, blocks);
      for (uint32_t n = 0; n < blocks; n++) {
        held[n] = take(store);
        CHECK(held[n] && !seen[number_of(store, held[n])]);
        seen[number_of(store, held[n])] = true;
        CHECK_EQUAL(span_of(window_granule(held[n])) == store, true);
      }
      CHECK(!take(store) && !store_take_again(store));
      for (uint32_t left = blocks; left; left--) {  // freed by another thread, shuffled
        uint32_t at = (uint32_t)(random_next(&random) % left);
        store_mark(store, held[at]);
        held[at] = held[left - 1];
      }
    }
  }
}

TEST(late_bits_are_passed_over) {
  struct span *store = make(64, 8192);
  if (SECURE_VARIANT)
    while (store_take(store)) continue;
  else
    while (store->free) take(store);
  // Threads that stood before their upper bits: what they freed was found already.
  enum { LATE = 12 };
  for (unsigned i = 0; i < LATE; i++) {
    store_raise(store->store_level[1], 3 + i);
    store_raise(store->store_level[2], 0);
    store_raise(store->store_level[3], 0);
  }
  void *block = store->start + 64 * 5000;
  store_mark(store, block);
  void *taken = store_take(store);
  if (!taken) taken = store_take_again(store);
  CHECK(taken == block);
  CHECK(!store_take(store) && !store_take_again(store));
  CHECK_EQUAL(atomic_load(store->store_level[3]), 0);
}

// ---- threads ----

enum { THREADS = 3, BLOCKS = 1000 };

struct ring {
  _Atomic size_t put, taken;
  void *items[BLOCKS];
};
static struct ring rings[THREADS];
static struct span *shared;

static void *free_all(void *argument) {
  struct ring *ring = argument;
  for (;;) {
    size_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    while (atomic_load_explicit(&ring->put, memory_order_acquire) == taken) {
    }
    void *block = ring->items[taken % BLOCKS];
    if (!block) return NULL;
    CHECK_EQUAL(*(uint64_t *)block, number_of(shared, block));
    *(uint64_t *)block = 0;
    store_mark(shared, block);
    atomic_store_explicit(&ring->taken, taken + 1, memory_order_release);
  }
}

static bool give(struct ring *ring, void *block) {
  size_t put = atomic_load_explicit(&ring->put, memory_order_relaxed);
  if (put - atomic_load_explicit(&ring->taken, memory_order_acquire) == BLOCKS) return false;
  ring->items[put % BLOCKS] = block;
  atomic_store_explicit(&ring->put, put + 1, memory_order_release);
  return true;
}

TEST(threads_free_and_nothing_is_lost_or_handed_out_twice) {
  shared = make(96, BLOCKS);
  pthread_t threads[THREADS];
  struct random random = test_random(0);
  for (unsigned i = 0; i < THREADS; i++) CHECK_EQUAL(pthread_create(&threads[i], NULL, free_all, &rings[i]), 0);
  for (uint64_t n = test_operations(50000); n;) {
    void *block = take(shared);
    if (!block) continue;
    *(uint64_t *)block = number_of(shared, block);
    while (!give(&rings[random_next(&random) % THREADS], block)) {
    }
    n--;
  }
  for (unsigned i = 0; i < THREADS; i++) {
    while (!give(&rings[i], NULL)) {
    }
    pthread_join(threads[i], NULL);
  }
  uint32_t found = 0;
  for (unsigned misses = 0; misses < 10; misses++)
    while (take(shared)) found++, misses = 0;
  CHECK_EQUAL(found, BLOCKS);
}

static void free_twice(void) {
  struct span *store = make(96, 10);
  void *block = take(store);
  store_mark(store, block);
  store_mark(store, block);
}

TEST(a_block_that_is_freed_twice_by_others_is_seen) { CHECK(test_in_child(free_twice) != 0); }

// ---- common stores ----

enum { TAKERS = 4, HELD = 40, COMMON = TAKERS * HELD };
static struct span *common;
static _Atomic uint32_t users[COMMON];

// It holds HELD blocks at most, as many as are its share: so there is always one, whatever the others do.
static void *take_and_free(void *argument) {
  struct random random = test_random((uint64_t)(uintptr_t)argument);
  void *held[HELD];
  unsigned count = 0;
  for (uint64_t n = test_operations(100000); n--;) {
    if (count < HELD && random_next(&random) % 2) {
      held[count] = store_take_common(common);
      CHECK(held[count]);
      CHECK_EQUAL(atomic_fetch_add(&users[number_of(common, held[count])], 1), 0);
      count++;
    } else if (count) {
      unsigned at = (unsigned)(random_next(&random) % count);
      atomic_fetch_sub(&users[number_of(common, held[at])], 1);
      store_mark(common, held[at]);
      held[at] = held[--count];
    }
  }
  while (count) {
    atomic_fetch_sub(&users[number_of(common, held[--count])], 1);
    store_mark(common, held[count]);
  }
  return NULL;
}

TEST(threads_take_of_what_they_have_in_common_and_each_always_finds_its_share) {
  common = make_by(store_make_common, 32, COMMON);
  pthread_t threads[TAKERS];
  for (uintptr_t i = 0; i < TAKERS; i++) CHECK_EQUAL(pthread_create(&threads[i], NULL, take_and_free, (void *)i), 0);
  for (unsigned i = 0; i < TAKERS; i++) pthread_join(threads[i], NULL);
  static bool seen[COMMON];
  for (unsigned i = 0; i < COMMON; i++) {
    void *block = store_take_common(common);
    CHECK(block && !seen[number_of(common, block)]);
    seen[number_of(common, block)] = true;
  }
  CHECK(!store_take_common(common));
}

// Two threads, each of which has at most one of two blocks: so one is always free, whatever bits above are cleared.
static void *take_one_and_free(void *unused) {
  for (uint64_t n = test_operations(300000); n--;) {
    void *block = store_take_common(common);
    CHECK(block);
    store_mark(common, block);
  }
  return unused;
}

TEST(a_free_block_is_found_while_others_look_for_it) {
  common = make_by(store_make_common, 40960, 2);
  pthread_t threads[2];
  for (unsigned i = 0; i < 2; i++) CHECK_EQUAL(pthread_create(&threads[i], NULL, take_one_and_free, NULL), 0);
  for (unsigned i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

TEST(a_common_store_of_any_length_hands_out_each_block_once) {
  static const uint32_t lengths[] = {1, 63, 64, 65, 4096, 4097, 300000};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    common = make_by(store_make_common, 16, lengths[i]);
    for (uint32_t n = 0; n < lengths[i]; n++) CHECK_EQUAL(number_of(common, store_take_common(common)), n);
    CHECK(!store_take_common(common));
    store_mark(common, common->start);
    CHECK(store_take_common(common) == common->start);
    CHECK(!store_take_common(common));
    CHECK_EQUAL(atomic_load(common->store_level[3]), 0);
  }
}
