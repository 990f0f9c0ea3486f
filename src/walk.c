// See walk.h.
#include "walk.h"

#include "huge.h"

static bool walk_page(struct span *page, walk_function *visit, void *argument) {
  uint64_t free_blocks[REMOTE_WORDS];
  size_t size = rtm_shape[page->kind].block_size;
  for (unsigned w = 0; w < REMOTE_WORDS; w++)
    free_blocks[w] = page->private[w] | atomic_load_explicit(&page->remote[w], memory_order_relaxed);
  for (void *block = page->free; block; block = page_linked_after(block)) {
    size_t number = (size_t)((char *)block - page->start) / size;
    free_blocks[number / 64] |= UINT64_C(1) << (number % 64);
  }
  for (unsigned number = 0; number < page->fresh; number++)
    if (!(free_blocks[number / 64] >> (number % 64) & 1) && !visit(page->start + number * size, size, argument))
      return false;
  return true;
}

static bool walk_span(struct span *span, walk_function *visit, void *argument) {
  if (span->kind == SPAN_FREE || span->flags & SPAN_WAITS) return true;
  if (span_is_page(span)) return walk_page(span, visit, argument);
  if (span->kind != SPAN_MEDIUM || span_tag(span) == TAG_NONE) return true;  // set apart, by an extent
  if (atomic_load_explicit(&span->remote[0], memory_order_relaxed)) return true;
  return visit(span->start, (size_t)(span->length - span_guard()) << GRANULE_SHIFT, argument);
}

static bool walk_granules(uint32_t at, uint32_t end, walk_function *visit, void *argument) {
  while (at < end) {
    struct span *span = span_of(at);
    if (!walk_span(span, visit, argument)) return false;
    at += span->length;
  }
  return true;
}

struct span *walk_huge(const struct heap *heap, uint32_t segment) {
  struct span *run = segment_slot(segment, RUN_SLOT);
  return __atomic_load_n(&run->owner, __ATOMIC_RELAXED) == heap ? run : NULL;
}

bool walk_owns(const struct heap *heap, uint32_t segment) {
  return __atomic_load_n(&segment_at(segment)->heap, __ATOMIC_RELAXED) == heap;
}

bool walk_heap(const struct heap *heap, walk_function *visit, void *argument) {
  uint32_t known = walk_segments();
  for (uint32_t segment = 1; segment < known; segment++) {
    struct span *huge = walk_huge(heap, segment);
    if (huge && !visit(huge->start, huge_size(huge), argument)) return false;
    uint32_t first = segment * SEGMENT_GRANULES;
    if (walk_owns(heap, segment) && !walk_granules(first, first + SEGMENT_USED, visit, argument)) return false;
  }
  uint64_t turn = 0;
  for (uint32_t first, length; (first = extent_piece(heap, &turn, &length));)
    if (!walk_granules(first, first + length, visit, argument)) return false;
  return true;
}
