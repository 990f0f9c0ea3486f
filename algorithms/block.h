// Blocks with boundary tags (Knuth, The Art of Computer Programming, vol. 1, 2.5), the area they lie in, and what can
// be done with them whatever the policy. Used by first, best and next fit, Half-fit and both DLmallocs.
//
//   header | what the holder uses              | header | ...      a live block
//   header | next | prev | ...        | footer | header | ...      a free block
//          ^ struct block *: what malloc returns, a multiple of ALIGNMENT
//
// Header: size | flags, of header and rest, a multiple of ALIGNMENT; the footer repeats the size. Behind the last
// block
// is a header of size 0 that is never free. Equations:   block_next(b) == b + block_size(b)
//              block_next(b)'s PREVIOUS_FREE == b's FREE, and then the footer of b == block_size(b)
//              no two neighbours are FREE
#ifndef ALGORITHMS_BLOCK_H
#define ALGORITHMS_BLOCK_H

#include <stdint.h>
#include <string.h>

#include "algorithm.h"

#if ALGORITHM_HEADER == 4
typedef uint32_t block_word;
#elif ALGORITHM_HEADER == 8
typedef uint64_t block_word;
#else
#error "ALGORITHM_HEADER is 4 or 8"
#endif

struct block {
  struct block *next, *prev;  // of its list, if the block is free
};

enum {
  HEADER = ALGORITHM_HEADER,
  ALIGNMENT = ALGORITHM_ALIGNMENT,
  BLOCK_FREE = 1,
  BLOCK_PREVIOUS_FREE = 2,
  BLOCK_CACHED = 4,  // DLmalloc 2.7.2: in a fast bin, not FREE for its neighbours
  BLOCK_FLAGS = 7,
  BLOCK_SMALLEST = (2 * HEADER + (int)sizeof(struct block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT,
};
_Static_assert(ALIGNMENT == 8 || ALIGNMENT == 16, "sizes leave their three lowest bits to the flags");
// Largest request: leaves room for the header and rounding in a block_word's half.
#define REQUEST_MOST (((size_t)1 << (HEADER == 4 ? 31 : 47)) - 1)

static inline block_word *block_header(const struct block *b) { return (block_word *)b - 1; }
static inline size_t block_size(const struct block *b) { return *block_header(b) & ~(block_word)BLOCK_FLAGS; }
static inline bool block_is_free(const struct block *b) { return *block_header(b) & BLOCK_FREE; }
static inline bool block_is_previous_free(const struct block *b) { return *block_header(b) & BLOCK_PREVIOUS_FREE; }
static inline struct block *block_at(const struct block *b, size_t offset) {
  return (struct block *)((char *)(uintptr_t)b + offset);
}
static inline struct block *block_next(const struct block *b) { return block_at(b, block_size(b)); }
static inline size_t block_footer_before(const struct block *b) { return ((const block_word *)b)[-2]; }
static inline struct block *block_previous(const struct block *b) {
  return (struct block *)((char *)(uintptr_t)b - block_footer_before(b));
}

// Header and footer of a free block whose predecessor is not free.
static inline void block_make_free(struct block *b, size_t size) {
  struct block *next = block_at(b, size);
  *block_header(b) = (block_word)size | BLOCK_FREE;
  ((block_word *)next)[-2] = (block_word)size;
  *block_header(next) |= BLOCK_PREVIOUS_FREE;
}

// The whole block for a request of at most REQUEST_MOST.
static inline size_t block_size_for(size_t request) {
  size_t size = (request + HEADER + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
  return size < BLOCK_SMALLEST ? BLOCK_SMALLEST : size;
}

// The memory of a heap; the first member of every struct heap.
struct area {
  struct block *start, *end;  // the first block, and the one of size 0 behind the last
  char *reached;              // the highest end of any live block so far
};

// Makes a zeroed heap structure of `control` bytes at the start of `memory`, followed by one free block that is in no
// list yet. NULL if it is too small.
static inline void *area_init(size_t control, void *memory, size_t bytes) {
  uintptr_t from = (uintptr_t)memory, to = from + bytes;
  uintptr_t heap = (from + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
  uintptr_t start = (heap + control + HEADER + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
  uintptr_t end = to & ~(uintptr_t)(ALIGNMENT - 1);
  if (!memory || to < from || start < from || end < start || end - start < BLOCK_SMALLEST) return NULL;
  if (end - start > REQUEST_MOST) end = start + (REQUEST_MOST & ~(uintptr_t)(ALIGNMENT - 1));
  struct area *area = memset((void *)heap, 0, control);
  *area = (struct area){(struct block *)start, (struct block *)end, (char *)start - HEADER};
  *block_header(area->end) = 0;
  block_make_free(area->start, end - start);
  return area;
}

static inline bool area_has(const struct area *area, const struct block *b) {
  return b >= area->start && b < area->end && (uintptr_t)b % ALIGNMENT == 0;
}

// The equations above; counts the free blocks, and those that are CACHED.
static inline const char *area_check(const struct area *area, size_t *free_blocks, size_t *cached_blocks) {
  const struct block *b = area->start, *free_before = NULL;
  *free_blocks = *cached_blocks = 0;
  for (;; b = block_next(b)) {
    size_t size = block_size(b);
    if (block_is_previous_free(b) != (free_before != NULL))
      return "a block is wrong about whether the one before it is free";
    if (free_before && block_footer_before(b) != block_size(free_before))
      return "a free block's footer is not its size";
    if (b == area->end) return size || block_is_free(b) ? "the area's end has been overwritten" : NULL;
    if (size < BLOCK_SMALLEST || size % ALIGNMENT || size > (size_t)((char *)area->end - (char *)b))
      return "a block's size is impossible";
    if (free_before && block_is_free(b)) return "two neighbours are free";
    if (block_is_free(b) && (*block_header(b) & BLOCK_CACHED)) return "a block is both free and cached";
    free_before = block_is_free(b) ? b : NULL;
    *free_blocks += block_is_free(b);
    *cached_blocks += (*block_header(b) & BLOCK_CACHED) != 0;
  }
}

static inline struct algorithm_usage area_usage(const struct area *area, size_t control) {
  struct algorithm_usage usage = {.control = control + HEADER,
                                  .area = (size_t)((char *)area->end - (char *)area->start),
                                  .reached = (size_t)(area->reached + HEADER - (char *)area->start)};
  for (const struct block *b = area->start; b != area->end; b = block_next(b)) {
    if (!(*block_header(b) & (BLOCK_FREE | BLOCK_CACHED))) usage.live += block_size(b);
    if (block_is_free(b) && block_size(b) > usage.free_largest) usage.free_largest = block_size(b);
  }
  return usage;
}

#endif
