// Heaps over a caller's memory: its edges, its overhead, what other threads free; and that the system is never called.
#include "area.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rtmalloc.h"
#include "test.h"

enum { SIZE = 1 << 20, NO_SECCOMP = 77 };
static char memory[SIZE + 64] __attribute__((aligned(64)));

static uint64_t system_calls(void) {
  struct rtm_stats stats;
  rtm_stats(&stats);
  return stats.system_calls;
}

static size_t largest_block(struct rtm_heap *heap) {
  size_t low = 0, high = (size_t)1 << 40;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    void *block = rtm_heap_malloc(heap, middle);
    if (block) rtm_heap_free(heap, block);
    *(block ? &low : &high) = middle;
  }
  return low;
}

TEST(random_operations_keep_the_memory_sound) {
  enum { BLOCKS = 300 };
  static struct {
    unsigned char *block;
    size_t size;
  } mine[BLOCKS];
  struct random random = test_random(0);
  struct rtm_heap *heap = rtm_heap_new_in(memory, SIZE);
  CHECK(heap);
  uint64_t before = system_calls();
  for (uint64_t i = 0; i < test_operations(50000); i++) {
    unsigned at = (unsigned)random_below(&random, BLOCKS);
    size_t size = random_size(&random, 20000);
    unsigned char value = (unsigned char)at;
    if (mine[at].block) {
      for (size_t j = 0; j < mine[at].size; j += 1 + mine[at].size / 7) CHECK_EQUAL(mine[at].block[j], value);
      CHECK(rtm_heap_contains(heap, mine[at].block));
      CHECK(rtm_usable_size(mine[at].block) >= mine[at].size);
      uint64_t kind = random_below(&random, 4);
      if (kind == 0) {
        unsigned char *again = rtm_heap_realloc(heap, mine[at].block, size + 1);
        if (again) {
          memset(again, value, size + 1);
          mine[at].block = again;
          mine[at].size = size + 1;
        }
        continue;
      }
      if (kind == 1)
        rtm_free(mine[at].block);
      else
        rtm_heap_free(heap, mine[at].block);
      mine[at].block = NULL;
    } else {
      size_t alignment = (size_t)1 << random_below(&random, 13);
      mine[at].block = random_below(&random, 2) ? rtm_heap_malloc(heap, size) : rtm_heap_aligned_alloc(heap, alignment = 1 << 12, size);
      mine[at].size = size;
      if (mine[at].block) memset(mine[at].block, value, size);
    }
    if (i % 1000 == 0) CHECK_SOUND(rtm_heap_check(heap));
  }
  CHECK_EQUAL(system_calls(), before);
  for (unsigned at = 0; at < BLOCKS; at++) rtm_free(mine[at].block);
  rtm_heap_collect(heap, false);
  CHECK_SOUND(rtm_heap_check(heap));
  struct rtm_usage usage;
  rtm_heap_usage(heap, &usage);
  CHECK_EQUAL(usage.blocks, 0);
  CHECK_EQUAL(rtm_heap_delete(heap), 0);
}

// From its making to its end, full and refused requests included: the kernel kills who calls it.
static void live_without_the_kernel(void) {
  enum { BLOCKS = 400 };
  static void *mine[BLOCKS];
  struct random random = test_random(0);
#ifdef __SANITIZE_THREAD__
  _exit(NO_SECCOMP);  // its runtime calls the system
#endif
  rtm_free(rtm_malloc(1));  // the process's first use
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) _exit(NO_SECCOMP);
  struct rtm_heap *heap = rtm_heap_new_in(memory, SIZE);
  unsigned refused = 0;
  for (int i = 0; i < 50000; i++) {
    void **block = &mine[random_below(&random, BLOCKS)];
    size_t size = random_size(&random, 20000);
    void *again;
    switch (random_below(&random, 4)) {
      case 0: rtm_free(*block), *block = rtm_heap_malloc(heap, size); break;
      case 1: rtm_heap_free(heap, *block), *block = rtm_heap_calloc(heap, 1, size); break;
      case 2: rtm_free(*block), *block = rtm_heap_aligned_alloc(heap, 64, size); break;
      default: *block = (again = rtm_heap_realloc(heap, *block, size + 1)) ? again : *block;
    }
    refused += !*block;
  }
  rtm_heap_destroy(heap);
  syscall(SYS_exit, refused > 100 ? 0 : 1);
}

TEST(the_kernel_sees_nothing_of_it) {
  int status = test_in_child(live_without_the_kernel);
  if (status == NO_SECCOMP << 8) return;  // under qemu-user, TSan
  CHECK_EQUAL(status, 0);
}

