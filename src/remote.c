// See remote.h.
#include "remote.h"

#include "medium.h"
#include "message.h"
#include "options.h"
#include "page.h"
#include "stats.h"

_Noreturn void remote_free_twice(const void *block) {
  message_misuse(block, "double free", "the block was freed before, by another thread");
}

// One span with remote frees is dealt with.
static void collect_from(struct heap *heap, struct span *span) {
  if (span->kind == SPAN_MEDIUM) {
    medium_collect(heap, span);
  } else if (page_collect(span)) {
    page_settle(heap, span);
  }
}

void remote_collect(struct heap *heap) {
  if (RTM_LIKELY(!hint_any(&heap->hints))) return;
  struct span *span = hint_take_any(&heap->hints);
  if (span) collect_from(heap, span);
}

void remote_collect_all(struct heap *heap) {
  while (hint_any(&heap->hints)) remote_collect(heap);
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
    remote_collect(heap);
    heap_unclaim(heap);
  } else {
    remote_mark(span, block);
  }
  if (RTM_UNLIKELY(hint_any(&heap->hints)) && heap_claim(heap)) {
    remote_collect(heap);
    heap_unclaim(heap);
  }
}
