// Remote frees: a block freed by a thread that does not own its heap. Layer: above page, medium. Called by alloc, page.
// docs/remote-free.md has the protocol and its argument.
#ifndef RTM_REMOTE_H
#define RTM_REMOTE_H

#include "heap.h"

// The heap is an orphan or held by someone. O(1): the caller may become its owner for the call.
void remote_free_unowned(struct heap *heap, struct span *span, void *block);
// Whether that takes the long way in a heap that becomes an orphan.
bool remote_frees_apart(const struct heap *heap);
// Bytes that a heap hands out before it collects again where that brought little, or nothing was found.
enum { REST = 16384 };
// Does not return: as free_twice.
RTM_COLD void remote_free_twice(const void *block);
// Some remote free is pending: collects those of one span of any class. Called wherever a heap is about
// to hand out fresh memory, so that freed memory of classes that are no longer asked for comes back as well. O(1).
void remote_collect(struct heap *heap);
// The same in two pieces, one for each call: the search, and the collection.
void remote_collect_piece(struct heap *heap);
// Collects everything; for heap_trim. O(spans with remote frees).
void remote_collect_all(struct heap *heap);

// Frees a block of another thread's heap: sets the block's own bit, then the hints above it. Any thread; wait-free and
// without a loop (x86-64; aarch64 with LSE).
RTM_INLINE void remote_mark(struct span *span, void *block) {
  uint64_t offset = (uint64_t)((char *)block - span->start);
  uint32_t number = (uint32_t)((offset * span->reciprocal) >> 32);  // the block's number in its page; medium: 0
  uint64_t bit = UINT64_C(1) << (number % 64);
  // Read before the block is given away: afterwards the span may be anything.
  struct hint_word *hint = span->hint;
  uint64_t hint_bit = span->hint_bit;
  // Adding the bit is one instruction that returns the old value; an OR that does would be a compare-and-swap loop.
  // Release: this thread's use of the block comes before its next use. Sequentially consistent with the hints.
  uint64_t before = atomic_fetch_add_explicit(&span->remote[number / 64], bit, memory_order_seq_cst);
  if (RTM_UNLIKELY(before & bit)) {
    remote_free_twice(block);
    return;
  }
  hint_raise(hint, hint_bit);
}

#endif
