// DLmalloc 2.7.2 (Lea 2002), the real one, as uClibc carries it (Debian: uclibc-source): its files are compiled as they
// are, with foreign_dlmalloc_272.h before each. uClibc has added locks, which are empty here, and hides the links of
// fast bins (an exclusive or). What it asks the system for comes from the caller's area; it does not map large blocks
// apart. There is one heap in a process: `init` makes it anew.
#include "foreign.h"

// Renames malloc and free, as the members of struct algorithm are called too: after it.
#include "foreign_dlmalloc_272.h"

#include "malloc.h"

static char *area, *area_top, *area_end;

void *area_more(intptr_t bytes) {
  char *top = area_top;
  if (bytes > area_end - top || bytes < area - top) return (void *)-1;
  area_top = top + bytes;
  return top;
}

static void *heap_init(void *memory, size_t bytes) {
  area = foreign_align(memory, &bytes, ALGORITHM_ALIGNMENT, ALGORITHM_ALIGNMENT);
  area_top = area;
  area_end = area + bytes;
  memset(&__malloc_state, 0, sizeof __malloc_state);
  return area;
}

static void *heap_malloc(void *heap, size_t size) {
  (void)heap;
  return lea_malloc(size);
}

static bool heap_free(void *heap, void *block) {
  (void)heap;
  lea_free(block);
  return true;
}

static void *heap_realloc(void *heap, void *block, size_t size) {
  (void)heap;
  return lea_realloc(block, size ? size : 1);  // which frees for 0
}

static void *heap_aligned_alloc(void *heap, size_t alignment, size_t size) {
  (void)heap;
  return lea_memalign(alignment, size);
}

static size_t heap_usable_size(const void *heap, const void *block) {
  (void)heap;
  return block ? chunksize(mem2chunk(block)) - sizeof(size_t) : 0;
}

static struct algorithm_usage heap_usage(const void *heap) {
  (void)heap;
  size_t bytes = (size_t)(area_end - area);
  return (struct algorithm_usage){.area = bytes, .reached = bytes};
}

const struct algorithm algorithm_foreign = {
    "dlmalloc-2.7.2-lea",
    "DLmalloc 2.7.2, its own source: fast bins, sorted bins, deferred coalescing",
    "malloc O(area), free O(1)",
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
