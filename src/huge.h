// Huge blocks: above a segment; each is a run of segments of the arena, owned by no heap, though it knows
// which one it was asked of (walk.h, limits). Layer: above arena. Called by alloc. They are freed and resized by any
// thread, under the arena's lock.
#ifndef RTM_HUGE_H
#define RTM_HUGE_H

#include "arena.h"

// A block of `size` bytes at a multiple of `alignment` (a power of two); NULL if out of memory. `*zero`: known to be
// zero. Linear in size / 4 MiB.
void *huge_malloc(size_t size, size_t alignment, bool *zero);
void huge_free(struct span *span, void *block);
// Changes the size, in place where possible, else by moving the pages; NULL (and unchanged) if neither is possible.
void *huge_resize(struct span *span, size_t size);

RTM_INLINE size_t huge_size(const struct span *span) { return (size_t)span->reciprocal << GRANULE_SHIFT; }

#endif
