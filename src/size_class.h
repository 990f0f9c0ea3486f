// Size classes: block sizes of the small range, and the page that each class is cut from.
// Layer: above bits. Called by page, alloc, stats.
//
// Sizes up to 128 bytes are rounded up to a multiple of 16 (at most 15 bytes lost); above, each doubling holds eight
// classes, 2^k * (1 + j/8), so that a request loses at most 1 part in 9 (11.1 %). Class c > 8 with i = c - 9:
//     size(c) = (9 + i % 8) << (4 + i / 8)
// Class 0 stands for "no class": a zeroed table sends every size to it, and its page is always empty.
#ifndef RTM_SIZE_CLASS_H
#define RTM_SIZE_CLASS_H

#include "bits.h"

enum {
  GRANULE_SHIFT = 12,
  GRANULE_SIZE = 1 << GRANULE_SHIFT,
  BLOCK_ALIGNMENT = 16,
  BLOCK_SHIFT = 4,
  LINEAR_CLASSES = 8,                                           // 16, 32, ... 128
  CLASSES_PER_DOUBLING = 8,                                     //
  BLOCK_MAX = 32768,                                            // largest block that lives in a page
  DOUBLINGS = 8,                                                // 128 << 8 == BLOCK_MAX
  CLASSES = LINEAR_CLASSES + DOUBLINGS * CLASSES_PER_DOUBLING,  // classes are 1..CLASSES
  PAGE_BLOCKS_MAX = 256,                                        // four words of remote frees
  PAGE_GRANULES_MAX = 16,                                       // 64 KiB
  PAGE_GRANULES_KEPT = 256,                                     // mode `pag` without a profile: 1 MiB (page.c)
};
_Static_assert((LINEAR_CLASSES * BLOCK_ALIGNMENT) << DOUBLINGS == BLOCK_MAX, "the doublings end at BLOCK_MAX");

// What a class's pages look like. The page sizes follow demand: with `k` pages in use the next one has
// min(granules_first << k / 2, granules_most) granules.
struct class_shape {
  uint32_t block_size;  // bytes
  uint32_t reciprocal;  // floor(2^32 / block_size) + 1: (offset * reciprocal) >> 32 == offset / block_size in a page
  uint8_t granules_first;
  uint8_t granules_most;
  uint16_t used_most;  // of a full-grown page that has an eighth of its blocks free
};

RTM_HIDDEN extern uint8_t
    rtm_class_of[BLOCK_MAX / BLOCK_ALIGNMENT + 1];  // index: (bytes + 15) / 16; filled by size_class_init
RTM_HIDDEN extern struct class_shape rtm_shape[CLASSES + 1];

// Fills both tables. Idempotent; called once before the first heap is made. O(BLOCK_MAX / 16).
void size_class_init(void);

// The class of a request of `size` <= BLOCK_MAX bytes; 0 before size_class_init. 3 instructions.
// (Relaxed: another thread may be filling the table; a class read too early leads to a heap without pages.)
RTM_INLINE unsigned size_class(size_t size) {
  return RTM_READ_RELAXED(rtm_class_of[(size + BLOCK_ALIGNMENT - 1) >> BLOCK_SHIFT]);
}

// Granules of PAGE_BLOCKS_MAX blocks: a longer page would not have more blocks. For blocks above 256 bytes that is more
// than the usual PAGE_GRANULES_MAX; only page.c's length_of_kept goes so far.
RTM_INLINE uint32_t size_class_granules(unsigned class) {
  return (PAGE_BLOCKS_MAX * rtm_shape[class].block_size + GRANULE_SIZE - 1) >> GRANULE_SHIFT;
}

#endif
