// See segment.h.
#include "segment.h"

struct segment_lists rtm_segment_lists[SEGMENT_GRANULES + 1];

void segment_init(void) {
  for (uint32_t length = 0; length <= SEGMENT_GRANULES; length++) {
    rtm_segment_lists[length].of = (uint8_t)tlsf_list_of(length);
    rtm_segment_lists[length].for_request = (uint8_t)tlsf_list_for(length);
  }
}

// ---- segments ----

enum { SHARED = SEGMENT_GRANULES / 2, LOAN = SEGMENT_GRANULES / 4 };
static _Atomic uint32_t lent;

void segment_borrow(struct heap *heap) {
  if (atomic_fetch_add_explicit(&lent, LOAN, memory_order_relaxed) <= SHARED - LOAN) {
    heap->keep += LOAN;
    heap->borrowed += LOAN;
  } else {
    atomic_fetch_sub_explicit(&lent, LOAN, memory_order_relaxed);
  }
}

void segment_keep(struct heap *heap, uint32_t orphans) {
  enum { FLOOR = SEGMENT_GRANULES * 3 / 4 };
  // A few orphans keep what a program that starts threads again and again needs; of many, each keeps little.
  enum { OF_FEW = SEGMENT_GRANULES * 5 / 16, MANY = 64, OF_MANY = SEGMENT_GRANULES / 64 };
  atomic_fetch_sub_explicit(&lent, heap->borrowed, memory_order_relaxed);
  heap->borrowed = 0;
  // Of those whose classes keep their pages: a full-grown one for each, as the next thread asks for such again.
  uint32_t of_few = heap->keeps_class_pages ? CLASSES * PAGE_GRANULES_MAX : OF_FEW;
  heap->keep = !orphans ? FLOOR : orphans <= ORPHANS_FEW ? of_few : orphans <= MANY ? OF_MANY : 0;
  if (heap->keep_of_live) heap->learned = heap->keep_of_live;
  if (heap->learned < LEAST_OF_LIVE) heap->learned = LEAST_OF_LIVE;
  heap->keep_of_live = orphans <= ORPHANS_FEW ? heap->learned : 0;
  heap->keep_of_live_least = orphans <= ORPHANS_FEW ? LEAST_OF_LIVE : 0;
  if (rtm_arena.purge == PURGE_NEVER) heap->keep = UINT32_MAX;
  if (rtm_arena.purge == PURGE_EAGER) heap->keep = 0, heap->keep_of_live = heap->keep_of_live_least = 0;
  if (heap->record && !orphans) segment_keep_all(heap);  // as what is made of its profile
}

void segment_keep_all(struct heap *heap) { heap->keep = UINT32_MAX; }

void segment_keep_from_now(struct heap *heap) {
  RTM_WRITE_RELAXED(rtm_arena.purge_refused, true);
  RTM_WRITE_RELAXED(heap->purges_unusually, true);
  // Saves the way there. Its owner may be writing it, too, and win.
  RTM_WRITE_RELAXED(heap->keep, UINT32_MAX);
}

// Segments are mapped whole if that is possible; if not, segment_map does what is.
void segment_map_spare(struct heap *heap) {
  bool taken;
  if (!segment_at(heap->spare)->mapped) {
    arena_map(heap->spare, 1, &taken);
    segment_spare_mapped(heap);
  }
  heap->spare_state = SPARE_READY;
}

static void set_spare(struct heap *heap, uint32_t segment) {
  heap->spare = segment;
  segment_spare_mapped(heap);
  heap->spare_state = SPARE_READY;  // or out of memory: segment_more tries again
}

void segment_take_spare(struct heap *heap) {
  if (heap->spare)
    segment_map_spare(heap);
  else
    set_spare(heap, arena_take_mapped());
}

// There is one.
RTM_INLINE struct span *use_spare(struct heap *heap) {
  uint32_t segment = heap->spare;
  heap->spare = 0;
  heap->spare_state = SPARE_UNREADY;
  struct segment *s = segment_at(segment);
  uint32_t first = segment * SEGMENT_GRANULES, index = first + s->first_unused++;
  struct span *span = span_at(index);
  rtm_window_table[first] = rtm_window_table[first + SEGMENT_USED - 1] = index;
  heap->segments++;
  if (RTM_UNLIKELY(s->mapped < SEGMENT_USED)) heap->partly_mapped = heap->purges_unusually = true;
  uint32_t dirty = s->retained;  // what was mapped before may hold old contents
  heap->dirty += dirty;
  span->start = granule_address(first);
  span->length = SEGMENT_USED;
  span->used = dirty;
  __atomic_store_n(&s->heap, heap, __ATOMIC_RELAXED);
  return span;
}

