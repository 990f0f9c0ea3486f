// An allocator after the description of DLmalloc 2.7.2: not its code. What it follows (the 2006 paper is in the seeds;
// the other two were recalled, not read again, when this was written):
// - Comparison of 2006, section 2: fast bins of exact sizes up to 64 bytes; bins sorted by block size; free does not
//   coalesce, 'a massive coalescing is done when the allocator can not serve a request'.
// - D. Lea, 'A Memory Allocator', Unix/Mail 6/96: boundary tags; bins of one size below 512 bytes, spaced by the
//   logarithm above; smallest first, best fit, the longest unused of equals; the wilderness (the block at the area's
//   end) is used last.
// - The GNU C library's wiki, 'MallocInternals', on its descendant: freed blocks wait in one unsorted list, from which
//   the next malloc takes an exact fit or sorts them; a large request consolidates the fast bins first. Only blocks of
//   fast bins are deferred; larger ones coalesce when freed. A fast bin's block is CACHED: in use for its neighbours.
#include "dlmalloc_272.h"

#include "area_size.h"
#include "free_list.h"

enum {
  FAST_MOST = 64 + ALIGNMENT,  // bytes of a whole block
  FAST_BINS = FAST_MOST / ALIGNMENT + 1,
  EXACT_BELOW = 512,  // bytes: bins of one size
  EXACT_BINS = EXACT_BELOW / ALIGNMENT,
  BINS_PER_DOUBLING = 4,
  BINS = EXACT_BINS + (48 - 9) * BINS_PER_DOUBLING,
  BIN_WORDS = (BINS + 63) / 64,
};
_Static_assert(EXACT_BELOW == 1 << 9, "bin_of begins its doublings there");

// Free blocks: top, or one of `recent` and bin[]. Bins of one size: last in at the front, taken from the back. Other
// bins ascend by size. A bit of `full` is set if its bin is not empty; one that is set for an empty bin is cleared
// when it is looked at.
struct heap {
  struct area area;
  struct block *fast[FAST_BINS];  // last in first out, linked by next; size / ALIGNMENT is the index
  size_t cached;                  // blocks in the fast bins
  struct block *top;              // the free block at the area's end; NULL if the last block is in use
  struct block recent;            // freed since the last search
  uint64_t full[BIN_WORDS];
  struct block bin[BINS];
};

static inline unsigned bin_of(size_t size) {
  if (size < EXACT_BELOW) return (unsigned)(size / ALIGNMENT);
  unsigned log2 = 63u - (unsigned)__builtin_clzll(size);
  return EXACT_BINS + (log2 - 9) * BINS_PER_DOUBLING + ((unsigned)(size >> (log2 - 2)) & 3);
}

static inline void policy_insert(struct heap *heap, struct block *b) {
  if (block_next(b) == heap->area.end) {
    heap->top = b;
    free_list_init(b);  // a ring of its own: removal need not know
  } else {
    free_list_insert(&heap->recent, b);
  }
}
static inline void policy_insert_rest(struct heap *heap, struct block *b) { policy_insert(heap, b); }

static inline void policy_remove(struct heap *heap, struct block *b) {
  if (b == heap->top) heap->top = NULL;
  free_list_remove(b);
}

// O(blocks of the bin) above EXACT_BELOW.
static void sort_into_bin(struct heap *heap, struct block *b) {
  size_t size = block_size(b);
  unsigned i = bin_of(size);
  struct block *after = &heap->bin[i];
  if (size >= EXACT_BELOW) {
    while (after->next != &heap->bin[i] && block_size(after->next) < size) after = after->next;
  }
  free_list_insert(after, b);
  heap->full[i / 64] |= (uint64_t)1 << (i % 64);
}

// Sorts what was freed since the last search, until a block fits exactly; the longest unused first.
static struct block *search_recent(struct heap *heap, size_t size) {
  while (heap->recent.prev != &heap->recent) {
    struct block *b = heap->recent.prev;
    if (block_size(b) == size) return b;
    free_list_remove(b);
    sort_into_bin(heap, b);
  }
  return NULL;
}

static struct block *search_bins(struct heap *heap, size_t size) {
  unsigned i = bin_of(size);
  uint64_t bits = heap->full[i / 64] & (~(uint64_t)0 << (i % 64));
  for (unsigned w = i / 64; w < BIN_WORDS; bits = ++w < BIN_WORDS ? heap->full[w] : 0) {
    for (; bits; bits &= bits - 1) {
      unsigned n = w * 64 + (unsigned)__builtin_ctzll(bits);
      struct block *bin = &heap->bin[n], *b = n < EXACT_BINS ? bin->prev : bin->next;
      if (b == bin) heap->full[w] &= ~(bits & -bits);
      while (b != bin && block_size(b) < size) b = b->next;  // only in the first bin
      if (b != bin) return b;
    }
  }
  return NULL;
}

