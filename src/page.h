// Pages: blocks of one size class, side by side in a span. Layer: above segment, hint. Called by alloc and remote.
#ifndef RTM_PAGE_H
#define RTM_PAGE_H

#include "heap.h"

// A block of the class when the current page has none linked: from the current page, from one with free blocks, from
// one that other threads have freed into, or from a new one. NULL if out of memory. O(1).
void *page_malloc(struct heap *heap, unsigned class);
// The rest of a free by the page's owner. page_free_full: the page was full; the block is not yet in the list.
// page_emptied: its last block in use was freed. O(1).
void page_free_full(struct heap *heap, struct span *page, void *block);
void page_emptied(struct heap *heap, struct span *page);
// Takes over what other threads have freed in the page; true if there was anything. O(1).
bool page_collect(struct span *page);
// After page_collect on a page that is not current: puts it where it belongs now.
void page_settle(struct heap *heap, struct span *page);
// Leaves no page current or retired, so that each is released when it becomes empty. O(CLASSES).
void page_leave_all(struct heap *heap);
// Releases every empty page. O(pages with free blocks).
void page_release_empty(struct heap *heap);

#endif
