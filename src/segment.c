// See segment.h. Boundary tags (TLSF, section 4.4) are the table's entries at the first and last granule of each span.
#include "segment.h"

enum {
  DIRTY_FLOOR = SEGMENT_GRANULES * 3 / 4,  // granules of free memory that a heap may hold in any case: 3 MiB
  DIRTY_ORPHAN = SEGMENT_GRANULES / 8,     // and one without a thread: 512 KiB
  PURGE_SPAN_LEAST = 16,                   // granules: smaller spans are not worth a system call
};

static uint32_t *table_at(const struct span *span) { return rtm_window_table + window_granule(span->start); }

static void set_ends(const struct span *span, uint32_t value) {
  uint32_t *table = table_at(span);
  table[0] = value;
  table[span->length - 1] = value;
}

// A pointer in a segment leads to the segment's number, and to its record.
static uint32_t segment_number(const struct span *span) {
  return segment_of_granule((uint32_t)window_granule(span->start));
}
static struct segment *own_segment(const struct span *span) { return segment_at(segment_number(span)); }

// A descriptor in the same segment; NULL if all are in use (then a span is not split).
RTM_INLINE struct span *new_descriptor(uint32_t segment) {
  struct segment *s = segment_at(segment);
  if (s->unused) {
    struct span *span = span_at(s->unused);
    s->unused = span->next;
    return span;
  }
  if (s->first_unused == SEGMENT_GRANULES) return NULL;
  return segment_slot(segment, s->first_unused++);
}

RTM_INLINE void release_descriptor(struct segment *s, struct span *span) {
  span->kind = SPAN_NONE;
  span->next = s->unused;
  s->unused = span_index(span);
}

// Cuts the span after `length` granules; the rest is a free span, not yet in the TLSF. NULL if there are no
// descriptors.
RTM_INLINE struct span *split(struct span *span, uint32_t length) {
  uint32_t granule = span_granule(span), whole = span->length;
  struct span *rest = new_descriptor(segment_of_granule(granule));
  if (!rest) return NULL;
  uint32_t *table = rtm_window_table + granule, index = span_index(span), rest_index = span_index(rest);
  rest->start = span->start + ((size_t)length << GRANULE_SHIFT);
  rest->length = whole - length;
  rest->kind = SPAN_FREE;
  rest->tag = TAG_NONE;
  rest->used = 0;
  span->length = length;
  table[0] = index;
  table[length - 1] = index;
  table[length] = rest_index;
  table[whole - 1] = rest_index;
  return rest;
}

// A fresh segment as one free span, not in the TLSF.
static struct span *take_segment(struct heap *heap) {
  uint32_t dirty, segment = arena_take_segment(&dirty);
  if (!segment) return NULL;
  __atomic_store_n(&segment_at(segment)->heap, heap, __ATOMIC_RELAXED);
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
  uint32_t segment = segment_number(span);
  heap->dirty -= span->used;
  set_ends(span, 0);
  span->kind = SPAN_NONE;
  heap->segments--;
  arena_give_segment(segment);
}

static void purge(struct heap *heap, struct span *span) {
  uint32_t offset = span_granule(span) % SEGMENT_GRANULES, mapped = own_segment(span)->mapped;
  uint32_t end = offset + span->length < mapped ? offset + span->length : mapped;
  if (end <= offset) return;
  size_t bytes = (size_t)(end - offset) << GRANULE_SHIFT;
  if (!os_purge((uintptr_t)span->start, bytes)) {
    rtm_arena.purge_refused = true;
    return;
  }
  atomic_fetch_add_explicit(&rtm_arena.bytes_purged, bytes, memory_order_relaxed);
  heap->dirty -= span->used;
  span->used = 0;
}

// Free memory that may be kept: a quarter of what is live, and 3 MiB in any case; 512 KiB where the thread has exited.
// So a program in a steady state makes no system calls, and one that shrinks gives back.
RTM_INLINE bool too_much_dirty(const struct heap *heap) {
  if (RTM_LIKELY(heap->dirty <= DIRTY_ORPHAN)) return rtm_arena.purge == PURGE_EAGER;
  if (rtm_arena.purge == PURGE_LAZY)
    return !heap_has_thread(heap) || (heap->dirty > DIRTY_FLOOR && heap->dirty > heap->live / 4);
  return rtm_arena.purge == PURGE_EAGER;
}

