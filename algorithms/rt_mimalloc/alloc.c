// Implements rt_mimalloc.h: the short paths, and the generic one behind them.
#include <errno.h>
#include <string.h>

#include "heap.h"
#include "page.h"
#include "rt_mimalloc.h"
#include "segment.h"

enum { ALIGNMENT = 16 };
#define ALIGNMENT_MOST ((size_t)2 << 20)  // a huge block must begin in its segment's first 4 MiB

static inline struct page *direct_page(const struct heap *heap, size_t bytes) {
  void *entry = heap->direct[(bytes + 7) / 8];
  return rtmi_switches.direct == DIRECT_POINTER ? *(struct page **)entry : entry;
}

// The first page of the queue that has a block, or can be made to have one, else a new one.
static struct page *find_page(struct heap *heap, unsigned class) {
  struct page *page;
  while ((page = heap->queues[class].first)) {
    if (rtmi_page_available(page)) return page;
    rtmi_page_to_full(heap, page);
  }
  if (rtmi_switches.collect_retired) rtmi_heap_collect_retired(heap);
  return rtmi_page_fresh(heap, class, class_bytes(class));
}

// Huge pages that are kept have the sizes of the set B, so that another request fits; others are as long as asked for.
static struct page *find_huge(struct heap *heap, size_t bytes) {
  unsigned class = bytes <= CLASS_BYTES_MOST ? class_of(bytes) : CLASSES;
  if (class == CLASSES || rtmi_switches.free_pages == FREE_ALL)
    return rtmi_page_fresh(heap, class, (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1));
  struct page *page = heap->queues[class].first;
  return page ? page : rtmi_page_fresh(heap, class, class_bytes(class));
}

COUNTED static void *malloc_generic(struct heap *heap, size_t bytes) {
  if (heap == &rtmi_empty_heap) heap = rtmi_heap_of_thread();
  struct page *page = NULL;
  if (LIKELY(heap && bytes <= PTRDIFF_MAX)) {
    rtmi_heap_free_delayed(heap);
    page = bytes <= MEDIUM_MOST ? find_page(heap, class_of(bytes)) : find_huge(heap, bytes);
  }
  if (!page) {
    errno = ENOMEM;
    return NULL;
  }
  struct block *block = page->free;
  if (!block) {  // a huge page that is kept: its block came back by local_free
    rtmi_page_collect(page);
    block = page->free;
  }
  page->free = block->next;
  page->used++;
  if (page->kind == HUGE) rtmi_page_to_full(heap, page);
  return block;
}

void *rtmi_malloc(size_t bytes) {
  struct heap *heap = rtmi_heap;
  if (LIKELY(bytes <= DIRECT_MOST)) {
    struct page *page = direct_page(heap, bytes);
    struct block *block = page->free;
    if (LIKELY(block != NULL)) {
      page->free = block->next;
      page->used++;
      return block;
    }
  }
  return malloc_generic(heap, bytes);
}

COUNTED static void free_generic(struct segment *segment, struct page *page, void *address) {
  struct block *block = page_has(page, HAS_ALIGNED) ? block_of(page, address) : address;
  struct heap *heap = rtmi_heap;
  if (atomic_load_explicit(&segment->heap, memory_order_relaxed) == heap)
    rtmi_heap_free_block(heap, page, block);
  else
    rtmi_page_free_remotely(segment, page, block);
}

void rtmi_free(void *address) {
  if (!LIKELY(address != NULL)) return;
  struct segment *segment = segment_of(address);
  struct page *page = page_of(segment, address);
  struct heap *heap = rtmi_heap;
  if (LIKELY(atomic_load_explicit(&segment->heap, memory_order_relaxed) == heap &&
             atomic_load_explicit(&page->flags, memory_order_relaxed) == 0)) {
    struct block *block = address;
    block->next = page->local_free;
    page->local_free = block;
    if (--page->used == 0) rtmi_page_retire(heap, page);
  } else {
    free_generic(segment, page, address);
  }
}

size_t rtmi_usable_size(const void *block) {
  if (!block) return 0;
  const struct page *page = page_of(segment_of(block), block);
  return page->block_bytes - (size_t)((const char *)block - (char *)block_of(page, block));
}

void *rtmi_calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  void *block = rtmi_malloc(bytes);
  if (!block) return NULL;
  struct page *page = page_of(segment_of(block), block);
  if (page->kind != HUGE || !page->zero) return memset(block, 0, bytes);
  *(struct block *)block = (struct block){NULL};  // it was in a list
  return block;
}

void *rtmi_realloc(void *block, size_t size) {
  size_t usable = rtmi_usable_size(block);
  if (block && size <= usable && size >= usable / 2) return block;
  void *moved = rtmi_malloc(size);
  if (!moved || !block) return moved;
  memcpy(moved, block, size < usable ? size : usable);
  rtmi_free(block);
  return moved;
}

void *rtmi_aligned_alloc(size_t alignment, size_t size) {
  if (alignment == 0 || (alignment & (alignment - 1))) {
    errno = EINVAL;
    return NULL;
  }
  if (alignment <= ALIGNMENT) return rtmi_malloc(size > 8 || alignment <= 8 ? size : ALIGNMENT);
  size_t bytes;
  if (alignment > ALIGNMENT_MOST || __builtin_add_overflow(size, alignment - 1, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  char *block = rtmi_malloc(bytes);
  if (!block) return NULL;
  size_t skipped = (size_t)(-(uintptr_t)block & (alignment - 1));
  if (skipped) page_set(page_of(segment_of(block), block), HAS_ALIGNED, true);
  return block + skipped;
}
