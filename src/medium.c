// See medium.h.
#include "medium.h"

#include "check.h"
#include "extent.h"
#include "message.h"
#include "page.h"
#include "record.h"
#include "remote.h"
#include "secure/secure.h"
#include "segment.h"

static uint32_t granules_for(size_t size) {
  return (uint32_t)((size + GRANULE_SIZE - 1) >> GRANULE_SHIFT) + span_guard();
}

// Cuts what an aligned request got too much, at both ends.
static struct span *align_span(struct heap *heap, struct span *span, uint32_t length, uint32_t alignment, bool zero) {
  uint32_t at = (uint32_t)((uintptr_t)span->start >> GRANULE_SHIFT);
  uint32_t skip = -at & (alignment - 1);
  if (skip) {
    struct span *rest = segment_skip(heap, span, skip, zero ? 0 : skip);
    if (!rest) {
      segment_give(heap, span, zero ? 0 : span->length);
      return NULL;
    }
    span = rest;
  }
  if (span->length > length) segment_shorten(heap, span, length, zero);
  return span;
}

// Whether the heap is recorded: looked at once in each operation, and a constant in what is inlined into it.
RTM_INLINE bool is_recorded(const struct heap *heap) { return RTM_UNLIKELY(heap->record != NULL); }

// The span is in use from now on; it has its place in the hint tree.
RTM_INLINE void *start_attached(struct heap *heap, struct span *span, bool zero, bool recorded) {
  span->used = 1;
  span->reciprocal = 0;
  span->flags = zero ? MEDIUM_ZERO : 0;
  if (SECURE_VARIANT) secure_guard(span);
  span_set_tag(span, (uintptr_t)heap | TAG_SLOW);
  if (recorded) record_large(heap->record, (size_t)span->length << GRANULE_SHIFT);
  if (!span->start) __builtin_unreachable();
  return span->start;
}

RTM_INLINE void *start(struct heap *heap, struct span *span, bool zero, bool recorded) {
  if (RTM_LIKELY(hint_attach(&heap->hints, SPAN_MEDIUM, span))) return start_attached(heap, span, zero, recorded);
  segment_give(heap, span, zero ? 0 : span->length);
  return NULL;
}

// Gives the span back and returns it as it is now, free and not yet in a set.
RTM_INLINE struct span *release(struct heap *heap, struct span *span, unsigned *joined) {
  if (SECURE_VARIANT) secure_unguard(span);
  hint_detach(span);
  return segment_join(heap, span, span->length, joined);
}

static void note_gone(struct heap *heap, uint32_t length) {
  record_large_gone(heap->record, (size_t)length << GRANULE_SHIFT);
}

void medium_release(struct heap *heap, struct span *span) {
  unsigned joined;
  segment_insert_dirty(heap, release(heap, span, &joined));
}

// True if another thread has freed the block; it is this thread's again then.
RTM_INLINE bool take_remote(struct span *span) {
  // Acquire: what the freeing thread did with the block comes before its next use. Sequentially consistent: comes after
  // the hint was cleared.
  if (!atomic_load_explicit(&span->remote[0], memory_order_seq_cst)) return false;
  atomic_store_explicit(&span->remote[0], 0, memory_order_relaxed);
  return true;
}

// The span of a medium block that waits; NULL if none does, or a page before it.
static RTM_NOINLINE struct span *take_waiting(struct heap *heap) {
  struct span *span = span_at(heap->waiting);
  if (span->kind != SPAN_MEDIUM) return NULL;
  heap->waiting = span->next;
  return span;
}

// The span of a block that another thread has freed; NULL if none was found.
RTM_INLINE struct span *take_freed(struct heap *heap, bool recorded) {
  if (!heap->hints.stash_bits) {
    hint_fill_stash(&heap->hints);
    return NULL;
  }
  struct span *span = hint_take_stashed(&heap->hints);
  if (!span || !take_remote(span)) return NULL;
  if (recorded) note_gone(heap, span->length);
  return span;
}

// What comes before a span is taken: one thing, as each is work enough for one operation. What the next operations need
// of the arena comes first (see segment_must_prepare); then, as many blocks come back as go out, as long as other
// threads have freed any. Returns the span of one of these, or NULL.
RTM_INLINE struct span *prepare(struct heap *heap, bool recorded) {
  if (RTM_LIKELY(heap->spare_ready)) {
    if (RTM_UNLIKELY(arena_describes_few())) {
      arena_describe();
      return NULL;
    }
    if (segment_must_extend(heap)) {
      segment_extend(heap);
      return NULL;
    }
  } else if (!segment_has_whole(heap)) {
    if (RTM_LIKELY(!heap->spare)) {
      heap->spare = arena_take_mapped();
      heap->spare_ready = true;
    } else {
      segment_map_spare(heap);
    }
    return NULL;
  }
  // (What is in the stash makes the longest operations. What comes back has its place in the hint tree.)
  if (RTM_UNLIKELY(heap->hints.stash_bits != 0) || RTM_UNLIKELY(hint_pending(&heap->hints))) {
    if (RTM_UNLIKELY(segment_must_shrink(heap)) && !hint_must_grow(&heap->hints, SPAN_MEDIUM)) {
      segment_shrink(heap);
      return NULL;
    }
    struct span *freed = take_freed(heap, recorded);
    if (freed) return freed;
  } else if (RTM_UNLIKELY(heap->waiting) && !hint_must_grow(&heap->hints, SPAN_MEDIUM)) {
    return take_waiting(heap);
  }
  if (hint_must_grow(&heap->hints, SPAN_MEDIUM)) hint_grow(&heap->hints, SPAN_MEDIUM);
  return NULL;
}

