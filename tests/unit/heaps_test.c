// First-class heaps: allocated from, freed by any thread, ended at once or handed over, walked, limited.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "heap.h"
#include "rtmalloc.h"
#include "secure/secure.h"
#include "test.h"

// Sizes of every kind: of a page, medium, huge; alignments of a line and above a page.
static size_t some_size(struct random *random) {
  uint64_t kind = random_below(random, 100);
  return kind < 90 ? random_size(random, 32768) : kind < 98 ? 32769 + random_below(random, 400000) : (2u << 20) + 1;
}

struct mine {
  unsigned char *block;
  size_t size;
  unsigned char value;
};

static void fill(struct mine *m) {
  m->value = (unsigned char)((uintptr_t)m->block >> 4 | 1);
  if (m->size) m->block[0] = m->block[m->size / 2] = m->block[m->size - 1] = m->value;
}
static void check_fill(const struct mine *m) {
  if (!m->size) return;
  CHECK_EQUAL(m->block[0], m->value);
  CHECK_EQUAL(m->block[m->size - 1], m->value);
}

// With canaries a block is longer than what may be used of it; a quarantine keeps huge blocks' addresses.
static bool figures_are_exact(void) {
  rtm_free(rtm_malloc(1));
  return !SECURE_VARIANT || !(rtm_secure.features & (SECURE_CANARIES | SECURE_QUARANTINE));
}

enum { BLOCKS = 400 };

// One random operation on the heap and one of its blocks.
static void operate(struct rtm_heap *heap, struct random *random, struct mine *m) {
  uint64_t kind = random_below(random, 8);
  size_t size = some_size(random);
  if (!m->block) {
    *m = (struct mine){.size = size};
    size_t alignment = (size_t)16 << random_below(random, 10);
    m->block = kind < 5 ? rtm_heap_malloc(heap, size)
               : kind < 6 ? rtm_heap_calloc(heap, size, 1)
                          : rtm_heap_aligned_alloc(heap, alignment, size);
    CHECK(m->block);
    CHECK(rtm_heap_contains(heap, m->block));
    CHECK(rtm_usable_size(m->block) >= size);
    if (kind == 5)
      for (size_t i = 0; i < size; i++) CHECK_EQUAL(m->block[i], 0);
    if (kind > 5) CHECK_EQUAL((uintptr_t)m->block % alignment, 0);
    fill(m);
    return;
  }
  check_fill(m);
  if (kind < 2) {
    unsigned char *again = rtm_heap_realloc(heap, m->block, size ? size : 1);
    CHECK(again);
    if (size && m->size) CHECK_EQUAL(again[0], m->value);
    *m = (struct mine){again, size ? size : 1, 0};
    fill(m);
    return;
  }
  if (kind < 5)
    rtm_heap_free(heap, m->block);
  else
    rtm_free(m->block);
  m->block = NULL;
}

static size_t live_count(const struct mine *mine) {
  size_t count = 0;
  for (int i = 0; i < BLOCKS; i++) count += mine[i].block != NULL;
  return count;
}

TEST(random_operations_keep_the_heap_sound) {
  struct random random = test_random(0);
  static struct mine mine[BLOCKS];
  for (int round = 0; round < 3; round++) {  // the second heap is made of the first
    struct rtm_heap *heap = rtm_heap_new();
    memset(mine, 0, sizeof mine);
    uint64_t operations = test_operations(20000);
    for (uint64_t i = 0; i < operations; i++) {
      operate(heap, &random, &mine[random_below(&random, BLOCKS)]);
      if (i % 1000 == 0) CHECK_SOUND(rtm_heap_check(heap));
    }
    struct rtm_usage usage;
    rtm_heap_usage(heap, &usage);
    CHECK_EQUAL(usage.blocks, live_count(mine));
    rtm_heap_destroy(heap);
    CHECK_SOUND(rtm_check());
  }
}

struct seen {
  struct mine *mine;
  size_t count, bytes;
};
static bool see(void *block, size_t bytes, void *argument) {
  struct seen *seen = argument;
  for (int i = 0; i < BLOCKS; i++)
    if (seen->mine[i].block == block) {
      CHECK(bytes >= seen->mine[i].size);
      CHECK_EQUAL(bytes, rtm_usable_size(block));
      seen->count++;
      seen->bytes += bytes;
      return true;
    }
  test_fail(__FILE__, __LINE__, "visited a block that is not live");
}
static bool stop_at_third(void *block, size_t bytes, void *argument) {
  (void)block, (void)bytes;
  return ++*(int *)argument < 3;
}