void segment_begin(struct heap *heap) {
  if (heap->spare)
    segment_map_spare(heap);
  else
    set_spare(heap, arena_take_first());
  while (arena_describes_few() && arena_describe()) continue;
}

void segment_extend(struct heap *heap) {
  struct span *span = use_spare(heap);
  span->kind = SPAN_FREE;
  segment_insert(heap, span);
}

void segment_prepare_piece(struct heap *heap) {
  bool done = true;
  if (RTM_UNLIKELY(arena_describes_few()))
    done = arena_describe();
  else if (!heap->spare)
    done = (heap->spare = arena_take_segment()) != 0;
  else
    segment_map_spare(heap);
  if (RTM_UNLIKELY(!done)) heap->spare_state = SPARE_READY;  // out of memory: segment_more tries again
}

RTM_COLD struct span *segment_late(struct heap *heap) {
  if (!rtm_mode_watches)
    atomic_fetch_add_explicit(&rtm_arena.late, 1, memory_order_relaxed);
  else if (!mode_miss_memory(heap, GRANULE_SIZE))
    return NULL;
  // (None though it is ready: the system gave none when it was prepared, and may give one now.)
  if (!heap->spare_state || !heap->spare) segment_take_spare(heap);
  if (heap->spare) return use_spare(heap);
  heap->spare_state = SPARE_UNREADY;
  return NULL;
}

struct span *segment_more(struct heap *heap) {
  if (RTM_UNLIKELY(rtm_mode_watches) || RTM_UNLIKELY(!heap->spare_state) || RTM_UNLIKELY(!heap->spare))
    return segment_late(heap);
  return use_spare(heap);
}

// ---- memory that goes back ----

// The part of the span that is mapped.
static uint32_t mapped_length(const struct span *span) {
  uint32_t at = span_granule(span) % SEGMENT_GRANULES, mapped = segment_of(span)->mapped;
  if (mapped <= at) return 0;
  return mapped - at < span->length ? mapped - at : span->length;
}

// Whole segments are all that can go then, and not the one that the next operation may need.
static void refuse(struct heap *heap, struct span *span) {
  RTM_WRITE_RELAXED(rtm_arena.purge_refused, true);
  heap->purges_unusually = true;
  if (span->length == SEGMENT_USED && segment_has_half(heap))
    segment_disown(heap, span);
  else
    segment_insert_dirty(heap, span);
}

RTM_COLD void segment_purge_unusual(struct heap *heap, struct span *span) {
  // (Linux would pass over what is not mapped, and do the rest; qemu-user does nothing then.)
  size_t bytes = (size_t)mapped_length(span) << GRANULE_SHIFT;
  long done = RTM_READ_RELAXED(rtm_arena.purge_refused) ? -EINVAL : os_purge((uintptr_t)span->start, bytes);
  if (done && done != -ENOMEM) {
    refuse(heap, span);
    return;
  }
  atomic_fetch_add_explicit(&rtm_arena.bytes_purged, bytes, memory_order_relaxed);
  segment_purged(heap, span);
}

// The longest dirty span.
void segment_shrink(struct heap *heap) {
  enum { FIRST = SPANS_DIRTY / 64, SECOND = FIRST + 1 };
  struct tlsf *t = &heap->spans;
  if (t->bits[SECOND])
    segment_purge(heap, tlsf_take_longest(t, SECOND, t->bits[SECOND]));
  else if (t->bits[FIRST])
    segment_purge(heap, tlsf_take_longest(t, FIRST, t->bits[FIRST]));
}

static void disown_all(struct heap *heap, uint32_t list) {
  for (struct span *next, *whole = heap->spans.head[list]; whole; whole = next) {
    next = whole->free_next;
    if (whole->length < SEGMENT_USED) continue;
    tlsf_remove(&heap->spans, whole);
    segment_disown(heap, whole);
  }
}

