// Medium blocks: above BLOCK_MAX, up to half a segment; each is a span of its own. Layer: above segment, hint.
// Called by alloc and remote.
#ifndef RTM_MEDIUM_H
#define RTM_MEDIUM_H

#include "heap.h"

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
void medium_free(struct heap *heap, struct span *span, void *block);
// The span's hint was raised: if another thread has freed the block, it waits to be released (segment_wait).
void medium_collect(struct heap *heap, struct span *span);
// A span that has waited.
void medium_release(struct heap *heap, struct span *span);
// Changes the size in place; false (and unchanged) if that is impossible.
bool medium_resize(struct heap *heap, struct span *span, size_t size);

// Frees a block of this heap, which the caller owns or has claimed: page or medium, whatever its state. O(1).
void local_free(struct heap *heap, struct span *span, void *block);

#endif
