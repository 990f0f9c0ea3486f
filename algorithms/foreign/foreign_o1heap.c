// o1heap (Kirienko): Half-fit with blocks of powers of two. The crate o1heap carries its source, which is included here
// as it is, with its assertions off as in a release. Blocks lie at multiples of 32; larger alignments it does not have.
#include "foreign.h"

#define O1HEAP_ASSERT(condition) (void)(condition)
#include "o1heap.c"

static void *heap_init(void *memory, size_t bytes) {
  char *base = foreign_align(memory, &bytes, O1HEAP_ALIGNMENT, O1HEAP_ALIGNMENT);
  return base ? o1heapInit(base, bytes) : NULL;
}

// It gives NULL for 0 bytes.
static void *heap_malloc(void *heap, size_t size) { return o1heapAllocate(heap, size ? size : 1); }

static bool heap_free(void *heap, void *block) {
  o1heapFree(heap, block);
  return true;
}

static size_t heap_usable_size(const void *heap, const void *block) {
  (void)heap;
  if (!block) return 0;
  return ((const Fragment *)(const void *)((const char *)block - O1HEAP_ALIGNMENT))->header.size - O1HEAP_ALIGNMENT;
}

static void *heap_realloc(void *heap, void *block, size_t size) {
  size_t old = heap_usable_size(heap, block);
  if (block && size <= old) return block;
  void *moved = heap_malloc(heap, size);
  if (moved && block) {
    memcpy(moved, block, old);
    o1heapFree(heap, block);
  }
  return moved;
}

static void *heap_aligned_alloc(void *heap, size_t alignment, size_t size) {
  return alignment <= O1HEAP_ALIGNMENT ? heap_malloc(heap, size) : NULL;
}

static const char *heap_check(const void *heap) {
  return o1heapDoInvariantsHold(heap) ? NULL : "an invariant is broken";
}

static struct algorithm_usage heap_usage(const void *heap) {
  O1HeapDiagnostics found = o1heapGetDiagnostics(heap);
  return (struct algorithm_usage){
      .control = INSTANCE_SIZE_PADDED, .area = found.capacity, .live = found.allocated, .reached = found.capacity};
}

const struct algorithm algorithm_foreign = {
    "o1heap",
    "o1heap: Half-fit, blocks of powers of two (its own source)",
    "malloc O(1), free O(1)",
    heap_init,
    heap_malloc,
    heap_free,
    heap_realloc,
    heap_aligned_alloc,
    heap_usable_size,
    heap_check,
    heap_usage,
    foreign_area_size,
};
