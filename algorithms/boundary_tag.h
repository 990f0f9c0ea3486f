// The operations that all policies over boundary-tag blocks share: split, coalesce at once, re-allocate in place,
// align, check. A template: the including file has defined struct heap, whose first member is `struct area area`, and
//
//   static struct block *policy_find(struct heap *, size_t size);       a free block of at least `size`, still in its
//   list static void policy_remove(struct heap *, struct block *);           out of its list static void
//   policy_insert(struct heap *, struct block *);           into its list; header and footer are made static void
//   policy_insert_rest(struct heap *, struct block *);      the same, for what a split leaves over static const char
//   *policy_check(const struct heap *, size_t free, size_t cached);   lists hold all free and cached blocks
//
// They are static functions, not pointers, so that the compiler joins them with what is here: instruction counts are
// those of an allocator written in one piece.
#ifndef ALGORITHMS_BOUNDARY_TAG_H
#define ALGORITHMS_BOUNDARY_TAG_H

#include "block.h"

// Hands out `size` of the `whole` bytes at `b`, which is in no list; the block behind is not free.
static inline void *tag_use(struct heap *heap, struct block *b, size_t whole, size_t size) {
  block_word previous = *block_header(b) & BLOCK_PREVIOUS_FREE;
  struct block *rest = block_at(b, size);
  if (whole - size >= BLOCK_SMALLEST) {
    block_make_free(rest, whole - size);
    policy_insert_rest(heap, rest);
  } else {
    size = whole;
    rest = block_at(b, whole);
    *block_header(rest) &= ~(block_word)BLOCK_PREVIOUS_FREE;
  }
  *block_header(b) = (block_word)size | previous;
  char *end = (char *)rest - HEADER;
  if (end > heap->area.reached) heap->area.reached = end;
  return b;
}

static inline void *tag_malloc(struct heap *heap, size_t request) {
  if (request > REQUEST_MOST) return NULL;
  size_t size = block_size_for(request);
  struct block *b = policy_find(heap, size);
  if (!b) return NULL;
  policy_remove(heap, b);
  return tag_use(heap, b, block_size(b), size);
}

// Joins a block that is not in use any more with its free neighbours, and inserts the result.
static inline void tag_release(struct heap *heap, struct block *b) {
  block_word header = *block_header(b);
  size_t size = header & ~(block_word)BLOCK_FLAGS;
  struct block *next = block_at(b, size);
  // Stays in the middle of a joined block until that is handed out, so that a second free is seen.
  *block_header(b) = (header | BLOCK_FREE) & ~(block_word)BLOCK_CACHED;
  if (header & BLOCK_PREVIOUS_FREE) {
    b = block_previous(b);
    policy_remove(heap, b);
    size += block_size(b);
  }
  if (block_is_free(next)) {
    policy_remove(heap, next);
    size += block_size(next);
  }
  block_make_free(b, size);
  policy_insert(heap, b);
}

// The address could be a live block: aligned, and neither free nor cached by its header.
static inline bool tag_is_live(const void *address) {
  return (uintptr_t)address % ALIGNMENT == 0 && !(*block_header(address) & (BLOCK_FREE | BLOCK_CACHED));
}

static inline bool tag_free(struct heap *heap, void *address) {
  if (!address) return true;
  if (!tag_is_live(address)) return false;
  tag_release(heap, address);
  return true;
}

static inline void *tag_realloc(struct heap *heap, void *address, size_t request) {
  struct block *b = address;
  if (!b) return tag_malloc(heap, request);
  if (request > REQUEST_MOST) return NULL;
  size_t old = block_size(b), size = block_size_for(request);
  struct block *next = block_next(b);
  size_t whole = old + (block_is_free(next) ? block_size(next) : 0);
  if (size > whole) {
    void *moved = tag_malloc(heap, request);
    if (!moved) return NULL;
    memcpy(moved, b, old - HEADER);
    tag_free(heap, b);
    return moved;
  }
  if (size <= old && whole == old && old - size < BLOCK_SMALLEST) return b;
  if (whole > old) policy_remove(heap, next);
  return tag_use(heap, b, whole, size);
}

static inline void *tag_aligned_alloc(struct heap *heap, size_t alignment, size_t request) {
  if (alignment == 0 || (alignment & (alignment - 1))) return NULL;
  if (request > REQUEST_MOST || alignment > REQUEST_MOST - request) return NULL;
  size_t size = block_size_for(request);
  if (alignment < ALIGNMENT) alignment = ALIGNMENT;
  struct block *b = policy_find(heap, alignment == ALIGNMENT ? size : size + alignment + BLOCK_SMALLEST);
  if (!b) return NULL;
  policy_remove(heap, b);
  size_t whole = block_size(b), gap = (0 - (uintptr_t)b) & (alignment - 1);
  if (gap && gap < BLOCK_SMALLEST) gap += (BLOCK_SMALLEST - gap + alignment - 1) & ~(alignment - 1);
  if (gap) {
    struct block *front = b;
    b = block_at(front, gap);
    *block_header(b) = (block_word)(whole - gap);
    block_make_free(front, gap);
    policy_insert(heap, front);
  }
  return tag_use(heap, b, whole - gap, size);
}

static inline const char *tag_check(const struct heap *heap) {
  size_t free_blocks, cached_blocks;
  const char *wrong = area_check(&heap->area, &free_blocks, &cached_blocks);
  return wrong ? wrong : policy_check(heap, free_blocks, cached_blocks);
}

static inline void *tag_init(void *memory, size_t bytes, void (*prepare)(struct heap *)) {
  struct heap *heap = area_init(sizeof *heap, memory, bytes);
  if (!heap) return NULL;
  prepare(heap);
  policy_insert(heap, heap->area.start);
  return heap;
}

// The functions of struct algorithm.
static bool heap_free(void *heap, void *block);
static void *heap_malloc(void *heap, size_t size);
static void *heap_realloc(void *heap, void *block, size_t size) { return tag_realloc(heap, block, size); }
static void *heap_aligned_alloc(void *heap, size_t alignment, size_t size) {
  return tag_aligned_alloc(heap, alignment, size);
}
static size_t heap_usable_size(const void *heap, const void *block) {
  (void)heap;
  return block ? block_size(block) - HEADER : 0;
}
static const char *heap_check(const void *heap) { return tag_check(heap); }
static struct algorithm_usage heap_usage(const void *heap) {
  return area_usage(&((const struct heap *)heap)->area, sizeof(struct heap));
}

#endif