TEST(a_visit_sees_each_live_block_once) {
  struct random random = test_random(1);
  static struct mine mine[BLOCKS];
  struct rtm_heap *heap = rtm_heap_new();
  for (uint64_t i = 0; i < test_operations(5000); i++) operate(heap, &random, &mine[random_below(&random, BLOCKS)]);
  struct seen seen = {mine, 0, 0};
  CHECK(rtm_heap_visit(heap, see, &seen));
  CHECK_EQUAL(seen.count, live_count(mine));
  struct rtm_usage usage;
  rtm_heap_usage(heap, &usage);
  if (figures_are_exact()) CHECK_EQUAL(usage.held, seen.bytes);
  int visits = 0;
  for (int i = 0; i < 5; i++) CHECK(rtm_heap_malloc(heap, 100));
  CHECK(!rtm_heap_visit(heap, stop_at_third, &visits));
  CHECK_EQUAL(visits, 3);
  rtm_heap_destroy(heap);
}

static bool free_it(void *block, size_t bytes, void *argument) {
  (void)bytes, (void)argument;
  rtm_free(block);
  return true;
}
static bool none(void *block, size_t bytes, void *argument) { return (void)block, (void)bytes, (void)argument, false; }

TEST(a_visitor_may_free_what_it_sees) {
  struct rtm_heap *heap = rtm_heap_new();
  for (int i = 0; i < 1000; i++) CHECK(rtm_heap_malloc(heap, 64));
  CHECK(rtm_heap_malloc(heap, 100000));
  CHECK(rtm_heap_malloc(heap, 3 << 20));
  CHECK(rtm_heap_visit(heap, free_it, NULL));
  CHECK(rtm_heap_visit(heap, none, NULL));
  rtm_heap_collect(heap, true);
  CHECK_SOUND(rtm_heap_check(heap));
  rtm_heap_destroy(heap);
}

TEST(heaps_do_not_share_memory) {
  struct rtm_heap *one = rtm_heap_new(), *two = rtm_heap_new();
  static const size_t sizes[] = {16, 1000, 40000, 3 << 20};
  for (unsigned i = 0; i < 4; i++) {
    void *of_one = rtm_heap_malloc(one, sizes[i]), *of_two = rtm_heap_malloc(two, sizes[i]), *own = rtm_malloc(sizes[i]);
    CHECK(rtm_heap_contains(one, of_one) && !rtm_heap_contains(two, of_one));
    CHECK(rtm_heap_contains(two, of_two) && !rtm_heap_contains(one, of_two));
    CHECK(!rtm_heap_contains(one, own) && !rtm_heap_contains(one, &own) && !rtm_heap_contains(one, NULL));
    rtm_free(own);
  }
  rtm_heap_destroy(one);
  CHECK_SOUND(rtm_heap_check(two));
  rtm_heap_destroy(two);
}

TEST(destroying_gives_everything_back_whatever_its_number_of_blocks) {
  struct rtm_stats before, full, after;
  rtm_free(rtm_malloc(1));
  rtm_heap_destroy(rtm_heap_new());
  rtm_stats(&before);
  struct rtm_heap *heap = rtm_heap_new();
  for (int i = 0; i < 200000; i++) CHECK(rtm_heap_malloc(heap, 200));
  for (int i = 0; i < 3; i++) CHECK(rtm_heap_malloc(heap, 9 << 20));
  rtm_stats(&full);
  CHECK(full.in_use >= before.in_use + 200000 * 200 + (27 << 20));
  rtm_heap_destroy(heap);
  rtm_stats(&after);
  if (!figures_are_exact()) return;
  CHECK_EQUAL(after.in_use, before.in_use);
  CHECK(after.mapped < before.mapped + (9 << 20));  // metadata, and what the arena keeps
}

TEST(a_heap_made_of_a_destroyed_one_takes_no_new_memory) {
  struct rtm_heap *heap = rtm_heap_new();
  for (int i = 0; i < 10000; i++) CHECK(rtm_heap_malloc(heap, 16 + (size_t)i % 3000));
  rtm_heap_destroy(heap);
  struct rtm_stats before, after;
  rtm_stats(&before);
  for (int round = 0; round < 50; round++) {
    heap = rtm_heap_new();
    for (int i = 0; i < 10000; i++) CHECK(rtm_heap_malloc(heap, 16 + (size_t)i % 3000));
    rtm_heap_destroy(heap);
  }
  rtm_stats(&after);
  CHECK_EQUAL(after.heaps, before.heaps);
  CHECK(after.mapped_peak <= before.mapped_peak + (8 << 20));
}

