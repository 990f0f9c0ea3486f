// Remote frees: a block freed by a thread that does not own its heap. Layer: above page, medium. Called by alloc, page.
// docs/remote-free.md has the protocol and its argument.
#ifndef RTM_REMOTE_H
#define RTM_REMOTE_H

#include "heap.h"

// Frees a block of `owner`'s span from any thread. Wait-free, without a loop (x86-64; aarch64 with LSE).
void remote_free(struct heap *owner, struct span *span, void *block);
// Collects the remote frees of one span of any class, and releases it if it is empty. Called wherever a heap is about to
// hand out fresh memory, so that freed memory of classes that are no longer asked for comes back as well. O(1).
void remote_collect(struct heap *heap);
// Collects everything; for heap_trim. O(spans with remote frees).
void remote_collect_all(struct heap *heap);

#endif
