// See segment.h. Boundary tags (TLSF, section 4.4) are the table's entries at the first and last granule of each span.
#include "segment.h"

enum {
  DIRTY_FLOOR = SEGMENT_GRANULES,  // free memory that a heap may hold in any case: 4 MiB
  PURGE_SPAN_LEAST = 16,           // granules: smaller spans are not worth a system call
};

static void set_ends(const struct span *span, uint32_t value) {
  uint32_t *first = rtm_window_table + span_granule(span);
  first[0] = value;
  first[span->length - 1] = value;
}

static struct segment *own_segment(const struct span *span) { return segment_at(segment_of_granule(span_granule(span))); }

// A descriptor in the same segment; NULL if all are in use (then a span is not split).
static struct span *new_descriptor(uint32_t segment) {
  struct segment *s = segment_at(segment);
  if (s->unused) {
    struct span *span = span_at(s->unused);
    s->unused = span->next;
    return span;
  }
  if (s->first_unused == SEGMENT_GRANULES) return NULL;
  return segment_slot(segment, s->first_unused++);
}

static void release_descriptor(struct segment *s, struct span *span) {
  span->kind = SPAN_NONE;
  span->next = s->unused;
  s->unused = span_index(span);
}

// Cuts the span after `length` granules; the rest is a free span, not yet in the TLSF. NULL if there are no descriptors.
static struct span *split(struct span *span, uint32_t length) {
  struct span *rest = new_descriptor(segment_of_granule(span_granule(span)));
  if (!rest) return NULL;
  rest->start = span->start + ((size_t)length << GRANULE_SHIFT);
  rest->length = span->length - length;
  rest->kind = SPAN_FREE;
  rest->tag = TAG_NONE;
  rest->used = 0;
  span->length = length;
  set_ends(span, span_index(span));
  set_ends(rest, span_index(rest));
  return rest;
}

// A fresh segment as one free span, not in the TLSF.
static struct span *take_segment(struct heap *heap) {
  uint32_t dirty, segment = arena_take_segment(&dirty);
  if (!segment) return NULL;
  segment_at(segment)->heap = heap;
  heap->segments++;
  heap->dirty += dirty;
  struct span *span = new_descriptor(segment);
  span->start = granule_address(segment * SEGMENT_GRANULES);
  span->length = SEGMENT_GRANULES;
  span->kind = SPAN_FREE;
  span->used = dirty;
  set_ends(span, span_index(span));
  return span;
}

static void give_segment(struct heap *heap, struct span *span) {
  uint32_t segment = segment_of_granule(span_granule(span));
  heap->dirty -= span->used;
  set_ends(span, 0);
  span->kind = SPAN_NONE;
  heap->segments--;
  arena_give_segment(segment);
}

static void purge(struct heap *heap, struct span *span) {
  uint32_t segment_end = (segment_of_granule(span_granule(span)) * SEGMENT_GRANULES) + own_segment(span)->mapped;
  uint32_t end = span_granule(span) + span->length;
  if (end > segment_end) end = segment_end;
  if (end <= span_granule(span)) return;
  size_t bytes = (size_t)(end - span_granule(span)) << GRANULE_SHIFT;
  if (!os_purge((uintptr_t)span->start, bytes)) return;
  atomic_fetch_add_explicit(&rtm_arena.bytes_purged, bytes, memory_order_relaxed);
  heap->dirty -= span->used;
  span->used = 0;
}

// Free memory that may be kept: a quarter of what is live, and a segment in any case. So a program in a steady state
// makes no system calls, and one that shrinks gives back.
static bool too_much_dirty(const struct heap *heap) {
  if (rtm_arena.purge == PURGE_LAZY) return heap->dirty > DIRTY_FLOOR && heap->dirty > heap->live / 4;
  return rtm_arena.purge == PURGE_EAGER;
}

// There is too much: the span's memory goes back, and an older free segment, if there is one.
static RTM_NOINLINE void shrink(struct heap *heap, struct span *span) {
  struct tlsf_list whole = tlsf_list_of(SEGMENT_GRANULES);
  uint32_t older = heap->spans.head[whole.f][whole.s];
  if (older) {
    struct span *segment = span_at(older);
    tlsf_remove(&heap->spans, segment);
    give_segment(heap, segment);
  }
  if (span->length == SEGMENT_GRANULES && heap->segments > 1) {
    give_segment(heap, span);
    return;
  }
  if (span->used >= PURGE_SPAN_LEAST) purge(heap, span);
  tlsf_insert(&heap->spans, span);
}

// Where in a span its dirty granules are is not known: what stays free is dirty as far as it can be, so that a span with
// no dirty granules is certainly zero.
static uint32_t leave_dirty(struct span *rest, uint32_t dirty) {
  rest->used = dirty < rest->length ? dirty : rest->length;
  return rest->used;
}