// ---- free spans: in the TLSF, and, if enough of the span is dirty, in a list by age ----

// A free span's `private` words hold its place in the list; all are zero when it is in none.
enum { OLDER, NEWER, LISTED };

RTM_INLINE void insert_free(struct heap *heap, struct span *span) {
  tlsf_insert(&heap->spans, span);
  if (span->used < PURGE_SPAN_LEAST) return;
  uint32_t newest = heap->dirty_newest, index = span_index(span);
  span->private[OLDER] = newest;
  span->private[LISTED] = 1;
  if (newest)
    span_at(newest)->private[NEWER] = index;
  else
    heap->dirty_oldest = index;
  heap->dirty_newest = index;
}

RTM_INLINE void forget_dirty(struct heap *heap, struct span *span) {
  if (!span->private[LISTED]) return;
  uint32_t older = (uint32_t)span->private[OLDER], newer = (uint32_t)span->private[NEWER];
  span->private[OLDER] = 0;
  span->private[NEWER] = 0;
  span->private[LISTED] = 0;
  if (older)
    span_at(older)->private[NEWER] = newer;
  else
    heap->dirty_oldest = newer;
  if (newer)
    span_at(newer)->private[OLDER] = older;
  else
    heap->dirty_newest = older;
}

RTM_INLINE void remove_free(struct heap *heap, struct span *span) {
  tlsf_remove(&heap->spans, span);
  forget_dirty(heap, span);
}

static void shrink_once(struct heap *heap) {
  uint32_t index = heap->dirty_oldest;
  if (RTM_UNLIKELY(rtm_arena.purge_refused)) {
    struct tlsf_list whole = tlsf_list_of(SEGMENT_GRANULES);
    index = heap->spans.head[whole.f][whole.s];
  }
  if (!index) return;
  struct span *oldest = span_at(index);
  forget_dirty(heap, oldest);
  if (oldest->length == SEGMENT_GRANULES && (heap->segments > 1 || !heap_has_thread(heap))) {
    tlsf_remove(&heap->spans, oldest);
    give_segment(heap, oldest);
  } else if (!rtm_arena.purge_refused) {
    purge(heap, oldest);
  }
}

// There is too much: the oldest goes back, and one more, so that a surplus from better days goes as well.
static RTM_NOINLINE void shrink(struct heap *heap) {
  shrink_once(heap);
  if (too_much_dirty(heap)) shrink_once(heap);
}

// Where in a span its dirty granules are is not known: what stays free is dirty as far as it can be, so that a span
// with no dirty granules is certainly zero.
static uint32_t leave_dirty(struct span *rest, uint32_t dirty) {
  rest->used = dirty < rest->length ? dirty : rest->length;
  return rest->used;
}

// As segment_take_span, but its memory may not be mapped yet. `*dirty`: as many granules as it has to count as dirty
// when it is given back untouched.
RTM_INLINE struct span *take_unmapped(struct heap *heap, uint32_t length, uint32_t *dirty, bool *zero) {
  struct span *span = tlsf_take(&heap->spans, length);
  if (RTM_LIKELY(span != NULL)) {
    forget_dirty(heap, span);
  } else {
    span = take_segment(heap);
    if (!span) return NULL;
  }
  *dirty = span->used;
  *zero = *dirty == 0;
  if (span->length > length) {
    struct span *rest = split(span, length);
    if (rest) {
      *dirty -= leave_dirty(rest, *dirty);
      insert_free(heap, rest);
    }
  }
  heap->dirty -= *dirty;
  heap->live += span->length;
  span->kind = SPAN_MEDIUM;  // in use, whatever the caller makes of it
  return span;
}

static bool is_mapped(const struct span *span) {
  return span_granule(span) % SEGMENT_GRANULES + span->length <= own_segment(span)->mapped;
}

static bool map_span(const struct span *span) {
  uint32_t granule = span_granule(span);
  return arena_map(segment_of_granule(granule), granule % SEGMENT_GRANULES + span->length);
}

// Joins the free span behind to this one, which is in use.
static void absorb(struct heap *heap, struct span *span, struct span *after) {
  remove_free(heap, after);
  heap->dirty -= after->used;
  heap->live += after->length;
  uint32_t *table = table_at(span);
  table[span->length - 1] = 0;
  table[span->length] = 0;
  span->length += after->length;
  table[0] = span_index(span);
  table[span->length - 1] = span_index(span);
  release_descriptor(own_segment(span), after);
}

