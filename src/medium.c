// See medium.h.
#include "medium.h"

#include "check.h"
#include "message.h"
#include "page.h"
#include "remote.h"
#include "segment.h"

static uint32_t granules_for(size_t size) { return (uint32_t)((size + GRANULE_SIZE - 1) >> GRANULE_SHIFT); }

// Cuts what an aligned request got too much, at both ends.
static struct span *align_span(struct heap *heap, struct span *span, uint32_t length, uint32_t alignment, bool zero) {
  uint32_t at = (uint32_t)((uintptr_t)span->start >> GRANULE_SHIFT);
  uint32_t skip = -at & (alignment - 1);
  if (skip) {
    struct span *rest = segment_skip(heap, span, skip, zero ? 0 : skip);
    if (!rest) {
      segment_give_span(heap, span, zero ? 0 : span->length);
      return NULL;
    }
    span = rest;
  }
  if (span->length > length) segment_shrink_span(heap, span, length, zero);
  return span;
}

// As many medium blocks come back as go out, as long as other threads have freed any; else something of another class.
static void collect_one(struct heap *heap) {
  struct span *freed = hint_take(&heap->hints, SPAN_MEDIUM);
  if (freed)
    medium_collect(heap, freed);
  else
    remote_collect(heap);
}

void *medium_malloc(struct heap *heap, size_t size, size_t alignment, bool *zero) {
  uint32_t length = granules_for(size), unit = granules_for(alignment);
  if (length + unit - 1 > MEDIUM_GRANULES_MAX) return NULL;
  if (RTM_UNLIKELY(hint_any(&heap->hints))) collect_one(heap);
  struct span *span = segment_take_span(heap, length + unit - 1, zero);
  if (!span) return NULL;
  if (unit > 1) {
    span = align_span(heap, span, length, unit, *zero);
    if (!span) return NULL;
  }
  if (RTM_UNLIKELY(!hint_attach(&heap->hints, SPAN_MEDIUM, span))) {
    segment_give_span(heap, span, *zero ? 0 : span->length);
    return NULL;
  }
  span->used = 1;
  span->reciprocal = 0;
  span->kind = SPAN_MEDIUM;
  span_set_tag(span, (uintptr_t)heap | TAG_SLOW);
  return span->start;
}

static void release(struct heap *heap, struct span *span) {
  hint_detach(&heap->hints, SPAN_MEDIUM, span);
  segment_give_span(heap, span, span->length);
}

void medium_free(struct heap *heap, struct span *span, void *block) {
  if (RTM_UNLIKELY(block != span->start)) message_misuse(block, "invalid free", "the pointer lies inside a block");
  if (RTM_UNLIKELY(atomic_load_explicit(&span->remote[0], memory_order_relaxed)))
    message_misuse(block, "double free", "the block was freed before, by another thread");
  release(heap, span);
}

void medium_collect(struct heap *heap, struct span *span) {
  // Acquire: what the freeing thread did with the block comes before its next use. Sequentially consistent: comes after
  // the hint was cleared.
  if (!atomic_load_explicit(&span->remote[0], memory_order_seq_cst)) return;
  atomic_store_explicit(&span->remote[0], 0, memory_order_relaxed);
  release(heap, span);
}

bool medium_resize(struct heap *heap, struct span *span, size_t size) {
  if (size > MEDIUM_MAX) return false;
  uint32_t length = granules_for(size);
  if (length > span->length && !segment_grow_span(heap, span, length)) return false;
  if (length < span->length) segment_shrink_span(heap, span, length, false);
  return true;
}

void local_free(struct heap *heap, struct span *span, void *block) {
  if (DEBUG_VARIANT) check_free(span, block);
  if (span->kind == SPAN_MEDIUM) {
    medium_free(heap, span, block);
  } else if (span_tag(span) & TAG_SLOW) {
    page_free_full(heap, span, block);
  } else {
    *(void **)block = span->free;
    span->free = block;
    if (--span->used == 0) page_emptied(heap, span);
  }
}