static void *free_all(void *argument) {
  struct mine *mine = argument;
  for (int i = 0; i < BLOCKS; i++) rtm_free(mine[i].block);
  return NULL;
}

TEST(a_deleted_heap_leaves_its_blocks_to_the_process) {
  struct random random = test_random(2);
  static struct mine mine[BLOCKS];
  struct rtm_heap *heap = rtm_heap_new();
  for (uint64_t i = 0; i < test_operations(5000); i++) operate(heap, &random, &mine[random_below(&random, BLOCKS)]);
  CHECK_EQUAL(rtm_heap_delete(heap), 0);
  for (int i = 0; i < BLOCKS; i++)
    if (mine[i].block) check_fill(&mine[i]);
  pthread_t thread;
  CHECK_EQUAL(pthread_create(&thread, NULL, free_all, mine), 0);
  pthread_join(thread, NULL);
  rtm_trim();
  CHECK_SOUND(rtm_check());
  heap = rtm_heap_new();  // and a further one lives beside what was handed over
  CHECK(rtm_heap_malloc(heap, 100));
  rtm_heap_destroy(heap);
}

// Producers of one heap each; everything is freed by the neighbour, while the heap goes on.
enum { THREADS = 4, SLOTS = 64 };
static _Atomic(void *) slots[THREADS][SLOTS];

static void *produce(void *argument) {
  unsigned self = (unsigned)(uintptr_t)argument;
  struct random random = test_random(10 + self);
  struct rtm_heap *heap = rtm_heap_new();
  CHECK(heap);
  for (uint64_t i = 0; i < test_operations(50000); i++) {
    unsigned slot = (unsigned)random_below(&random, SLOTS);
    size_t size = i % 100 ? 16 + random_size(&random, 4000) : 16 + random_size(&random, 100000);
    unsigned char *block = rtm_heap_malloc(heap, size);
    CHECK(block);
    memset(block, (int)self, size < 64 ? size : 64);
    rtm_free(atomic_exchange_explicit(&slots[self][slot], block, memory_order_acq_rel));
    rtm_free(atomic_exchange_explicit(&slots[(self + 1) % THREADS][slot], NULL, memory_order_acq_rel));
  }
  CHECK_SOUND(rtm_heap_check(heap));
  CHECK_EQUAL(rtm_heap_delete(heap), 0);
  return NULL;
}

TEST(any_thread_frees_into_a_heap_that_is_in_use) {
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) CHECK_EQUAL(pthread_create(&threads[i], NULL, produce, (void *)i), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++)
    for (int j = 0; j < SLOTS; j++) rtm_free(slots[i][j]);
  rtm_trim();
  CHECK_SOUND(rtm_check());
}

TEST(memory_that_others_free_comes_back) {
  struct rtm_heap *heap = rtm_heap_new();
  struct rtm_stats before, after;
  for (int i = 0; i < 1000; i++) rtm_free(rtm_heap_malloc(heap, 500));
  rtm_stats(&before);
  for (int i = 0; i < 200000; i++) rtm_free(rtm_heap_malloc(heap, 500));
  rtm_stats(&after);
  CHECK(after.in_use <= before.in_use + (2 << 20));
  rtm_heap_destroy(heap);
}

// One thread after the other uses it; the first has exited.
static void *allocate_ten(void *heap) {
  for (int i = 0; i < 10; i++) CHECK(rtm_heap_malloc(heap, 50));
  return NULL;
}
TEST(a_heap_goes_from_thread_to_thread) {
  struct rtm_heap *heap = rtm_heap_new();
  for (int i = 0; i < 3; i++) {
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, allocate_ten, heap), 0);
    pthread_join(thread, NULL);
  }
  struct rtm_usage usage;
  rtm_heap_usage(heap, &usage);
  CHECK_EQUAL(usage.blocks, 30);
  CHECK_EQUAL(usage.held, 30 * 64);
  rtm_heap_destroy(heap);
}

