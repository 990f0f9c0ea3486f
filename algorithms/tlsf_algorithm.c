// TLSF behind the common interface.
#include "tlsf_algorithm.h"

#include "tlsf.h"

_Static_assert(TLSF_HEADER == ALGORITHM_HEADER && TLSF_ALIGNMENT == ALGORITHM_ALIGNMENT, "all headers are of one size");

static void *heap_init(void *memory, size_t bytes) { return tlsf_init(memory, bytes, NULL); }
static void *heap_malloc(void *heap, size_t size) { return tlsf_malloc(heap, size); }
static bool heap_free(void *heap, void *block) { return tlsf_free(heap, block); }
static void *heap_realloc(void *heap, void *block, size_t size) { return tlsf_realloc(heap, block, size); }
static void *heap_aligned_alloc(void *heap, size_t alignment, size_t size) {
  return tlsf_aligned_alloc(heap, alignment, size);
}
static size_t heap_usable_size(const void *heap, const void *block) {
  (void)heap;
  return tlsf_usable_size(block);
}
static const char *heap_check(const void *heap) { return tlsf_check(heap); }
static struct algorithm_usage heap_usage(const void *heap) {
  struct tlsf_usage usage = tlsf_usage(heap);
  return (struct algorithm_usage){usage.control, usage.area, usage.live, usage.largest, usage.reached};
}
static size_t heap_area_size(size_t live, size_t largest) { return tlsf_area_size(live, largest, NULL); }

const struct algorithm algorithm_tlsf = {
    "tlsf",
    "TLSF: two-level segregated fit, J = 5, round-up split (Masmano et al. 2008)",
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
