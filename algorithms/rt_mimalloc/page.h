// Pages: their three lists, the queues they are in, how they end. Above segment.h; called by alloc.c, heap.c,
// profile.c.
#ifndef RT_MIMALLOC_PAGE_H
#define RT_MIMALLOC_PAGE_H

#include "structure.h"

// A new page for blocks of so many bytes, first in the queue of the class, with blocks in `free`. NULL: no memory.
struct page *rtmi_page_fresh(struct heap *heap, unsigned class, size_t block_bytes);

// Does the page have a block in `free`? Swaps the lists and extends, as section V says.
bool rtmi_page_available(struct page *page);

// Other threads' frees and the owner's come to where malloc or the extension finds them.
void rtmi_page_collect(struct page *page);

// The page, which has no free block, goes to the full list. False: another thread has freed one just now.
bool rtmi_page_to_full(struct heap *heap, struct page *page);
// It has a free block again: to the end of its queue, so that by its turn it has more (docs/rt-mimalloc.md).
void rtmi_page_unfull(struct heap *heap, struct page *page);

// Its last block came back.
void rtmi_page_retire(struct heap *heap, struct page *page);
// Table IV: _mi_heap_collect_retired.
void rtmi_heap_collect_retired(struct heap *heap);

// First or last in its queue; out of it. Table VI.
void rtmi_page_queue_push(struct heap *heap, struct page *page, bool at_end);
void rtmi_page_queue_remove(struct heap *heap, struct page *page);

// Waits for a thread that is telling the heap, so that the heap may go.
void rtmi_page_set_state(struct page *page, enum thread_state state);

// The page gets a block that another thread frees.
void rtmi_page_free_remotely(struct segment *segment, struct page *page, struct block *block);

// The start of the block that holds the address.
static inline struct block *block_of(const struct page *page, const void *inside) {
  size_t offset = (size_t)((const char *)inside - page->start);
  return (struct block *)(page->start + offset / page->block_bytes * page->block_bytes);
}

static inline bool page_has(const struct page *page, uint8_t flag) {
  return atomic_load_explicit(&page->flags, memory_order_relaxed) & flag;
}
static inline void page_set(struct page *page, uint8_t flag, bool on) {
  uint8_t flags = atomic_load_explicit(&page->flags, memory_order_relaxed);
  atomic_store_explicit(&page->flags, on ? flags | flag : flags & ~flag, memory_order_relaxed);
}

#endif
