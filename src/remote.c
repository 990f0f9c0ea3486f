// See remote.h.
#include "remote.h"

#include "medium.h"
#include "message.h"
#include "page.h"

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