// The massive coalescing. O(blocks in fast bins).
static void consolidate(struct heap *heap);

// Coalesces before it takes from the top: what the fast bins hold must not make the used memory grow.
static struct block *policy_find(struct heap *heap, size_t size) {
  if (size >= EXACT_BELOW && heap->cached) consolidate(heap);
  for (;;) {
    struct block *b = search_recent(heap, size);
    if (!b) b = search_bins(heap, size);
    if (b) return b;
    if (!heap->cached) return heap->top && block_size(heap->top) >= size ? heap->top : NULL;
    consolidate(heap);
  }
}

// A list of free blocks; the number of those that no list has shown is in *left.
static const char *check_bin(const struct heap *heap, unsigned i, size_t *left) {
  const struct block *bin = &heap->bin[i];
  const char *wrong = free_list_check(&heap->area, bin, left);
  if (wrong) return wrong;
  if (bin->next != bin && !((heap->full[i / 64] >> (i % 64)) & 1)) return "a bin that is not empty is marked empty";
  for (const struct block *b = bin->next; b != bin; b = b->next) {
    if (bin_of(block_size(b)) != i) return "a free block is in the wrong bin";
    if (b->next != bin && block_size(b) > block_size(b->next)) return "a bin is not sorted";
  }
  return NULL;
}

static const char *policy_check(const struct heap *heap, size_t free_blocks, size_t cached_blocks) {
  const char *wrong = free_list_check(&heap->area, &heap->recent, &free_blocks);
  for (unsigned i = 0; i < BINS && !wrong; i++) wrong = check_bin(heap, i, &free_blocks);
  if (wrong) return wrong;
  if (heap->top && (!block_is_free(heap->top) || block_next(heap->top) != heap->area.end))
    return "the top is not the free block at the area's end";
  if (free_blocks != (heap->top != NULL)) return "a free block is in no list";
  if (cached_blocks != heap->cached) return "the number of cached blocks is wrong";
  for (unsigned i = 0; i < FAST_BINS; i++) {
    for (const struct block *b = heap->fast[i]; b; b = b->next) {
      if (!area_has(&heap->area, b) || !(*block_header(b) & BLOCK_CACHED) || block_size(b) != i * ALIGNMENT)
        return "a fast bin has something that is no cached block of its size";
      if (cached_blocks-- == 0) return "the fast bins have more blocks than are cached";
    }
  }
  return cached_blocks ? "a cached block is in no fast bin" : NULL;
}

#include "boundary_tag.h"

static void consolidate(struct heap *heap) {
  for (unsigned i = 0; i < FAST_BINS; i++) {
    struct block *b = heap->fast[i], *next;
    heap->fast[i] = NULL;
    for (; b; b = next) {
      next = b->next;
      tag_release(heap, b);
    }
  }
  heap->cached = 0;
}

static void *heap_malloc(void *of, size_t request) {
  struct heap *heap = of;
  if (request <= FAST_MOST - HEADER) {
    size_t size = block_size_for(request);
    struct block *b = heap->fast[size / ALIGNMENT];
    if (b) {
      heap->fast[size / ALIGNMENT] = b->next;
      heap->cached--;
      *block_header(b) &= ~(block_word)BLOCK_CACHED;
      return b;
    }
  }
  return tag_malloc(heap, request);
}

static bool heap_free(void *of, void *address) {
  struct heap *heap = of;
  struct block *b = address;
  if (!b) return true;
  if (!tag_is_live(b)) return false;
  size_t size = block_size(b);
  if (size <= FAST_MOST) {
    b->next = heap->fast[size / ALIGNMENT];
    heap->fast[size / ALIGNMENT] = b;
    heap->cached++;
    *block_header(b) |= BLOCK_CACHED;
  } else {
    tag_release(heap, b);
  }
  return true;
}

static void prepare(struct heap *heap) {
  free_list_init(&heap->recent);
  for (unsigned i = 0; i < BINS; i++) free_list_init(&heap->bin[i]);
}
static void *heap_init(void *memory, size_t bytes) { return tag_init(memory, bytes, prepare); }
static size_t heap_area_size(size_t live, size_t largest) {
  return area_size_coalescing(live, largest, sizeof(struct heap), area_size_fails_below_itself);
}

const struct algorithm algorithm_dlmalloc_272 = {
    "dlmalloc-2.7.2",
    "after DLmalloc 2.7.2: fast bins, sorted bins, deferred coalescing (from published descriptions, not its code)",
    "malloc O(area / smallest block), by consolidating and sorting; free O(1)",
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
