// Every live block of a heap. Layer: above page, huge. Called by heap_object.
#ifndef RTM_WALK_H
#define RTM_WALK_H

#include "heap.h"

// False: stop.
typedef bool walk_function(void *block, size_t bytes, void *argument);

// Calls `visit` for each live block of the heap, which the caller owns. Blocks that other threads free meanwhile may
// come or not. False: `visit` stopped it. O(segments of the process + granules of the heap + blocks).
bool walk_heap(const struct heap *heap, walk_function *visit, void *argument);

// Segments [1, walk_segments()) exist. Whether one is the heap's own; and the huge block of the heap's that starts
// there, or NULL.
RTM_INLINE uint32_t walk_segments(void) { return (uint32_t)(RTM_READ_RELAXED(rtm_window_granules) / SEGMENT_GRANULES); }
bool walk_owns(const struct heap *heap, uint32_t segment);
struct span *walk_huge(const struct heap *heap, uint32_t segment);

#endif