// What a new heap of that size can give in one block, and what it says of itself.
TEST(the_overhead_is_what_it_says) {
  for (size_t bytes = 4096; bytes <= SIZE; bytes += bytes / 3) {
    size_t overhead = rtm_heap_overhead(bytes);
    struct rtm_heap *heap = rtm_heap_new_in(memory, bytes);
    CHECK(heap && overhead < bytes);
    struct area *area = (struct area *)heap;
    CHECK_EQUAL((uintptr_t)area->end - (uintptr_t)memory, bytes);
    // TLSF rounds a request up to a list: one part in 32, and a header.
    size_t most = bytes - overhead - 8, largest = largest_block(heap);
    CHECK(largest <= most && largest >= most - most / 32 - 64);
    // Blocks of 8 bytes and a header, side by side.
    size_t count = 0;
    while (rtm_heap_malloc(heap, 24)) count++;
    CHECK_EQUAL(count, (bytes - overhead) / 32);
    rtm_heap_destroy(heap);
  }
  CHECK(rtm_heap_overhead(SIZE) < SIZE / 64);
}

TEST(what_cannot_be_a_heap_is_refused) {
  struct {
    void *memory;
    size_t bytes;
  } wrong[] = {{NULL, SIZE}, {memory + 8, SIZE}, {memory, 0}, {memory, 100}, {memory, 1000},
               {memory, SIZE_MAX}, {memory, (size_t)1 << 40}, {rtm_aligned_alloc(64, 100000), 100000}};
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    errno = 0;
    CHECK(!rtm_heap_new_in(wrong[i].memory, wrong[i].bytes));
    CHECK_EQUAL(errno, EINVAL);
  }
  // The least that is possible, found by its own answer.
  size_t least = 0;
  while (rtm_heap_overhead(least) == SIZE_MAX) least++;
  CHECK(!rtm_heap_new_in(memory, least - 1));
  struct rtm_heap *heap = rtm_heap_new_in(memory, least);
  CHECK(heap);
  CHECK(rtm_heap_malloc(heap, 1) && !rtm_heap_malloc(heap, 1));
  rtm_heap_destroy(heap);
}

TEST(no_memory_has_two_heaps) {
  struct rtm_heap *heap = rtm_heap_new_in(memory + 65536, 65536);
  CHECK(heap);
  CHECK(!rtm_heap_new_in(memory, SIZE));
  CHECK(!rtm_heap_new_in(memory, 65536 + 64));
  CHECK(!rtm_heap_new_in(memory + 65536 + 8192, 8192));
  struct rtm_heap *before = rtm_heap_new_in(memory, 65536), *after = rtm_heap_new_in(memory + 131072, 65536);
  CHECK(before && after);
  rtm_heap_destroy(heap);
  heap = rtm_heap_new_in(memory + 65536, 65536);
  CHECK(heap);
  rtm_heap_destroy(heap);
  rtm_heap_destroy(before);
  rtm_heap_destroy(after);
}

TEST(there_may_be_64_at_a_time) {
  enum { EACH = SIZE / (AREAS_MOST + 1) / 64 * 64 };
  struct rtm_heap *heaps[AREAS_MOST];
  for (int i = 0; i < AREAS_MOST; i++) CHECK((heaps[i] = rtm_heap_new_in(memory + i * EACH, EACH)));
  CHECK(!rtm_heap_new_in(memory + AREAS_MOST * EACH, EACH));
  void *block = rtm_heap_malloc(heaps[AREAS_MOST - 1], 100);
  CHECK(rtm_heap_contains(heaps[AREAS_MOST - 1], block) && !rtm_heap_contains(heaps[0], block));
  rtm_free(block);
  rtm_heap_destroy(heaps[5]);
  CHECK((heaps[5] = rtm_heap_new_in(memory + AREAS_MOST * EACH, EACH)));
  for (int i = 0; i < AREAS_MOST; i++) rtm_heap_destroy(heaps[i]);
}

TEST(a_heap_with_live_blocks_is_not_deleted) {
  struct rtm_heap *heap = rtm_heap_new_in(memory, SIZE);
  void *block = rtm_heap_malloc(heap, 100);
  CHECK_EQUAL(rtm_heap_delete(heap), EBUSY);
  rtm_free(block);
  CHECK_EQUAL(rtm_heap_delete(heap), 0);
}

TEST(plain_functions_take_its_blocks) {
  struct rtm_heap *heap = rtm_heap_new_in(memory, SIZE);
  char *block = rtm_heap_malloc(heap, 1000);
  CHECK(rtm_usable_size(block) >= 1000);
  strcpy(block, "kept");
  CHECK(rtm_realloc(block, 900) == block);
  char *moved = rtm_realloc(block, 5000);  // into the calling thread's heap
  CHECK(moved && !rtm_heap_contains(heap, moved) && strcmp(moved, "kept") == 0);
  moved = rtm_heap_realloc(heap, moved, 6000);
  CHECK(rtm_heap_contains(heap, moved) && strcmp(moved, "kept") == 0);
  rtm_free(moved);
  CHECK_EQUAL(rtm_heap_delete(heap), 0);
}