// The end of a segment cannot be mapped: the whole of it is put aside, as there may be a free span elsewhere that is
// mapped. At most one segment in each call has such an end, if not the system's limits change meanwhile.
static RTM_COLD struct span *take_elsewhere(struct heap *heap, struct span *failed, uint32_t dirty, uint32_t length,
                                            bool *zero, unsigned attempts) {
  uint32_t granule = span_granule(failed);
  if (granule % SEGMENT_GRANULES + failed->length < SEGMENT_GRANULES) {
    struct span *after = span_of(granule + failed->length);
    if (after->kind == SPAN_FREE) {
      dirty += after->used;
      absorb(heap, failed, after);
    }
  }
  uint32_t other_dirty;
  struct span *other = take_unmapped(heap, length, &other_dirty, zero);
  if (other && !is_mapped(other) && !map_span(other)) {
    if (attempts) {
      other = take_elsewhere(heap, other, other_dirty, length, zero, attempts - 1);
    } else {
      segment_give_span(heap, other, other_dirty);
      other = NULL;
    }
  }
  segment_give_span(heap, failed, dirty);
  return other;
}

struct span *segment_take_span(struct heap *heap, uint32_t length, bool *zero) {
  enum { ATTEMPTS = 8 };
  uint32_t dirty;
  struct span *span = take_unmapped(heap, length, &dirty, zero);
  if (RTM_UNLIKELY(!span)) return NULL;
  if (RTM_LIKELY(is_mapped(span)) || map_span(span)) return span;
  return take_elsewhere(heap, span, dirty, length, zero, ATTEMPTS);
}

void segment_give_span(struct heap *heap, struct span *span, uint32_t dirty) {
  uint32_t granule = span_granule(span), length = span->length, offset = granule % SEGMENT_GRANULES;
  uint32_t *table = rtm_window_table + granule;
  struct segment *s = segment_at(segment_of_granule(granule));
  heap->live -= length;
  heap->dirty += dirty;
  if (offset + length < SEGMENT_GRANULES) {
    struct span *after = span_at(table[length]);
    if (after->kind == SPAN_FREE) {
      remove_free(heap, after);
      table[length - 1] = 0;
      table[length] = 0;
      length += after->length;
      dirty += after->used;
      release_descriptor(s, after);
    }
  }
  if (offset > 0) {
    struct span *before = span_at(table[-1]);
    if (before->kind == SPAN_FREE) {
      remove_free(heap, before);
      table[-1] = 0;
      table[0] = 0;
      table -= before->length;
      length += before->length;
      dirty += before->used;
      release_descriptor(s, span);
      span_set_tag(span, TAG_NONE);
      span = before;
    }
  }
  uint32_t index = span_index(span);
  table[0] = index;
  table[length - 1] = index;
  span_set_tag(span, TAG_NONE);
  span->kind = SPAN_FREE;
  span->length = length;
  span->used = dirty;
  insert_free(heap, span);
  if (RTM_UNLIKELY(too_much_dirty(heap))) shrink(heap);
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
  uint32_t granule = span_granule(span), more = length - span->length;
  uint32_t end = granule % SEGMENT_GRANULES + length;
  if (end > SEGMENT_GRANULES) return false;
  struct span *after = span_of(granule + span->length);
  if (after->kind != SPAN_FREE || after->length < more) return false;
  if (end > own_segment(span)->mapped && !arena_map(segment_number(span), end)) return false;
  if (after->length > more) {
    remove_free(heap, after);
    struct span *rest = split(after, more);
    if (rest) {
      heap->dirty -= after->used - leave_dirty(rest, after->used);
      after->used = 0;
      insert_free(heap, rest);
    }
    insert_free(heap, after);
  }
  absorb(heap, span, after);
  return true;
}

void segment_purge_all(struct heap *heap) {
  for (uint32_t f = 0; f < TLSF_FIRST; f++)
    for (uint32_t l = 0; l < TLSF_SECOND; l++)
      for (uint32_t next, i = heap->spans.head[f][l]; i; i = next) {
        struct span *span = span_at(i);
        next = span->next;
        forget_dirty(heap, span);
        if (span->length == SEGMENT_GRANULES) {
          tlsf_remove(&heap->spans, span);
          give_segment(heap, span);
        } else if (span->used) {
          purge(heap, span);
        }
      }
}
