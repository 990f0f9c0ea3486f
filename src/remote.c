// See remote.h.
#include "remote.h"

#include "medium.h"
#include "message.h"
#include "options.h"
#include "page.h"
#include "stats.h"

void remote_free_twice(const void *block) {
  message_misuse(block, "double free", "the block was freed before, by another thread");
}

static RTM_NOINLINE void collect_stashed(struct heap *heap) {
  struct span *span = hint_take_medium(&heap->hints);
  if (span) medium_collect(heap, span);
}

RTM_INLINE void collect_found(struct heap *heap) {
  struct span *span = hint_take_found(&heap->hints);
  if (!span) return;
  if (RTM_UNLIKELY(span->kind == SPAN_MEDIUM))  // in the leaves that all classes share
    medium_collect(heap, span);
  else
    page_collect_any(heap, span);
}

RTM_INLINE void find(struct heap *heap) {
  struct hints *hints = &heap->hints;
  hint_find_any(hints);
  if (RTM_UNLIKELY(!hints->found_bit) && hint_has_looked(hints)) heap->rest = REST;
}

void remote_collect(struct heap *heap) {
  if (heap->hints.stash_bits) {
    collect_stashed(heap);
    return;
  }
  if (!heap->hints.found_bit) find(heap);
  collect_found(heap);
}

void remote_collect_piece(struct heap *heap) {
  if (heap->hints.found_bit)
    collect_found(heap);
  else if (heap->hints.stash_bits)
    collect_stashed(heap);
  else
    find(heap);
}

void remote_collect_all(struct heap *heap) {
  while (heap->hints.stash_bits | heap->hints.found_bit | hint_pending(&heap->hints)) remote_collect(heap);
}

// ---- orphans ----

// The heap's thread has exited. The freeing thread is its owner for the length of this call, if no other is: then
// memory goes back at once. If another is, the block goes the remote way, and what neither of the two collects on
// leaving waits for the next free into the heap, its adoption, or a trim.
void remote_free_unowned(struct heap *heap, struct span *span, void *block) {
  if (rtm_options.count) stats_count_free(span->kind, (size_t)span->length << GRANULE_SHIFT);
  if (heap_claim(heap)) {
    if (RTM_UNLIKELY(span_is_page(span) && span->free == block)) remote_free_twice(block);
    local_free(heap, span, block);
    if (RTM_UNLIKELY(hint_may_have(&heap->hints))) remote_collect(heap);
    page_release_waiting(heap);
    heap_unclaim(heap);
  } else {
    remote_mark(span, block);
  }
  if (RTM_UNLIKELY(hint_pending(&heap->hints)) && heap_claim(heap)) {
    remote_collect(heap);
    page_release_waiting(heap);
    heap_unclaim(heap);
  }
}