// A block that another thread has freed makes room for the next: its span if that is long enough, else its place in the
// hint tree.
RTM_INLINE void *take_for_freed(struct heap *heap, struct span *freed, uint32_t length, bool recorded) {
  if (freed->length >= length) {
    if (freed->length > length) segment_shorten(heap, freed, length, false);
    return start_attached(heap, freed, false, recorded);
  }
  struct hint_word *hint = freed->hint;
  uint64_t bit = freed->hint_bit;
  unsigned joined;
  struct span *span = segment_join(heap, freed, freed->length, &joined);
  if (span->length < length) {
    segment_insert_dirty(heap, span);
    span = NULL;
  }
  bool zero;
  span = segment_take(heap, span, length, &zero);
  if (RTM_UNLIKELY(!span)) {
    hint_vacate(hint, bit);
    return NULL;
  }
  hint_pass(hint, bit, span);
  return start_attached(heap, span, zero, recorded);
}

RTM_INLINE void *take(struct heap *heap, size_t size, bool recorded) {
  uint32_t length = granules_for(size);
  struct span *freed = prepare(heap, recorded);
  if (freed) return take_for_freed(heap, freed, length, recorded);
  bool zero;
  struct span *span = segment_take(heap, NULL, length, &zero);
  return RTM_LIKELY(span != NULL) ? start(heap, span, zero, recorded) : NULL;
}

static RTM_NOINLINE void *take_recorded(struct heap *heap, size_t size) { return take(heap, size, true); }

void *medium_malloc_unusual(struct heap *heap, size_t size) {
  if (heap->stores) return extent_large(heap, size);
  // Of rtm_no_heap: the thread has none yet, or operations are counted.
  void *block = heap->record ? take_recorded(heap, size) : NULL;
  return block ? block : medium_out_of_memory(size);
}

void *medium_malloc(struct heap *heap, size_t size) {
  return is_recorded(heap) ? take_recorded(heap, size) : take(heap, size, false);
}

void *medium_malloc_or(struct heap *heap, size_t size) {
  void *block = take(heap, size, false);
  return RTM_LIKELY(block != NULL) ? block : medium_out_of_memory(size);
}

void *medium_aligned(struct heap *heap, size_t size, size_t alignment) {
  uint32_t length = granules_for(size), unit = (uint32_t)(alignment >> GRANULE_SHIFT);
  if (length + unit - 1 > MEDIUM_GRANULES_MAX) return NULL;
  struct span *freed = prepare(heap, is_recorded(heap));
  if (freed) medium_release(heap, freed);
  bool zero;
  struct span *span = segment_take(heap, NULL, length + unit - 1, &zero);
  if (span) span = align_span(heap, span, length, unit, zero);
  return span ? start(heap, span, zero, is_recorded(heap)) : NULL;
}

// Too much free memory goes back in the same operation: what this span has become if joining it with its neighbours was
// work enough, else the longest span.
static RTM_NOINLINE void release_and_shrink(struct heap *heap, struct span *span) {
  unsigned joined;
  span = release(heap, span, &joined);
  if (RTM_UNLIKELY(segment_must_shrink_early(heap))) {
    if (joined) {
      segment_shrink_by(heap, span);
    } else {
      segment_insert_dirty(heap, span);
      segment_shrink(heap);
    }
  } else {
    segment_insert_dirty(heap, span);
    if (RTM_UNLIKELY(arena_must_shrink()) && !joined) arena_shrink();
  }
}

void medium_free(struct heap *heap, struct span *span, void *block) {
  if (RTM_UNLIKELY(block != span->start)) message_misuse(block, "invalid free", "the pointer lies inside a block");
  if (RTM_UNLIKELY(RTM_READ_RELAXED(*(uint64_t *)&span->remote[0])))
    message_misuse(block, "double free", "the block was freed before, by another thread");
  if (RTM_UNLIKELY(heap->unusual)) {
    if (heap->stores) {
      extent_give_medium(heap, span);
      return;
    }
    note_gone(heap, span->length);
  }
  release_and_shrink(heap, span);
}

void medium_collect(struct heap *heap, struct span *span) {
  if (!take_remote(span)) return;
  segment_wait(heap, span);
  if (is_recorded(heap)) note_gone(heap, span->length);
}

static RTM_NOINLINE bool resize(struct heap *heap, struct span *span, uint32_t length) {
  size_t had = (size_t)span->length << GRANULE_SHIFT;
  if (length > span->length && !segment_grow(heap, span, length)) return false;
  if (length < span->length) segment_shorten(heap, span, length, false);
  if (RTM_UNLIKELY(heap->record != NULL)) {
    // In this order: a prepared heap has both blocks for a while.
    record_large(heap->record, (size_t)span->length << GRANULE_SHIFT);
    record_large_gone(heap->record, had);
  }
  return true;
}

bool medium_resize(struct heap *heap, struct span *span, size_t size) {
  if (size > MEDIUM_MAX) return false;
  uint32_t length = granules_for(size);
  if (SECURE_VARIANT && !secure_may_resize()) return length == span->length;
  if (RTM_UNLIKELY(heap->stores != NULL)) return size <= EXTENT_MAX && extent_resize(heap, span, length);
  return resize(heap, span, length);
}

void local_free(struct heap *heap, struct span *span, void *block) {
  if (DEBUG_VARIANT) check_free(span, block);
  if (span->kind == SPAN_MEDIUM) {
    medium_free(heap, span, block);
  } else if (span_tag(span) & TAG_SLOW) {
    page_free_full(heap, span, block);
  } else {
    if (SECURE_VARIANT) {
      secure_put(span, block);
    } else {
      *(void **)block = span->free;
      span->free = block;
    }
    if (--span->used == 0) page_emptied(heap, span);
  }
}
