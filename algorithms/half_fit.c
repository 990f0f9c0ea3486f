// Half-fit (Ogasawara, 'An algorithm with constant execution time for dynamic storage allocation', 1995), written from
// its description in the comparison of 2006, section 2: free blocks of [2^i, 2^(i+1)) are in list i; a request of size
// r starts at list i = log2(r - 1) + 1, of which every block suffices, and goes on to the next that is not empty, by a
// bitmap; what is left over goes back to its list. No loop. Its price is incomplete memory use: blocks of list i - 1
// that would suffice are not looked at.
#include "half_fit.h"

#include "area_size.h"
#include "block.h"

// Lists that a search begins above the first of which every block suffices. 0 is what the papers describe, 1 what their
// figures of F look like (docs/paper-tables.md); the lab builds both.
#ifndef HALF_FIT_ABOVE
#define HALF_FIT_ABOVE 0
#define HALF_FIT_NAME "half-fit"
#endif

enum { LISTS = 48 };
_Static_assert(REQUEST_MOST < (size_t)1 << (LISTS - 1), "the largest block has a list, and so has the power above it");

// Bit i of `lists` is set if and only if list i is not empty.
struct heap {
  struct area area;
  uint64_t lists;
  struct block end;  // every list ends in it: unlinking needs no branch. Its `prev` is written and never read
  struct block *head[LISTS];
};

static inline unsigned floor_log2(uint64_t size) { return 63u - (unsigned)__builtin_clzll(size); }

static inline void policy_insert(struct heap *heap, struct block *b) {
  unsigned i = floor_log2(block_size(b));
  struct block *old = heap->head[i];
  b->next = old;
  b->prev = &heap->end;
  old->prev = b;
  heap->head[i] = b;
  heap->lists |= (uint64_t)1 << i;
}
static inline void policy_insert_rest(struct heap *heap, struct block *b) { policy_insert(heap, b); }

static inline void policy_remove(struct heap *heap, struct block *b) {
  struct block *next = b->next, *prev = b->prev;
  next->prev = prev;
  if (prev != &heap->end) {
    prev->next = next;
    return;
  }
  unsigned i = floor_log2(block_size(b));
  heap->head[i] = next;
  if (next == &heap->end) heap->lists &= ~((uint64_t)1 << i);
}

// O(1).
static inline struct block *policy_find(struct heap *heap, size_t size) {
  unsigned first = floor_log2(size - 1) + 1 + HALF_FIT_ABOVE;
  uint64_t lists = heap->lists & (~(uint64_t)0 << first);
  return lists ? heap->head[__builtin_ctzll(lists)] : NULL;
}

static inline const char *policy_check(const struct heap *heap, size_t free_blocks, size_t cached_blocks) {
  (void)cached_blocks;
  for (unsigned i = 0; i < LISTS; i++) {
    const struct block *b = heap->head[i], *prev = &heap->end;
    if (((heap->lists >> i) & 1) != (b != &heap->end)) return "a bit is wrong about its list";
    for (; b != &heap->end; prev = b, b = b->next) {
      if (!area_has(&heap->area, b) || !block_is_free(b)) return "a list has something that is no free block";
      if (free_blocks-- == 0) return "the lists have more blocks than are free";
      if (b->prev != prev) return "a list is not linked both ways";
      if (floor_log2(block_size(b)) != i) return "a free block is in the wrong list";
    }
  }
  return free_blocks ? "a free block is in no list" : NULL;
}

#include "boundary_tag.h"

static void prepare(struct heap *heap) {
  heap->end = (struct block){&heap->end, &heap->end};
  for (unsigned i = 0; i < LISTS; i++) heap->head[i] = &heap->end;
}
static void *heap_init(void *memory, size_t bytes) { return tag_init(memory, bytes, prepare); }
static void *heap_malloc(void *heap, size_t size) { return tag_malloc(heap, size); }
static bool heap_free(void *heap, void *block) { return tag_free(heap, block); }
static size_t heap_area_size(size_t live, size_t largest) {
  return area_size_coalescing(live, largest, sizeof(struct heap), area_size_fails_below_power);
}

const struct algorithm algorithm_half_fit = {
    HALF_FIT_NAME,
    "Half-fit: a list for each power of two, found by bitmap (Ogasawara 1995, from the comparison of 2006, section 2)",
    "malloc O(1), free O(1), no loop",
    heap_init,
    heap_malloc,
    heap_free,
    heap_realloc,
    heap_aligned_alloc,
    heap_usable_size,
    heap_check,
    heap_usage,
    heap_area_size,
};
