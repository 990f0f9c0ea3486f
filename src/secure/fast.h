// The usual malloc and free of the secure variant; in the others alloc.h has them. See docs/secure.md.
#ifndef RTM_SECURE_FAST_H
#define RTM_SECURE_FAST_H

// `size`: with what the secure variant keeps for itself, at most BLOCK_MAX.
RTM_INLINE void *secure_alloc_small(size_t size) {
  unsigned class = size_class(size);
  struct span *page = rtm_fast_heap->page[class];
  if (RTM_UNLIKELY(!secure_has_next(page))) return alloc_slow(size, page);
  return secure_next(page, rtm_shape[class].block_size);
}

RTM_INLINE void *alloc_plain(size_t size) {
  if (RTM_UNLIKELY(size > BLOCK_MAX)) return alloc_large(size);
  if (RTM_UNLIKELY(rtm_secure.features & SECURE_ALONE)) return alloc_large(size ? size : 1);
  return secure_alloc_small(size);
}

RTM_INLINE void *alloc_fast(size_t size) {
  if (RTM_UNLIKELY(size >= RTM_READ_RELAXED(rtm_secure.fast_size))) return secure_malloc(size);
  return secure_alloc_small(size + rtm_secure.pad);
}

RTM_INLINE bool is_of_class(size_t size, unsigned class) {
  return size < RTM_READ_RELAXED(rtm_secure.fast_size) && size_class(size + rtm_secure.pad) == class;
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
  uint32_t number;
  // Another heap's, a full page, a medium or huge block, nothing at all, a page with canaries, or a store.
  if (RTM_UNLIKELY(owner != (uintptr_t)rtm_fast_heap) || (rtm_secure.features & MORE_TO_DO) ||
      (number = secure_number(page, block)) == UINT32_MAX) {
    secure_free(block, page);
    return;
  }
  // As secure_is_free, for the owner, whose word is read once.
  uint64_t bits = page->private[number / 64];
  uint64_t others = atomic_load_explicit(&page->remote[number / 64], memory_order_relaxed);
  if (RTM_UNLIKELY((bits | others) >> (number % 64) & 1)) {
    secure_free(block, page);  // which says what is wrong
    return;
  }
  secure_put_number(page, number, bits);
  if (RTM_UNLIKELY(--page->used == 0)) page_emptied((struct heap *)owner, page);
}

#endif
