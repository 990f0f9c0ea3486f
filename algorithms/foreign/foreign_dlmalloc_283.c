// DLmalloc 2.8.3 (Lea 2005), the real one: the crate libffi-sys carries libffi, and that carries its source, which is
// included here as it is. It works as a space ('mspace') over the caller's memory, without locks, system calls and
// executable memory, which libffi adds under switches.
#include "foreign.h"

#define MSPACES 1
#define ONLY_MSPACES 1
#define USE_LOCKS 0
#define HAVE_MMAP 0
#define HAVE_MORECORE 0
#define MORECORE_CANNOT_TRIM 1
#define NO_MALLINFO 1
#define malloc_getpagesize ((size_t)4096)
#define MALLOC_ALIGNMENT ((size_t)ALGORITHM_ALIGNMENT)
#define MALLOC_FAILURE_ACTION
#include "dlmalloc.c"

static void *heap_init(void *memory, size_t bytes) {
  char *base = foreign_align(memory, &bytes, ALGORITHM_ALIGNMENT, 0);
  return base ? create_mspace_with_base(base, bytes, 0) : NULL;
}

static void *heap_malloc(void *heap, size_t size) { return mspace_malloc(heap, size); }

static bool heap_free(void *heap, void *block) {
  mspace_free(heap, block);
  return true;
}

static void *heap_realloc(void *heap, void *block, size_t size) {
  return mspace_realloc(heap, block, size ? size : 1);  // which frees for 0
}

static void *heap_aligned_alloc(void *heap, size_t alignment, size_t size) {
  return mspace_memalign(heap, alignment, size);
}

static size_t heap_usable_size(const void *heap, const void *block) {
  (void)heap;
  if (!block) return 0;
  mchunkptr chunk = mem2chunk((char *)(uintptr_t)block);
  return chunksize(chunk) - overhead_for(chunk);
}

static struct algorithm_usage heap_usage(const void *heap) {
  size_t bytes = mspace_footprint((mspace)(uintptr_t)heap);
  return (struct algorithm_usage){.control = sizeof(struct malloc_state), .area = bytes, .reached = bytes};
}

const struct algorithm algorithm_foreign = {
    "dlmalloc-2.8.3-lea",
    "DLmalloc 2.8.3, its own source: trees, designated victim, immediate coalescing",
    "malloc O(log area), free O(log area)",
    heap_init,
    heap_malloc,
    heap_free,
    heap_realloc,
    heap_aligned_alloc,
    heap_usable_size,
    foreign_no_check,
    heap_usage,
    foreign_area_size,
};
