// Next fit: as first fit, but 'commences its search wherever it previously stopped searching' (TLSF 2008, section 2).
// The list is a ring, and `rover` is where the next search begins: at the free block behind the one handed out last.
// What is left of that one, and freed blocks, join in front of the rover, so that it comes to them last: were it to
// stay at the rest, it would go through the whole area before it came to any hole.
#include "next_fit.h"

#include "area_size.h"
#include "free_list.h"

struct heap {
  struct area area;
  struct block list;    // all free blocks
  struct block *rover;  // one of them, or &list
};

static inline void policy_insert(struct heap *heap, struct block *b) { free_list_insert(heap->rover->prev, b); }

static inline void policy_insert_rest(struct heap *heap, struct block *b) { policy_insert(heap, b); }

static inline void policy_remove(struct heap *heap, struct block *b) {
  if (heap->rover == b) heap->rover = b->next;
  free_list_remove(b);
}

// O(free blocks): once around, over `list`, which is no block.
static inline struct block *policy_find(struct heap *heap, size_t size) {
  struct block *b = heap->rover;
  do {
    if (b != &heap->list && block_size(b) >= size) {
      heap->rover = b;
      return b;
    }
    b = b->next;
  } while (b != heap->rover);
  return NULL;
}

static inline const char *policy_check(const struct heap *heap, size_t free_blocks, size_t cached_blocks) {
  (void)cached_blocks;
  const char *wrong = free_list_check(&heap->area, &heap->list, &free_blocks);
  if (!wrong && heap->rover != &heap->list && !(area_has(&heap->area, heap->rover) && block_is_free(heap->rover)))
    wrong = "the rover is at no free block";
  return wrong ? wrong : free_blocks ? "a free block is not in the list" : NULL;
}

#include "boundary_tag.h"

static void prepare(struct heap *heap) {
  free_list_init(&heap->list);
  heap->rover = &heap->list;
}
static void *heap_init(void *memory, size_t bytes) { return tag_init(memory, bytes, prepare); }
static void *heap_malloc(void *heap, size_t size) { return tag_malloc(heap, size); }
static bool heap_free(void *heap, void *block) { return tag_free(heap, block); }
static size_t heap_area_size(size_t live, size_t largest) {
  return area_size_coalescing(live, largest, sizeof(struct heap), area_size_fails_below_itself);
}

const struct algorithm algorithm_next_fit = {
    "next-fit",
    "next fit: first fit that goes on where it stopped (TLSF 2008, section 2)",
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
