// Heaps: one a thread, made at its first allocation, left at its exit. Above page.h; called by alloc.c and segment.c.
#ifndef RT_MIMALLOC_HEAP_H
#define RT_MIMALLOC_HEAP_H

#include "structure.h"

// The calling thread's heap, made if it has none. NULL: no memory.
struct heap *rtmi_heap_of_thread(void);

// Blocks that other threads put on the heap's list: section V, the generic path.
void rtmi_heap_free_delayed(struct heap *heap);

// Takes abandoned segments, until one of the kind has an unused page or some have been looked at.
void rtmi_heap_adopt(struct heap *heap, enum kind kind);
// Takes so many, if there are.
void rtmi_heap_adopt_most(struct heap *heap, uint32_t most);

// The block, of a page of the heap.
void rtmi_heap_free_block(struct heap *heap, struct page *page, struct block *block);

struct heap *rtmi_heap_first(void);  // of all ever made, linked by `next`

#endif