TEST(impossible_requests_fail) {
  struct rtm_heap *heap = rtm_heap_new();
  errno = 0;
  CHECK(!rtm_heap_malloc(heap, SIZE_MAX));
  CHECK_EQUAL(errno, ENOMEM);
  errno = 0;
  CHECK(!rtm_heap_calloc(heap, SIZE_MAX / 2, 4));
  CHECK_EQUAL(errno, ENOMEM);
  errno = 0;
  CHECK(!rtm_heap_aligned_alloc(heap, 48, 100));
  CHECK_EQUAL(errno, EINVAL);
  void *block = rtm_heap_malloc(heap, 0);
  CHECK(block);
  CHECK(!rtm_heap_realloc(heap, block, 0));
  rtm_heap_free(heap, NULL);
  rtm_heap_destroy(heap);
}

TEST(realloc_brings_a_block_into_the_heap) {
  struct rtm_heap *heap = rtm_heap_new();
  char *block = rtm_malloc(100);
  strcpy(block, "kept");
  block = rtm_heap_realloc(heap, block, 5000);
  CHECK(rtm_heap_contains(heap, block));
  CHECK(strcmp(block, "kept") == 0);
  block = rtm_realloc(block, 9000);  // and out of it again
  CHECK(!rtm_heap_contains(heap, block));
  CHECK(strcmp(block, "kept") == 0);
  rtm_free(block);
  rtm_heap_destroy(heap);
}

// ---- limits ----

static void check_most_held(struct rtm_heap *heap) {
  enum { MOST = 1 << 20, SIZE = 1000 };
  static void *blocks[MOST / SIZE + 1];
  CHECK_EQUAL(rtm_heap_set_limits(heap, &(struct rtm_limits){.most_held = MOST}), 0);
  size_t count = 0, usable = 0;
  errno = 0;
  while ((blocks[count] = rtm_heap_malloc(heap, SIZE))) usable += rtm_usable_size(blocks[count++]);
  CHECK_EQUAL(errno, ENOMEM);
  CHECK(usable <= MOST && usable > MOST - 2 * SIZE);
  struct rtm_usage usage;
  rtm_heap_usage(heap, &usage);
  CHECK_EQUAL(usage.held, usable);
  CHECK_EQUAL(usage.blocks, count);
  CHECK_EQUAL(usage.refused, 1);
  // What is freed, in whichever way, may be had again: at once.
  for (int i = 0; i < 1000; i++) {
    if (i % 2)
      rtm_free(blocks[i % 7]);
    else
      rtm_heap_free(heap, blocks[i % 7]);
    blocks[i % 7] = rtm_heap_malloc(heap, SIZE);
    CHECK(blocks[i % 7]);
    CHECK(!rtm_heap_malloc(heap, SIZE));
  }
  CHECK(!rtm_heap_realloc(heap, blocks[0], 100000));
  CHECK(rtm_heap_contains(heap, blocks[0]));
  rtm_heap_usage(heap, &usage);
  CHECK_EQUAL(usage.held, usable);
  CHECK_EQUAL(usage.held_peak, usable);
  CHECK_EQUAL(usage.ever, usable + 1000 * rtm_usable_size(blocks[0]));
  CHECK_EQUAL(usage.refused, 1002);
  CHECK_EQUAL(rtm_heap_set_limits(heap, &(struct rtm_limits){0}), 0);
  CHECK(rtm_heap_malloc(heap, SIZE));
  CHECK_SOUND(rtm_heap_check(heap));
}

static char area[4 << 20] __attribute__((aligned(64)));

TEST(most_held_is_kept) {
  if (!figures_are_exact()) return;
  struct rtm_heap *heap = rtm_heap_new();
  check_most_held(heap);
  rtm_heap_destroy(heap);
}
TEST(most_held_is_kept_in_a_callers_memory) {
  struct rtm_heap *heap = rtm_heap_new_in(area, sizeof area);
  check_most_held(heap);
  rtm_heap_destroy(heap);
}

