// Bins: the size classes, continued for blocks above BLOCK_MAX. What profiles count, and what prepared stores are made
// for. Layer: above size_class. Bin b > 8 with i = b - 9, as in size_class.h:
//     size(b) = (9 + i % 8) << (4 + i / 8)
#ifndef RTM_BIN_H
#define RTM_BIN_H

#include "size_class.h"

enum {
  BIN_DOUBLINGS = 33,                                                // up to 128 << 33: 1 TiB
  BINS = 1 + LINEAR_CLASSES + BIN_DOUBLINGS * CLASSES_PER_DOUBLING,  // bin 0 has no block
  BINS_LARGE = BINS - CLASSES - 1,                                   // bins [CLASSES + 1, BINS): above BLOCK_MAX
};
// Of blocks in stores, bytes: what a segment begins with.
enum { STORE_ALIGNMENT_MAX = 4 << 20 };
#define BIN_SIZE_MAX ((size_t)(LINEAR_CLASSES * BLOCK_ALIGNMENT) << BIN_DOUBLINGS)

RTM_INLINE size_t bin_size(unsigned bin) {
  if (bin <= LINEAR_CLASSES) return bin * BLOCK_ALIGNMENT;
  unsigned i = bin - LINEAR_CLASSES - 1;
  return (size_t)(CLASSES_PER_DOUBLING + 1 + i % CLASSES_PER_DOUBLING) << (BLOCK_SHIFT + i / CLASSES_PER_DOUBLING);
}

// The number of a large bin, counted from the first above BLOCK_MAX. BLOCK_MAX < size <= BIN_SIZE_MAX. 7 instructions.
RTM_INLINE unsigned bin_large(size_t size) {
  enum { LOG2_EIGHT = 3, LOG2_BLOCK_MAX = 15 };
  unsigned log2 = 63 - (unsigned)__builtin_clzll(size - 1);
  // The eighths of a doubling, the last one's carry included.
  return (unsigned)((size - 1) >> (log2 - LOG2_EIGHT)) + (log2 - LOG2_BLOCK_MAX - 1) * CLASSES_PER_DOUBLING;
}
RTM_INLINE unsigned bin_of_large(size_t size) { return CLASSES + 1 + bin_large(size); }

#endif
