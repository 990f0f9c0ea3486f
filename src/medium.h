// Medium blocks: above BLOCK_MAX, up to half a segment; each is a span of its own. Layer: above segment, hint.
// Called by alloc and remote.
#ifndef RTM_MEDIUM_H
#define RTM_MEDIUM_H

#include "heap.h"
#include "message.h"

#define MEDIUM_MAX ((size_t)MEDIUM_GRANULES_MAX << GRANULE_SHIFT)

// A block of `size` bytes (1..MEDIUM_MAX); NULL if out of memory. O(1).
void *medium_malloc(struct heap *heap, size_t size);
// The same, but what medium_out_of_memory returns if there is none. (In alloc.c. A call at the end rather than a result
// to look at, as every block would pay for that.)
// `_or`: a heap that is neither recorded nor prepared; `_unusual`: one that is, or rtm_no_heap.
void *medium_malloc_or(struct heap *heap, size_t size);
void *medium_malloc_unusual(struct heap *heap, size_t size);
void *medium_out_of_memory(size_t size);
// The same at a multiple of `alignment`, a power of two above a granule; also NULL if size and alignment together need
// more than half a segment.
void *medium_aligned(struct heap *heap, size_t size, size_t alignment);
// Aborts if `block` is not the block of this span, or was freed by another thread.
RTM_INLINE void medium_check_free(struct span *span, void *block) {
  if (RTM_UNLIKELY(block != span->start)) message_misuse(block, "invalid free", "the pointer lies inside a block");
  if (RTM_UNLIKELY(RTM_READ_RELAXED(*(uint64_t *)&span->remote[0])))
    message_misuse(block, "double free", "the block was freed before, by another thread");
}
void medium_free(struct heap *heap, struct span *span, void *block);
// The span's hint was raised: if another thread has freed the block, it waits to be released (segment_wait).
void medium_collect(struct heap *heap, struct span *span);
// A span that has waited.
void medium_release(struct heap *heap, struct span *span);
// The block gets another size, in bytes before padding: in place, or by alloc_move. `had`: bytes that the program has
// now.
void *medium_resize(struct heap *heap, struct span *span, size_t size, size_t had);
// In alloc.c, for the same reason as medium_out_of_memory: a new block with what the old one holds, which is freed.
// NULL, and nothing changed, if there is none; where less is asked for than it has, then the old one.
void *alloc_move(void *block, size_t size, size_t had);

// Frees a block of this heap, which the caller owns or has claimed: page or medium, whatever its state. O(1).
void local_free(struct heap *heap, struct span *span, void *block);

#endif