// In the order of the worst adversary that is easy to write: fill with the smallest, free all but some, ask for the
// largest. A heap of the stated size serves it.
TEST(the_stated_memory_is_enough) {
  enum { LIVE = 64 << 10, LARGEST = 4096, SMALL = 16 };
  size_t bytes = rtm_heap_memory_for(LIVE, LARGEST);
  char *large = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(large != MAP_FAILED);
  struct rtm_heap *heap = rtm_heap_new_in(large, bytes);
  CHECK(heap);
  static void *blocks[LIVE / SMALL];
  for (unsigned every = 2; every <= 256; every *= 2) {
    unsigned live = 0;
    for (unsigned i = 0; i < LIVE / SMALL; i++) CHECK((blocks[i] = rtm_heap_malloc(heap, SMALL)));
    for (unsigned i = 0; i < LIVE / SMALL; i++)
      if (i % every)
        rtm_heap_free(heap, blocks[i]), blocks[i] = NULL;
      else
        live += SMALL;
    for (; live + LARGEST <= LIVE; live += LARGEST) CHECK(rtm_heap_malloc(heap, LARGEST));
    rtm_heap_destroy(heap);
    CHECK((heap = rtm_heap_new_in(large, bytes)));
  }
  rtm_heap_destroy(heap);
  CHECK_EQUAL(rtm_heap_memory_for(SIZE_MAX, 16), SIZE_MAX);
}

// Four threads free what one allocates. Nothing is lost.
enum { FREERS = 4, SLOTS = 32 };
static _Atomic(void *) slots[FREERS][SLOTS];
static _Atomic bool done;

static void *free_slots(void *argument) {
  _Atomic(void *) *mine = slots[(uintptr_t)argument];
  while (!atomic_load(&done))
    for (int i = 0; i < SLOTS; i++) {
      void *block = atomic_exchange(&mine[i], NULL);
      if (block) CHECK(rtm_usable_size(block) >= 16);
      rtm_free(block);
    }
  return NULL;
}

static void check_threads(struct rtm_heap *heap, bool limited) {
  struct random random = test_random(1);
  pthread_t threads[FREERS];
  if (limited) CHECK_EQUAL(rtm_heap_set_limits(heap, &(struct rtm_limits){.most_held = 300000}), 0);
  for (uintptr_t i = 0; i < FREERS; i++) CHECK_EQUAL(pthread_create(&threads[i], NULL, free_slots, (void *)i), 0);
  for (uint64_t i = 0; i < test_operations(100000); i++) {
    size_t size = 16 + random_size(&random, 2000);
    void *block = rtm_heap_malloc(heap, size);
    if (!block) continue;
    memset(block, 0xaa, size);
    void *last = atomic_exchange(&slots[i % FREERS][random_below(&random, SLOTS)], block);
    if (last) rtm_heap_free(heap, last);
  }
  atomic_store(&done, true);
  for (int i = 0; i < FREERS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < FREERS; i++)
    for (int j = 0; j < SLOTS; j++) rtm_free(atomic_exchange(&slots[i][j], NULL));
  rtm_heap_collect(heap, false);
  CHECK_SOUND(rtm_heap_check(heap));
  struct rtm_usage usage;
  rtm_heap_usage(heap, &usage);
  CHECK_EQUAL(usage.blocks, 0);
  CHECK_EQUAL(usage.held, 0);
  CHECK_EQUAL(rtm_heap_delete(heap), 0);
}
TEST(any_thread_frees) { check_threads(rtm_heap_new_in(memory, SIZE), false); }
TEST(any_thread_frees_where_limits_count) { check_threads(rtm_heap_new_in(memory, SIZE), true); }

// Blocks that others freed come back in requests, without a call to collect.
TEST(what_others_free_is_collected_by_requests) {
  struct rtm_heap *heap = rtm_heap_new_in(memory, SIZE);
  for (int i = 0; i < 100000; i++) {
    void *block = rtm_heap_malloc(heap, 1000);
    CHECK(block);
    rtm_free(block);
  }
  CHECK_EQUAL(rtm_heap_delete(heap), 0);
}

TEST(shared_memory_and_more_than_a_stripe_will_do) {
  size_t bytes = (size_t)600 << 20;
  char *large = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(large != MAP_FAILED);
  struct rtm_heap *heap = rtm_heap_new_in(large, bytes);
  CHECK(heap);
  void *blocks[5];
  for (int i = 0; i < 5; i++) CHECK((blocks[i] = rtm_heap_malloc(heap, (size_t)100 << 20)));
  CHECK(!rtm_heap_malloc(heap, (size_t)100 << 20));
  for (int i = 0; i < 5; i++) rtm_free(blocks[i]);
  rtm_heap_collect(heap, false);
  CHECK(largest_block(heap) > (size_t)500 << 20);
  CHECK_EQUAL(rtm_heap_delete(heap), 0);
  munmap(large, bytes);
}

// An address is the heap's as long as the heap lives.
TEST(the_memory_is_the_callers_again) {
  for (int i = 0; i < 200; i++) {
    struct rtm_heap *heap = rtm_heap_new_in(memory, SIZE);
    CHECK(heap && rtm_heap_malloc(heap, 100000));
    CHECK(area_of(memory + 1000) == (struct area *)heap);
    rtm_heap_destroy(heap);
    CHECK(!area_of(memory + 1000));
    memset(memory, 0xff, sizeof memory);
  }
}
