// Pages: blocks of one size class, side by side in a span. Layer: above segment, hint. Called by alloc and remote.
#ifndef RTM_PAGE_H
#define RTM_PAGE_H

#include "heap.h"

// A block of the class when the current page has none linked: from the current page, from one with free blocks, from
// one that other threads have freed into, or from a new one; if there is no memory for one, what page_out_of_memory
// returns. O(1).
void *page_malloc(struct heap *heap, unsigned class);
// In alloc.c: the last resort. A call at the end rather than a result to look at, as every path would pay for that.
void *page_out_of_memory(unsigned class);
// The rest of a free by the page's owner. page_free_full: the page was full; the block is not yet in the list.
// page_emptied: its last block in use was freed. O(1).
void page_free_full(struct heap *heap, struct span *page, void *block);
void page_emptied(struct heap *heap, struct span *page);
// The page's hint was raised: takes over what other threads have freed in it, and puts it where it belongs now. O(1).
void page_collect_any(struct heap *heap, struct span *page);
// Releases an empty page if one waits. O(1).
void page_release_waiting(struct heap *heap);
// The heap's thread ends. Leaves no page current, and none empty, so that each is released when it becomes empty; but a
// heap that keeps its classes' pages stays as it is if there are `few` such. O(CLASSES).
void page_leave_all(struct heap *heap, bool few);
// Releases every empty page. O(pages with free blocks).
void page_release_empty(struct heap *heap);

#endif
