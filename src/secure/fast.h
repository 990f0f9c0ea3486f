// The usual malloc and free of the secure variant; in the others alloc.h has them. See docs/secure.md.
#ifndef RTM_SECURE_FAST_H
#define RTM_SECURE_FAST_H

RTM_INLINE void *alloc_plain(size_t size) {
  bool eighth = secure_step();
  if (RTM_UNLIKELY(size > BLOCK_MAX)) return alloc_large(size);
  if (RTM_UNLIKELY(rtm_secure.features & SECURE_ALONE)) return alloc_large(size ? size : 1);
  struct span *page = rtm_fast_heap->page[size_class(size)];
  // Every eighth time, too, and for large blocks each time, as in the other variants, whose pages link eight blocks or
  // a granule at once: what other threads free is collected there, in proportion to what is handed out.
  if (RTM_UNLIKELY(!(page->flags & PAGE_COLLECTED)) || RTM_UNLIKELY(eighth) || size > GRANULE_SIZE / 8)
    return alloc_slow(size, page);
  return secure_take(page);
}

// A block of this heap's own page that has free blocks.
RTM_INLINE void secure_free_usual(struct heap *heap, struct span *page, void *block) {
  secure_put(page, block);
  if (RTM_UNLIKELY(--page->used == 0)) page_emptied(heap, page);
}

RTM_INLINE void free_fast(void *block) {
  enum { MORE_TO_DO = SECURE_CANARIES | SECURE_ZERO | SECURE_QUARANTINE };
  size_t granule = window_granule(block);
  if (RTM_UNLIKELY(granule >= RTM_READ_RELAXED(rtm_window_granules))) {
    free_outside(block);
    return;
  }
  struct span *page = span_of(granule);
  uintptr_t owner = span_tag(page);
  // Another heap's, a full page, a medium or huge block, nothing at all, a store, or a page with canaries.
  if (RTM_UNLIKELY(owner != (uintptr_t)rtm_fast_heap) || (rtm_secure.features & MORE_TO_DO) ||
      RTM_UNLIKELY(page->kind > CLASSES)) {
    secure_free(block, page);
    return;
  }
  uint32_t number = secure_number(page, block);
  if (RTM_UNLIKELY(number == UINT32_MAX) || RTM_UNLIKELY(secure_is_free(page, number))) {
    secure_free(block, page);  // which says what is wrong
    return;
  }
  secure_free_usual((struct heap *)owner, page, block);
}

#endif
