// Segments: from the system or the heap's cache, and their pages. Above structure.h; called by page.c, heap.c,
// profile.c.
#ifndef RT_MIMALLOC_SEGMENT_H
#define RT_MIMALLOC_SEGMENT_H

#include "structure.h"

// A segment with no page in use; small and medium ones are in the heap's free list. `block_bytes` counts for huge ones.
// NULL: no memory. Table IV: mi_segment_alloc.
struct segment *rtmi_segment_alloc(struct heap *heap, enum kind kind, size_t block_bytes);

// The segment, with no page in use, goes to the cache or to the system. Table IV: mi_segment_free.
void rtmi_segment_free(struct heap *heap, struct segment *segment);

// A segment with an unused page: of the heap's, else adopted, else a new one. NULL: no memory.
struct segment *rtmi_segment_with_space(struct heap *heap, enum kind kind);

// The number of an unused page; the segment has one. Table VI: mi_segment_find_free.
unsigned rtmi_segment_find_free(const struct segment *segment);

// The page is in use, or no longer; the segment's free list follows. No page in use: see rtmi_segment_free.
void rtmi_segment_take_page(struct heap *heap, struct segment *segment, unsigned index);
void rtmi_segment_give_page(struct heap *heap, struct segment *segment, struct page *page);
// The same for a segment that is in no heap's lists.
void rtmi_segment_mark_unused(struct segment *segment, struct page *page);

// Into the heap's lists: it is the owner from here on.
void rtmi_segment_link(struct heap *heap, struct segment *segment);

// Back to the system, whatever the switches and the cache say: at a thread's exit.
void rtmi_segment_unmap(struct segment *segment);

#endif
