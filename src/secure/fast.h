// The usual malloc and free of the secure variant; in the others alloc.h has them. See docs/secure.md.
#ifndef RTM_SECURE_FAST_H
#define RTM_SECURE_FAST_H

// `size`: with what the secure variant keeps for itself, at most BLOCK_MAX.
RTM_INLINE void *secure_alloc_small(size_t size) {
  unsigned class = size_class(size);
  struct heap *heap = rtm_fast_heap;
  struct span *page = heap->page[class];
  // No block is chosen; also the first call of a thread, whose heap is rtm_no_heap.
  if (RTM_UNLIKELY(!page->free)) return alloc_slow(size, page);
  return secure_next(page, &heap->order);
}

RTM_INLINE void *alloc_plain(size_t size) {
  if (RTM_UNLIKELY(size > BLOCK_MAX)) return alloc_large(size);
  if (RTM_UNLIKELY(rtm_secure.features & SECURE_ALONE)) return alloc_large(size ? size : 1);
  return secure_alloc_small(size);
}

RTM_INLINE void *alloc_fast(size_t size) {
  if (RTM_UNLIKELY(size >= RTM_READ_RELAXED(rtm_secure.fast_size))) return secure_malloc(size);
  return secure_alloc_small(size);
}

RTM_INLINE bool is_of_size(size_t size, const struct span *span) {
  return size < RTM_READ_RELAXED(rtm_secure.fast_size) && size_class(size) == span->kind;
}

RTM_INLINE void free_in(void *block, struct span *page) {
  uintptr_t owner = span_tag(page);
  uint32_t number;
  // Another heap's, a full page, a medium or huge block, nothing at all, a page with canaries, or a store.
  if (RTM_UNLIKELY(owner != (uintptr_t)rtm_fast_heap) || (rtm_secure.features & SECURE_MORE_TO_DO) ||
      (number = secure_number(page, block)) == UINT32_MAX) {
    secure_free(block, page);
    return;
  }
  // As secure_is_free, for the owner. (The words are those of a page that begins so many words later: one address.)
  struct span *words = (struct span *)((uint64_t *)page + number / 64);
  RTM_KEEP(words);
  uint64_t bits = words->private[0], others = atomic_load_explicit(&words->remote[0], memory_order_relaxed);
  void *next = page->free;
  if (RTM_UNLIKELY((bits | others) >> (number % 64) & 1) || RTM_UNLIKELY(next == block)) {
    secure_free(block, page);  // which says what is wrong
    return;
  }
  if (RTM_LIKELY(next != NULL))
    __atomic_store_n(&words->private[0], bits_set(bits, number), __ATOMIC_RELAXED);
  else
    RTM_WRITE_RELAXED(page->free, block);
  if (RTM_UNLIKELY(--page->used == 0)) page_emptied((struct heap *)owner, page);
}

#endif