TEST(most_held_counts_blocks_of_every_kind) {
  if (!figures_are_exact()) return;
  struct rtm_heap *heap = rtm_heap_new();
  void *before = rtm_heap_malloc(heap, 100000);  // what lives already counts
  CHECK_EQUAL(rtm_heap_set_limits(heap, &(struct rtm_limits){.most_held = 8 << 20}), 0);
  void *medium = rtm_heap_malloc(heap, 1 << 20), *huge = rtm_heap_malloc(heap, 5 << 20);
  CHECK(medium && huge && !rtm_heap_malloc(heap, 2 << 20));
  struct rtm_usage usage;
  rtm_heap_usage(heap, &usage);
  CHECK_EQUAL(usage.held, rtm_usable_size(before) + (6 << 20));
  CHECK(!rtm_heap_realloc(heap, huge, 7 << 20));
  CHECK(rtm_heap_realloc(heap, huge, 3 << 20) == huge);  // shorter in place
  CHECK(rtm_heap_realloc(heap, medium, 1 << 19) == medium);
  rtm_heap_usage(heap, &usage);
  CHECK_EQUAL(usage.held, rtm_usable_size(before) + (3 << 20) + (1 << 19));
  rtm_free(huge);
  rtm_heap_free(heap, medium);
  rtm_free(before);
  rtm_heap_usage(heap, &usage);
  CHECK_EQUAL(usage.held, 0);
  CHECK_EQUAL(usage.blocks, 0);
  rtm_heap_destroy(heap);
}

TEST(what_is_freed_is_held_no_longer) {
  static const size_t sizes[] = {16, 1000, 5000, 100000, 3 << 20};
  struct rtm_heap *heap = rtm_heap_new();
  CHECK_EQUAL(rtm_heap_set_limits(heap, &(struct rtm_limits){.most_held = 64 << 20}), 0);
  for (int i = 0; i < 400; i++) {
    void *one = rtm_heap_malloc(heap, sizes[i % 5]), *two = rtm_heap_malloc(heap, sizes[i % 5]);
    CHECK(one && two);
    rtm_heap_free(heap, one);
    rtm_free(two);
  }
  struct rtm_usage usage;
  rtm_heap_usage(heap, &usage);
  CHECK_EQUAL(usage.held, 0);
  CHECK_EQUAL(usage.blocks, 0);
  CHECK_SOUND(rtm_heap_check(heap));
  rtm_heap_destroy(heap);
}

TEST(most_ever_is_kept_whatever_is_freed) {
  if (!figures_are_exact()) return;
  struct rtm_heap *heap = rtm_heap_new();
  CHECK_EQUAL(rtm_heap_set_limits(heap, &(struct rtm_limits){.most_ever = 6400}), 0);
  for (int i = 0; i < 100; i++) {
    void *block = rtm_heap_malloc(heap, 64);
    CHECK(block);
    rtm_heap_free(heap, block);
  }
  CHECK(!rtm_heap_malloc(heap, 16));
  rtm_heap_destroy(heap);
}

TEST(the_rate_is_kept) {
  enum { RATE = 1 << 20, BURST = 64 << 10 };
  struct rtm_heap *heap = rtm_heap_new();
  uint64_t start = os_clock_us();
  CHECK_EQUAL(rtm_heap_set_limits(heap, &(struct rtm_limits){.rate = RATE, .burst = BURST}), 0);
  uint64_t bytes = 0, refused = 0;
  while (os_clock_us() - start < 200000) {
    void *block = rtm_heap_malloc(heap, 1024);
    if (block)
      bytes += rtm_usable_size(block), rtm_heap_free(heap, block);
    else
      refused++;
  }
  uint64_t elapsed = os_clock_us() - start;
  CHECK(bytes <= BURST + RATE * elapsed / 1000000);
  CHECK(bytes >= BURST);
  CHECK(refused > 0);
  struct rtm_usage usage;
  rtm_heap_usage(heap, &usage);
  CHECK_EQUAL(usage.refused, refused);
  rtm_heap_destroy(heap);
}

static void *other_frees(void *block) {
  rtm_free(block);
  return NULL;
}
TEST(a_thread_keeps_its_limits) {
  void *before = rtm_malloc(1000);
  CHECK_EQUAL(rtm_thread_set_limits(&(struct rtm_limits){.most_held = 1 << 20}), 0);
  struct rtm_usage usage;
  rtm_thread_usage(&usage);
  CHECK(usage.held >= 1024);
  void *large = rtm_malloc(600000);
  CHECK(large && !rtm_malloc(600000));
  CHECK(!rtm_calloc(1, 600000) && !rtm_realloc(before, 600000) && !rtm_aligned_alloc(8192, 600000));
  pthread_t thread;
  CHECK_EQUAL(pthread_create(&thread, NULL, other_frees, large), 0);
  pthread_join(thread, NULL);
  large = rtm_malloc(600000);
  CHECK(large);
  rtm_free(large);
  rtm_thread_usage(&usage);
  CHECK_EQUAL(usage.refused, 4);
  CHECK_EQUAL(rtm_thread_set_limits(&(struct rtm_limits){0}), 0);
  large = rtm_malloc(6000000);
  CHECK(large);
  rtm_free(large);
  rtm_free(before);
  CHECK_SOUND(rtm_check());
}