struct span *segment_take_span(struct heap *heap, uint32_t length, bool *zero) {
  struct span *span = tlsf_take(&heap->spans, length);
  if (!span) {
    span = take_segment(heap);
    if (!span) return NULL;
  }
  uint32_t dirty = span->used;
  *zero = dirty == 0;
  if (span->length > length) {
    struct span *rest = split(span, length);
    if (rest) {
      dirty -= leave_dirty(rest, dirty);
      tlsf_insert(&heap->spans, rest);
    }
  }
  heap->dirty -= dirty;
  heap->live += span->length;
  span->kind = SPAN_MEDIUM;  // in use, whatever the caller makes of it
  uint32_t end = span_granule(span) % SEGMENT_GRANULES + span->length;
  if (RTM_UNLIKELY(end > own_segment(span)->mapped) && !arena_map(segment_of_granule(span_granule(span)), end)) {
    segment_give_span(heap, span, dirty);
    return NULL;
  }
  return span;
}

static struct span *free_before(const struct span *span) {
  if (span_granule(span) % SEGMENT_GRANULES == 0) return NULL;
  struct span *before = span_of(span_granule(span) - 1);
  return before->kind == SPAN_FREE ? before : NULL;
}

static struct span *free_after(const struct span *span) {
  uint32_t end = span_granule(span) + span->length;
  if (end % SEGMENT_GRANULES == 0) return NULL;
  struct span *after = span_of(end);
  return after->kind == SPAN_FREE ? after : NULL;
}

// Joins two neighbours into the lower one and clears the table between them.
static void join(struct segment *s, struct span *low, struct span *high) {
  uint32_t *boundary = rtm_window_table + span_granule(high);
  boundary[-1] = 0;
  boundary[0] = 0;
  low->length += high->length;
  low->used += high->used;
  release_descriptor(s, high);
  set_ends(low, span_index(low));
}

void segment_give_span(struct heap *heap, struct span *span, uint32_t dirty) {
  struct segment *s = own_segment(span);
  heap->live -= span->length;
  heap->dirty += dirty;
  span_set_tag(span, TAG_NONE);
  span->kind = SPAN_FREE;
  span->used = dirty;
  set_ends(span, span_index(span));
  struct span *after = free_after(span), *before = free_before(span);
  if (after) {
    tlsf_remove(&heap->spans, after);
    join(s, span, after);
  }
  if (before) {
    tlsf_remove(&heap->spans, before);
    join(s, before, span);
    span = before;
  }
  if (RTM_UNLIKELY(too_much_dirty(heap)))
    shrink(heap, span);
  else
    tlsf_insert(&heap->spans, span);
}

void segment_shrink_span(struct heap *heap, struct span *span, uint32_t length, bool zero) {
  struct span *rest = split(span, length);
  if (!rest) return;
  // As if it had been a span in use that is given back.
  segment_give_span(heap, rest, zero ? 0 : rest->length);
}

struct span *segment_skip(struct heap *heap, struct span *span, uint32_t skip, uint32_t dirty) {
  struct span *rest = split(span, skip);
  if (!rest) return NULL;
  rest->kind = SPAN_MEDIUM;
  segment_give_span(heap, span, dirty);
  return rest;
}

bool segment_grow_span(struct heap *heap, struct span *span, uint32_t length) {
  struct span *after = free_after(span);
  uint32_t more = length - span->length;
  if (!after || after->length < more) return false;
  uint32_t end = span_granule(span) % SEGMENT_GRANULES + length;
  if (end > own_segment(span)->mapped && !arena_map(segment_of_granule(span_granule(span)), end)) return false;
  tlsf_remove(&heap->spans, after);
  uint32_t dirty = after->used;
  if (after->length > more) {
    struct span *rest = split(after, more);
    if (rest) {
      dirty -= leave_dirty(rest, dirty);
      tlsf_insert(&heap->spans, rest);
    }
  }
  heap->dirty -= dirty;
  heap->live += after->length;
  uint32_t used = span->used;
  join(own_segment(span), span, after);
  span->used = used;
  return true;
}

void segment_purge_all(struct heap *heap) {
  for (uint32_t f = 0; f < TLSF_FIRST; f++)
    for (uint32_t s = 0; s < TLSF_SECOND; s++)
      for (uint32_t i = heap->spans.head[f][s]; i; i = span_at(i)->next)
        if (span_at(i)->used) purge(heap, span_at(i));
  struct tlsf_list whole = tlsf_list_of(SEGMENT_GRANULES);
  for (uint32_t i; (i = heap->spans.head[whole.f][whole.s]) != 0;) {
    tlsf_remove(&heap->spans, span_at(i));
    give_segment(heap, span_at(i));
  }
}