void segment_trim(struct heap *heap) {
  for (uint32_t before = heap->dirty + 1; heap->dirty && heap->dirty < before;) {  // the same: refused
    before = heap->dirty;
    segment_shrink(heap);
  }
  disown_all(heap, SPANS_CLEAN + LIST_OF_WHOLE);
  disown_all(heap, SPANS_DIRTY + LIST_OF_WHOLE);
  if (heap->spare) arena_give_segment(heap->spare, segment_at(heap->spare));
  heap->spare = 0;
  heap->spare_state = SPARE_UNREADY;
}

// ---- mapping ----

static bool map(const struct span *span, bool *taken) {
  uint32_t granule = span_granule(span);
  return arena_map(segment_of_granule(granule), granule % SEGMENT_GRANULES + span->length, taken);
}

// Joins the free span behind to this one, which is in use.
static void absorb(struct heap *heap, struct span *span, struct span *after) {
  tlsf_remove(&heap->spans, after);
  heap->dirty -= after->used;
  heap->live += after->length;
  uint32_t *table = rtm_window_table + span_granule(span);
  table[span->length - 1] = 0;
  table[span->length] = 0;
  span->length += after->length;
  segment_set_ends(span);
  segment_release_descriptor(segment_of(span), after);
}

// Somebody else has mapped something in a segment that the heap has not used yet: nobody will.
static void lose(struct heap *heap, struct span *span) {
  heap->live -= span->length;
  heap->segments--;
  span->kind = SPAN_NONE;
  __atomic_store_n(&segment_of(span)->heap, NULL, __ATOMIC_RELAXED);
  rtm_arena.segments_in_use--;
}

// The end of a segment cannot be mapped: the whole of it is put aside, as there may be a free span elsewhere that is
// mapped. At most one segment in each call has such an end, if not the system's limits change meanwhile.
static RTM_COLD struct span *take_elsewhere(struct heap *heap, struct span *failed, uint32_t dirty, bool taken,
                                            uint32_t length, bool *zero, unsigned attempts) {
  uint32_t granule = span_granule(failed);
  if (granule % SEGMENT_GRANULES + failed->length < SEGMENT_USED) {
    struct span *after = span_of(granule + failed->length);
    if (after->kind == SPAN_FREE) {
      if (after->used) dirty = failed->length + after->used;
      absorb(heap, failed, after);
    }
  }
  if (taken && failed->length == SEGMENT_USED) {
    lose(heap, failed);
    failed = NULL;
  }
  uint32_t other_dirty;
  struct span *other = segment_take_unmapped(heap, NULL, length, &other_dirty);
  if (other) {
    *zero = other->used == 0;
    if (!segment_is_mapped(other, other->length) && !map(other, &taken)) {
      if (attempts) {
        other = take_elsewhere(heap, other, other_dirty, taken, length, zero, attempts - 1);
      } else {
        segment_give(heap, other, other_dirty);
        other = NULL;
      }
    }
  }
  if (failed) segment_give(heap, failed, dirty);
  return other;
}

struct span *segment_map(struct heap *heap, struct span *span, uint32_t dirty, uint32_t length, bool *zero) {
  enum { ATTEMPTS = 8 };
  bool taken;
  return RTM_LIKELY(map(span, &taken)) ? span : take_elsewhere(heap, span, dirty, taken, length, zero, ATTEMPTS);
}

// ---- other lengths ----

void segment_shorten(struct heap *heap, struct span *span, uint32_t length, bool zero) {
  struct span *rest = segment_split(span, length);
  if (!rest) return;
  // As if it had been a span in use that is given back.
  segment_give(heap, rest, zero ? 0 : rest->length);
}

struct span *segment_skip(struct heap *heap, struct span *span, uint32_t skip, uint32_t dirty) {
  struct span *rest = segment_split(span, skip);
  if (!rest) return NULL;
  rest->kind = SPAN_MEDIUM;
  segment_give(heap, span, dirty);
  return rest;
}

bool segment_map_behind(const struct span *span, uint32_t length) {
  uint32_t granule = span_granule(span);
  bool taken;
  return arena_map(segment_of_granule(granule), granule % SEGMENT_GRANULES + length, &taken);
}

void segment_grow(struct heap *heap, struct span *span, struct span *after, uint32_t length) {
  uint32_t more = length - span->length;
  if (after->length > more) {
    tlsf_remove(&heap->spans, after);
    struct span *rest = segment_split(after, more);
    if (rest) {
      heap->dirty -= after->used - segment_leave_dirty(rest, after->used, more);
      after->used = 0;
      segment_insert(heap, rest);
    }
    segment_insert(heap, after);
  }
  absorb(heap, span, after);
}
