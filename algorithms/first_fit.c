// First fit: the first block of the free list that is large enough (comparison of 2006, section 2; TLSF 2008, section
// 2). Freed blocks go to the list's front, so that free is O(1), as in Table 1 of 2006; ordered by address it would
// waste less, and free would search. What a split leaves over goes to its end: the papers do not say, and their F is
// nearest to that (docs/paper-tables.md).
#include "first_fit.h"

#include "area_size.h"
#include "free_list.h"

struct heap {
  struct area area;
  struct block list;  // all free blocks
};

static inline void policy_insert(struct heap *heap, struct block *b) { free_list_insert(&heap->list, b); }
// At the list's end: the large block that is carved is looked at last.
static inline void policy_insert_rest(struct heap *heap, struct block *b) { free_list_insert(heap->list.prev, b); }
static inline void policy_remove(struct heap *heap, struct block *b) { (void)heap, free_list_remove(b); }

// O(free blocks).
static inline struct block *policy_find(struct heap *heap, size_t size) {
  for (struct block *b = heap->list.next; b != &heap->list; b = b->next) {
    if (block_size(b) >= size) return b;
  }
  return NULL;
}

static inline const char *policy_check(const struct heap *heap, size_t free_blocks, size_t cached_blocks) {
  (void)cached_blocks;
  const char *wrong = free_list_check(&heap->area, &heap->list, &free_blocks);
  return wrong ? wrong : free_blocks ? "a free block is not in the list" : NULL;
}

#include "boundary_tag.h"

static void prepare(struct heap *heap) { free_list_init(&heap->list); }
static void *heap_init(void *memory, size_t bytes) { return tag_init(memory, bytes, prepare); }
static void *heap_malloc(void *heap, size_t size) { return tag_malloc(heap, size); }
static bool heap_free(void *heap, void *block) { return tag_free(heap, block); }
static size_t heap_area_size(size_t live, size_t largest) {
  return area_size_coalescing(live, largest, sizeof(struct heap), area_size_fails_below_itself);
}

const struct algorithm algorithm_first_fit = {
    "first-fit",
    "first fit: the first block that suffices of one list, last freed first (comparison of 2006, section 2)",
    "malloc O(free blocks), that is at most O(area / (2 * smallest block)); free O(1)",
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
