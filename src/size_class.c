// Fills the size class tables; see size_class.h for the equations.
#include "size_class.h"

RTM_DATA_TOGETHER uint8_t rtm_class_of[BLOCK_MAX / BLOCK_ALIGNMENT + 1];
RTM_DATA_TOGETHER struct class_shape rtm_shape[CLASSES + 1];

static uint32_t class_size(unsigned class) {
  if (class <= LINEAR_CLASSES) return class * BLOCK_ALIGNMENT;
  unsigned i = class - LINEAR_CLASSES - 1;
  return (CLASSES_PER_DOUBLING + 1 + i % CLASSES_PER_DOUBLING) << (BLOCK_SHIFT + i / CLASSES_PER_DOUBLING);
}

static unsigned granules_for(size_t bytes) { return (unsigned)((bytes + GRANULE_SIZE - 1) >> GRANULE_SHIFT); }

static unsigned min_unsigned(unsigned a, unsigned b) { return a < b ? a : b; }

// Of a full-grown page: as many as fit in 64 KiB, PAGE_BLOCKS_MAX at most, and so that what is left of the last granule
// is at most a 128th of the page. (A class is 9 to 16 times a power of two: with a power of two blocks, nothing is.)
static unsigned blocks_of_page(uint32_t size) {
  enum { PAGE_SIZE_MAX = PAGE_GRANULES_MAX * GRANULE_SIZE, LEFT_MOST = 128 };
  unsigned blocks = min_unsigned(PAGE_BLOCKS_MAX, PAGE_SIZE_MAX / size);
  while (LEFT_MOST * (granules_for(blocks * size) * GRANULE_SIZE - blocks * size) >
         granules_for(blocks * size) * GRANULE_SIZE)
    blocks--;
  return blocks;
}

// A first page holds four blocks if it can, so that a program with little memory does not pay a full page for each
// class.
static void shape_class(struct class_shape *shape, uint32_t size) {
  enum { FIRST_BLOCKS = 4 };
  unsigned blocks = blocks_of_page(size);
  shape->block_size = size;
  shape->reciprocal = (uint32_t)((UINT64_C(1) << 32) / size) + 1;
  shape->granules_most = (uint8_t)granules_for((size_t)blocks * size);
  shape->used_most = (uint16_t)(blocks - blocks / 8);
  shape->granules_first = (uint8_t)min_unsigned(granules_for(FIRST_BLOCKS * (size_t)size), shape->granules_most);
}

void size_class_init(void) {
  unsigned index = 0;
  for (unsigned class = 1; class <= CLASSES; class ++) {
    uint32_t size = class_size(class);
    shape_class(&rtm_shape[class], size);
    for (; index <= size >> BLOCK_SHIFT; index++)
      __atomic_store_n(&rtm_class_of[index], (uint8_t) class, __ATOMIC_RELAXED);
  }
}
