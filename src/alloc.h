// The fast paths of malloc and free. Top layer; used by alloc.c and by the overrides, which inline them.
//
//   malloc  size -> class -> page -> first free block                         17 instructions
//   free    pointer -> granule -> span; its owner is this thread's heap?      21 instructions
#ifndef RTM_ALLOC_H
#define RTM_ALLOC_H

#include "page.h"
#include "secure/secure.h"

// The rest of each path; see alloc.c.
void *alloc_slow(size_t size, struct span *page);
void *alloc_large(size_t size);
void free_slow(void *block, struct span *span, uintptr_t tag);  // tag: the span's
void free_outside(void *block);
// Does not return; not declared so, as then it would need a stack frame on the way there.
RTM_COLD void free_twice(void *block);

// The heap that has the span, which is not a huge block's.
RTM_INLINE struct heap *span_owner(const struct span *span) {
  return (struct heap *)(span_tag(span) & ~(uintptr_t)TAG_SLOW);
}

#ifdef RTM_SECURE
#include "secure/fast.h"
#else
RTM_INLINE void *alloc_plain(size_t size) {
  if (RTM_UNLIKELY(size > BLOCK_MAX)) return alloc_large(size);
  unsigned class = size_class(size);
  struct span *page = rtm_fast_heap->page[class];
  void *block = page->free;
  // The page has no linked block; also the first call of a thread, whose heap is rtm_no_heap.
  if (RTM_UNLIKELY(!block)) return alloc_slow(size, page);
  page->free = *(void **)block;
  page->used++;
  return block;
}

// `page`: the span in which it lies.
RTM_INLINE void free_in(void *block, struct span *page) {
  // Another heap's, a full page, a medium or huge block, or nothing at all.
  uintptr_t owner = span_tag(page);
  if (RTM_UNLIKELY(owner != (uintptr_t)rtm_fast_heap)) {
    free_slow(block, page, owner);
    return;
  }
  void *first = page->free;
  if (RTM_UNLIKELY(first == block)) {
    free_twice(block);
    return;
  }
  *(void **)block = first;
  page->free = block;
  if (RTM_UNLIKELY(--page->used == 0)) page_emptied((struct heap *)owner, page);
}

RTM_INLINE void *alloc_fast(size_t size) { return alloc_plain(size); }

// Whether a block of the span may be one of this size, at most BLOCK_MAX, at a glance: it is of its page's class, or of
// one that the store serves.
RTM_INLINE bool is_of_size(size_t size, const struct span *span) {
  unsigned class = size_class(size);
  if (RTM_LIKELY(class == span->kind)) return true;
  return span->kind == SPAN_STORE && span_owner(span)->page[class] == span;
}
#endif

RTM_INLINE void free_fast(void *block) {
  size_t granule = window_granule(block);
  // Also NULL, which is far above the window's end when counted from its base.
  if (RTM_UNLIKELY(granule >= RTM_READ_RELAXED(rtm_window_granules)))
    free_outside(block);
  else
    free_in(block, span_of(granule));
}

// The block was allocated with `size` bytes, and the size's class is not its page's: aborts if that cannot be so.
// `resized`: perhaps by realloc, which may leave it in a larger block.
void free_check_size(void *block, struct span *span, size_t size, bool resized);
// The same, with an alignment: does not return if no such block starts there.
void free_check_alignment(void *block, size_t alignment, size_t size);

// The rest of free_of_size: the size is above BLOCK_MAX; it is wrong, or only a careful look tells that it is not.
void free_of_large_size(void *block, size_t size);
void free_of_other_size(void *block, size_t size);

// A free that says what size was asked for. 10 instructions more than free, 17 where the block is a store's.
RTM_INLINE void free_of_size(void *block, size_t size) {
  size_t granule = window_granule(block);
  if (RTM_UNLIKELY(granule >= RTM_READ_RELAXED(rtm_window_granules))) {
    free_outside(block);
    return;
  }
  struct span *span = span_of(granule);
  if (RTM_UNLIKELY(size > BLOCK_MAX))
    free_of_large_size(block, size);
  else if (RTM_UNLIKELY(!is_of_size(size, span)))
    free_of_other_size(block, size);
  else
    free_in(block, span);
}

void *alloc_zeroed(size_t count, size_t size);
void *alloc_again(void *block, size_t size);
void *alloc_aligned(size_t alignment, size_t size);  // alignment: a power of two
size_t alloc_usable_size(const void *block);
size_t alloc_block_size(const void *block);  // of a block in use, what the secure variant keeps for itself included
void alloc_trim(void);

#endif