TEST(impossible_limits_are_refused) {
  struct rtm_heap *heap = rtm_heap_new();
  CHECK_EQUAL(rtm_heap_set_limits(heap, NULL), EINVAL);
  CHECK_EQUAL(rtm_heap_set_limits(heap, &(struct rtm_limits){.burst = 10}), EINVAL);
  CHECK_EQUAL(rtm_thread_set_limits(NULL), EINVAL);
  rtm_heap_destroy(heap);
}

// ---- misuse: each ends the process by SIGABRT ----

static struct rtm_heap *misused;
static void *misused_block;
static void use_destroyed(void) {
  rtm_heap_destroy(misused);
  (void)!rtm_heap_malloc(misused, 10);
}
static void destroy_twice(void) {
  rtm_heap_destroy(misused);
  rtm_heap_destroy(misused);
}
static void use_null(void) { (void)!rtm_heap_malloc(NULL, 10); }
static void free_foreign(void) { rtm_heap_free(misused, &misused); }
static void free_of_other(void) { rtm_heap_free(misused, rtm_malloc(10)); }
static void free_after_destroy(void) {
  rtm_heap_destroy(misused);
  rtm_free(misused_block);
}
static void free_twice(void) {
  rtm_heap_free(misused, misused_block);
  rtm_heap_free(misused, misused_block);
}
static void free_twice_remotely(void) {
  rtm_free(misused_block);
  rtm_free(misused_block);
}

static void check_misuse(void) {
  test_function *const wrong[] = {use_destroyed,      destroy_twice, use_null, free_foreign, free_of_other,
                                  free_after_destroy, free_twice,    free_twice_remotely};
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    int status = test_in_child(wrong[i]);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT) test_fail(__FILE__, __LINE__, "misuse %u was not seen", i);
  }
}

// ---- in a thread that ends ----

static struct rtm_heap *used_late;
static pthread_key_t late_key;

// In the second round, after the thread has left its own heap.
static void use_late(void *round) {
  if (round == &late_key) {
    pthread_setspecific(late_key, used_late);
    return;
  }
  rtm_free(rtm_malloc(100));
  for (unsigned i = 0; i < 4; i++) CHECK(rtm_heap_malloc(used_late, i % 2 ? 8u << 20 : 100) != NULL);
  rtm_free(rtm_malloc(100));
}

static void *end_with_object(void *unused) {
  rtm_free(rtm_malloc(10));
  pthread_setspecific(late_key, &late_key);
  return unused;
}

static void *allocate_some(void *blocks) {
  for (unsigned i = 0; i < 100; i++) ((void **)blocks)[i] = rtm_malloc(100 + i * 10);
  return NULL;
}

TEST(an_object_that_an_ending_thread_uses_stays_the_programs) {
  void *blocks[100];
  pthread_t thread;
  used_late = rtm_heap_new();
  rtm_free(rtm_malloc(10));  // the allocator's own key comes first
  CHECK_EQUAL(pthread_key_create(&late_key, use_late), 0);
  CHECK_EQUAL(pthread_create(&thread, NULL, end_with_object, NULL), 0);
  pthread_join(thread, NULL);
  CHECK_EQUAL(pthread_create(&thread, NULL, allocate_some, blocks), 0);
  pthread_join(thread, NULL);
  for (unsigned i = 0; i < 100; i++) CHECK(!rtm_heap_contains(used_late, blocks[i]));
  rtm_heap_destroy(used_late);
  for (unsigned i = 0; i < 100; i++) rtm_free(blocks[i]);
  pthread_key_delete(late_key);
}

TEST(misuse_is_seen) {
  misused = rtm_heap_new();
  misused_block = rtm_heap_malloc(misused, 100);
  check_misuse();
  rtm_heap_destroy(misused);
}
TEST(misuse_of_a_callers_memory_is_seen) {
  misused = rtm_heap_new_in(area, sizeof area);
  misused_block = rtm_heap_malloc(misused, 100);
  check_misuse();
  rtm_heap_destroy(misused);
}
