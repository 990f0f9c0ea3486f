// See remote.h.
#include "remote.h"

#include "medium.h"
#include "message.h"
#include "page.h"

static void free_into_orphan(struct heap *heap, struct span *span, void *block, uint32_t number);

// The block's own bit, then the hints above it.
RTM_INLINE void mark_freed(struct span *span, void *block, uint32_t number) {
  uint64_t bit = UINT64_C(1) << (number % 64);
  uintptr_t hint = span->hint;  // read before the block is given away: afterwards the span may be anything
  // Adding the bit is one instruction that returns the old value; an OR that does would be a compare-and-swap loop.
  // Release: this thread's use of the block comes before its next use. Sequentially consistent with the hints.
  uint64_t before = atomic_fetch_add_explicit(&span->remote[number / 64], bit, memory_order_seq_cst);
  if (RTM_UNLIKELY(before & bit)) message_misuse(block, "double free", "the block was freed before, by another thread");
  hint_raise(hint);
}

void remote_free(struct heap *owner, struct span *span, void *block) {
  uint32_t offset = (uint32_t)((char *)block - span_start(span));
  uint32_t number = (uint32_t)(((uint64_t)offset * span->reciprocal) >> 32);
  if (RTM_UNLIKELY(number * span->block_size != offset))
    message_misuse(block, "invalid free", "the pointer lies inside a block");
  if (RTM_UNLIKELY(atomic_load_explicit(&owner->state, memory_order_relaxed) == HEAP_ORPHAN))
    free_into_orphan(owner, span, block, number);
  else
    mark_freed(span, block, number);
}

// One span with remote frees of the class is dealt with.
static void collect_from(struct heap *heap, unsigned class) {
  struct span *span = hint_take(&heap->hints[class]);
  if (!span) return;
  if (class == SPAN_MEDIUM) {
    medium_collect(heap, span);
  } else if (page_collect(span)) {
    page_settle(heap, span);
  }
}

void remote_collect(struct heap *heap) {
  uint64_t low = atomic_load_explicit(&heap->pending[0].bits, memory_order_relaxed);
  uint64_t high = atomic_load_explicit(&heap->pending[1].bits, memory_order_relaxed);
  if (RTM_LIKELY(!(low | high))) return;
  // Classes take turns: none waits for ever behind one that is always busy.
  uint32_t at = heap->collect_at;
  uint64_t from = at < 64 ? low & (~UINT64_C(0) << at) : 0;
  uint64_t from_high = at < 64 ? high : high & (~UINT64_C(0) << (at - 64));
  unsigned class = from        ? bits_lowest(from)
                   : from_high ? 64 + bits_lowest(from_high)
                   : low       ? bits_lowest(low)
                               : 64 + bits_lowest(high);
  heap->collect_at = class < SPAN_MEDIUM ? class + 1 : 0;
  collect_from(heap, class);
}

void remote_collect_all(struct heap *heap) {
  for (unsigned class = 1; class <= SPAN_MEDIUM; class++) {
    struct hint_word *top = &heap->pending[class / 64];
    while (atomic_load_explicit(&top->bits, memory_order_relaxed) & (UINT64_C(1) << (class % 64)))
      collect_from(heap, class);
  }
}

// ---- orphans ----

static bool anything_pending(struct heap *heap) {
  return atomic_load_explicit(&heap->pending[0].bits, memory_order_seq_cst) ||
         atomic_load_explicit(&heap->pending[1].bits, memory_order_seq_cst);
}

// The heap's thread has exited. The freeing thread is its owner for the length of this call, if no other is: then memory
// goes back at once. If another is, the block goes the remote way, and one of the two sees it: the bits are set before
// this thread looks whether the heap is free again, and the other looks for bits after it has left.
static RTM_NOINLINE void free_into_orphan(struct heap *heap, struct span *span, void *block, uint32_t number) {
  if (heap_claim(heap)) {
    local_free(heap, span, block);
    remote_collect(heap);
    heap_unclaim(heap);
  } else {
    mark_freed(span, block, number);
  }
  if (RTM_UNLIKELY(anything_pending(heap)) && heap_claim(heap)) {
    remote_collect(heap);
    heap_unclaim(heap);
  }
}
