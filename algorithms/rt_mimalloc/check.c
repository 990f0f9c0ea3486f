// rtmi_check of rt_mimalloc.h: the equations of structure.h, on the calling thread's heap.
#include <stdio.h>

#include "heap.h"
#include "page.h"
#include "rt_mimalloc.h"

static __thread char sentence[160];

// Blocks of a list; every one must be of the page, at a block's start, below the capacity.
static bool count_list(const struct page *page, const struct block *block, uint32_t *count) {
  for (*count = 0; block; block = block->next, ++*count) {
    size_t offset = (size_t)((const char *)block - page->start);
    if (offset % page->block_bytes || offset / page->block_bytes >= page->capacity || *count > page->capacity)
      return false;
  }
  return true;
}

static const char *check_page(const struct heap *heap, const struct page *page, bool full) {
  uint32_t free, local, remote;
  uintptr_t word = atomic_load_explicit(&page->thread_free, memory_order_acquire);
  if (!page->in_use) return "is in a queue, but not in use";
  if (page_has(page, IN_FULL) != full) return "is in the full list, or its flag is wrong";
  if (atomic_load_explicit(&segment_of_page(page)->heap, memory_order_relaxed) != heap) return "is of another heap";
  if (page->capacity > page->reserved) return "has more capacity than room";
  if (!count_list(page, page->free, &free)) return "has a wrong block in free";
  if (!count_list(page, page->local_free, &local)) return "has a wrong block in local_free";
  if (!count_list(page, (struct block *)(word & ~(uintptr_t)STATE_BITS), &remote))
    return "has a wrong block in thread_free";
  if (page->used + free + local != page->capacity) return "has used + free + local_free unequal to its capacity";
  if (remote > page->used) return "has more blocks freed by others than used ones";
  if (full && (free || local)) return "is full, but has free blocks";
  if (!full && (word & STATE_BITS) == TELL_HEAP) return "tells its heap, but is not full";
  return NULL;
}

static const char *check_queue(const struct heap *heap, const struct queue *queue, unsigned class, bool full,
                               uint32_t *pages) {
  const struct page *before = NULL;
  for (const struct page *page = queue->first; page; before = page, page = page->next, ++*pages) {
    const char *wrong = check_page(heap, page, full);
    if (!wrong && page->previous != before) wrong = "is linked wrongly";
    if (!wrong && !full && page->class != class) wrong = "is in another class's queue";
    if (!wrong) continue;
    snprintf(sentence, sizeof sentence, "the page at %p, blocks of %zu bytes, %s", (const void *)page,
             page->block_bytes, wrong);
    return sentence;
  }
  return queue->last == before ? NULL : "a queue's last page is wrong";
}

static const char *check_segments(const struct heap *heap, uint32_t *pages) {
  for (const struct segment *segment = heap->segments; segment; segment = segment->next) {
    unsigned used = 0;
    for (unsigned i = 0; i < segment->count; i++) {
      if (segment->pages[i].in_use == (segment->unused >> i & 1)) return "a segment's bitmap is wrong";
      used += segment->pages[i].in_use;
    }
    if (used != segment->used) return "a segment's number of pages is wrong";
    if (segment->kind != HUGE && segment->in_free_list != (segment->unused != 0))
      return "a segment is in the free list without an unused page, or not with one";
    *pages += used;
  }
  return NULL;
}

const char *rtmi_check(void) {
  const struct heap *heap = rtmi_heap;
  if (heap == &rtmi_empty_heap) return NULL;
  uint32_t queued = 0, used = 0;
  const char *wrong = check_segments(heap, &used);
  for (unsigned class = 0; !wrong && class < CLASSES; class ++) {
    wrong = check_queue(heap, &heap->queues[class], class, false, &queued);
    const struct page *first = heap->queues[class].first;
    if (!wrong && heap->available[class] != (first ? first : &rtmi_empty_page)) wrong = "an available page is wrong";
  }
  for (unsigned i = 0; !wrong && i < DIRECT_ENTRIES_COUNT; i++) {
    const void *page = heap->direct[i];
    if (rtmi_switches.direct == DIRECT_POINTER) page = *(struct page *const *)page;
    if (page != heap->available[class_of(i * 8)]) wrong = "an entry of pages_direct is wrong";
  }
  if (!wrong) wrong = check_queue(heap, &heap->full, CLASSES, true, &queued);
  return wrong ? wrong : queued == used ? NULL : "there are pages in no queue";
}
