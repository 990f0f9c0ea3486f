// Spans of a heap's own segments: taken from a TLSF, coalesced at once. Layer: above arena. Called by page, medium,
// heap.
#ifndef RTM_SEGMENT_H
#define RTM_SEGMENT_H

#include "heap.h"

// A span of `length` granules (1..1024), mapped, table entries set at its head and tail; the caller sets kind, tag and
// the rest. NULL if out of memory. `*zero`: its contents are known to be zero. O(1).
struct span *segment_take_span(struct heap *heap, uint32_t length, bool *zero);
// `dirty`: how many of its granules hold memory. O(1).
void segment_give_span(struct heap *heap, struct span *span, uint32_t dirty);
// Makes the span shorter at its end and gives the rest back (`zero`: it is known to be zero). Without effect if there
// is no descriptor left.
void segment_shrink_span(struct heap *heap, struct span *span, uint32_t length, bool zero);
// Gives the first `skip` granules back; returns the rest, or NULL (and changes nothing) if there is no descriptor left.
struct span *segment_skip(struct heap *heap, struct span *span, uint32_t skip, uint32_t dirty);
// Makes it longer if the next span is free and large enough.
bool segment_grow_span(struct heap *heap, struct span *span, uint32_t length);
// Gives the contents of all free spans back to the system.
void segment_purge_all(struct heap *heap);

#endif
