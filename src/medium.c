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

// The span is in use from now on; it has its place in the hint tree.
RTM_INLINE void *start(struct heap *heap, struct span *span, bool zero) {
  span->used = 1;
  span->reciprocal = 0;
  span->flags = zero ? MEDIUM_ZERO : 0;
  if (SECURE_VARIANT) secure_guard(span);
  span_set_tag(span, (uintptr_t)heap | TAG_SLOW);
  if (!span->start) __builtin_unreachable();
  return span->start;
}

// The place in the hint tree. Where it was the last, the next operation sees to more.
RTM_INLINE void attach(struct heap *heap, struct span *span, struct hint_leaf *leaf) {
  hint_attach_to(leaf, span);
  if (hint_must_grow(&heap->hints, SPAN_MEDIUM) && heap->spare_state) heap->spare_state = SPARE_AND_MORE;
}

static RTM_COLD bool attach_late(struct heap *heap, struct span *span) {
  if (!hint_vacant(&heap->hints, SPAN_MEDIUM) && !hint_late(&heap->hints, SPAN_MEDIUM)) {
    segment_give(heap, span, span->used ? span->length : 0);
    return false;
  }
  attach(heap, span, hint_vacant(&heap->hints, SPAN_MEDIUM));
  return true;
}

static RTM_COLD void *span_out_of_memory(uint32_t length) {
  return medium_out_of_memory((size_t)(length - span_guard()) << GRANULE_SHIFT);
}

static RTM_COLD void *start_late(struct heap *heap, struct span *span, uint32_t length) {
  return attach_late(heap, span) ? start(heap, span, span->used == 0) : span_out_of_memory(length);
}

// A span that was just taken.
RTM_INLINE void *attach_and_start(struct heap *heap, struct span *span, uint32_t length) {
  struct hint_leaf *leaf = hint_vacant(&heap->hints, SPAN_MEDIUM);
  if (RTM_UNLIKELY(!leaf)) return start_late(heap, span, length);
  attach(heap, span, leaf);
  return start(heap, span, span->used == 0);
}

// Gives the span back and returns it as it is now, free and not yet in a set.
RTM_INLINE struct span *release(struct heap *heap, struct span *span) {
  if (SECURE_VARIANT) secure_unguard(span);
  hint_detach(span);
  return segment_join(heap, span, segment_all(span));
}

static void note_gone(struct heap *heap, uint32_t length) {
  record_large_gone(heap->record, (size_t)length << GRANULE_SHIFT);
}
static void note_early(struct heap *heap, uint32_t length) {
  record_large_early(heap->record, (size_t)length << GRANULE_SHIFT);
}

void medium_release(struct heap *heap, struct span *span) { segment_insert_dirty(heap, release(heap, span)); }

// True if another thread has freed the block; it is this thread's again then.
RTM_INLINE bool take_remote(struct span *span) {
  // Acquire: what the freeing thread did with the block comes before its next use. Sequentially consistent: comes after
  // the hint was cleared.
  if (!atomic_load_explicit(&span->remote[0], memory_order_seq_cst)) return false;
  atomic_store_explicit(&span->remote[0], 0, memory_order_relaxed);
  return true;
}

// The span of a medium block that waits; NULL if none does, or a page before it.
RTM_INLINE struct span *take_waiting(struct heap *heap) {
  struct span *span = span_at(heap->waiting);
  if (RTM_LIKELY(span->kind != SPAN_MEDIUM)) return NULL;
  heap->waiting = span->next;
  return span;
}

// The span of a block that another thread has freed; NULL if none was found.
RTM_INLINE struct span *take_freed(struct heap *heap) {
  struct span *span = hint_take_medium(&heap->hints);
  return RTM_LIKELY(span != NULL) && take_remote(span) ? span : NULL;
}

// What the next operations need of the arena comes before anything else (see segment_must_extend).
RTM_INLINE bool must_prepare(const struct heap *heap) { return RTM_UNLIKELY(heap->spare_state != SPARE_READY); }
RTM_INLINE bool must_have_places(const struct heap *heap) { return hint_must_prepare(&heap->hints, SPAN_MEDIUM); }

RTM_INLINE bool has_more_to_prepare(const struct heap *heap) { return arena_describes_few() || must_have_places(heap); }
RTM_INLINE bool medium_waits(const struct heap *heap) { return span_at(heap->waiting)->kind == SPAN_MEDIUM; }

RTM_INLINE void prepare_spare(struct heap *heap) {
  if (RTM_LIKELY(!heap->spare)) {
    heap->spare = arena_take_mapped();
    segment_spare_mapped(heap);
  } else {
    segment_map_spare(heap);
  }
  heap->spare_state = has_more_to_prepare(heap) || medium_waits(heap) ? SPARE_AND_MORE : SPARE_READY;
}

RTM_INLINE void prepare_descriptors(struct heap *heap) {
  bool done = arena_describe();
  if (!(done && has_more_to_prepare(heap)) && !medium_waits(heap)) heap->spare_state = SPARE_READY;
}

RTM_INLINE void prepare_places(struct heap *heap, unsigned class) {
  bool done = hint_grow(&heap->hints, class);
  if (!(done && must_have_places(heap)) && !medium_waits(heap)) heap->spare_state = SPARE_READY;
}

static void release_waiting(struct heap *heap) {
  struct span *waited = take_waiting(heap);
  if (waited) medium_release(heap, waited);
  if (!medium_waits(heap)) heap->spare_state = SPARE_READY;
}

static void prepare(struct heap *heap) {
  if (!heap->spare_state)
    prepare_spare(heap);
  else if (arena_describes_few())
    prepare_descriptors(heap);
  else if (hint_must_share(&heap->hints))
    prepare_places(heap, 0);
  else if (hint_must_grow(&heap->hints, SPAN_MEDIUM))
    prepare_places(heap, SPAN_MEDIUM);
  else
    release_waiting(heap);
}

// One thing for the heap, where no other thread has freed a block.
RTM_INLINE void tend(struct heap *heap) {
  if (must_have_places(heap))
    hint_prepare(&heap->hints, SPAN_MEDIUM);
  else if (segment_must_extend(heap))
    segment_extend(heap);
  else if (RTM_UNLIKELY(segment_must_shrink(heap)))
    segment_shrink(heap);
}

// The rest of a span that another thread has freed goes back, to the system if there is too much.
RTM_INLINE void shorten_freed(struct heap *heap, struct span *span, uint32_t length) {
  struct span *rest = segment_split(span, length);
  if (!rest) return;
  segment_insert_or_shrink(heap, segment_join(heap, rest, segment_all(rest)));
}

// A span of this length serves a request of half of it or more as it is where another block waits: the time is for that
// one.
RTM_INLINE bool is_near(uint32_t length, uint32_t request) { return length - request <= length / 2; }

// The span of a freed block that is long enough.
static RTM_NOINLINE void *take_fitting(struct heap *heap, struct span *freed, uint32_t length) {
  if (heap->hints.stash_bits && is_near(freed->length, length)) {
    struct span *other = take_freed(heap);
    if (other) medium_release(heap, other);
  } else if (freed->length > length) {
    shorten_freed(heap, freed, length);
  }
  return start(heap, freed, false);
}

// The span gets the place in the hint tree of one that is gone.
RTM_INLINE void *pass_and_start(struct heap *heap, struct span *span, bool zero, struct hint_word *hint, uint64_t bit) {
  hint_pass(hint, bit, span);
  return start(heap, span, zero);
}

// Not all that is in segments is mapped, or there is no spare segment, or only part of one: what is mapped is locked,
// or the system refused memory.
static RTM_COLD void *take_carefully(struct heap *heap, uint32_t length) {
  bool zero;
  struct span *span = segment_take(heap, NULL, length, &zero);
  return span ? start_late(heap, span, length) : span_out_of_memory(length);
}

// The same where a block came back, whose place in the hint tree this is.
static RTM_COLD void *vacate_and_take(struct heap *heap, uint32_t length, struct hint_word *hint, uint64_t bit) {
  hint_vacate(hint, bit);
  return take_carefully(heap, length);
}

// The first part of a free span in no set.
RTM_INLINE void *take_part(struct heap *heap, struct span *span, uint32_t length, struct hint_word *hint,
                           uint64_t bit) {
  segment_take_part(heap, span, length);
  return pass_and_start(heap, span, span->used == 0, hint, bit);
}

static RTM_NOINLINE void *take_of_spare(struct heap *heap, uint32_t length, struct hint_word *hint, uint64_t bit) {
  if (RTM_UNLIKELY(!segment_spare_serves(heap))) return vacate_and_take(heap, length, hint, bit);
  struct span *span = segment_take_of_spare(heap, length);
  return pass_and_start(heap, span, span->used == 0, hint, bit);
}

static RTM_COLD void *release_and_take(struct heap *heap, struct span *freed, uint32_t length) {
  medium_release(heap, freed);
  return take_carefully(heap, length);
}

// A block that another thread has freed makes room for the next: its span if that is long enough, else its place in the
// hint tree. (The longest path. All calls are at an end, so that none costs the others their registers.)
static RTM_NOINLINE void *take_for_freed(struct heap *heap, struct span *freed, uint32_t length) {
  if (SECURE_VARIANT) secure_unguard(freed);
  if (freed->length >= length) return take_fitting(heap, freed, length);
  if (RTM_UNLIKELY(heap->partly_mapped)) return release_and_take(heap, freed, length);
  struct hint_word *hint = freed->hint;
  uint64_t bit = freed->hint_bit;
  struct span *span = segment_join(heap, freed, segment_all(freed));
  if (span->length < length) {
    segment_insert_dirty(heap, span);
    if (RTM_UNLIKELY(!segment_has_half(heap))) return take_of_spare(heap, length, hint, bit);
    span = segment_find(heap, length);
    if (RTM_UNLIKELY(!span)) return vacate_and_take(heap, length, hint, bit);
  }
  return take_part(heap, span, length, hint, bit);
}

static RTM_NOINLINE void *take_spare(struct heap *heap, uint32_t length) {
  if (RTM_UNLIKELY(!segment_spare_serves(heap))) return take_carefully(heap, length);
  return attach_and_start(heap, segment_take_of_spare(heap, length), length);
}

// Where no block came back, and half a segment is free in one piece.
RTM_INLINE void *take_anew(struct heap *heap, uint32_t length) {
  if (RTM_UNLIKELY(heap->partly_mapped)) return take_carefully(heap, length);
  struct span *span = segment_find(heap, length);
  if (RTM_UNLIKELY(!span)) return take_carefully(heap, length);
  segment_take_part(heap, span, length);
  return attach_and_start(heap, span, length);
}

RTM_INLINE void *take_prepared(struct heap *heap, uint32_t length) {
  return RTM_LIKELY(segment_has_half(heap)) ? take_anew(heap, length) : take_spare(heap, length);
}

static RTM_NOINLINE void *shrink_and_take(struct heap *heap, uint32_t length) {
  segment_shrink(heap);
  return take_anew(heap, length);
}

static RTM_NOINLINE void *take_usual(struct heap *heap, uint32_t length) { return take_anew(heap, length); }

static RTM_NOINLINE void *take_unfreed(struct heap *heap, uint32_t length) {
  if (RTM_UNLIKELY(!segment_has_half(heap))) return take_spare(heap, length);
  return RTM_UNLIKELY(segment_must_shrink(heap)) ? shrink_and_take(heap, length) : take_usual(heap, length);
}

static RTM_NOINLINE void *take_waited(struct heap *heap, uint32_t length) {
  struct span *waited = span_at(heap->waiting);
  if (RTM_UNLIKELY(waited->kind != SPAN_MEDIUM)) {
    heap->spare_state = SPARE_READY;
    return take_unfreed(heap, length);
  }
  heap->waiting = waited->next;
  if (RTM_LIKELY(!medium_waits(heap))) heap->spare_state = SPARE_READY;
  return take_for_freed(heap, waited, length);
}

static RTM_NOINLINE void *prepare_spare_and_take(struct heap *heap, uint32_t length) {
  prepare_spare(heap);
  return take_prepared(heap, length);
}
static RTM_NOINLINE void *prepare_descriptors_and_take(struct heap *heap, uint32_t length) {
  prepare_descriptors(heap);
  return take_prepared(heap, length);
}
static RTM_NOINLINE void *prepare_places_and_take(struct heap *heap, uint32_t length, unsigned class) {
  prepare_places(heap, class);
  return take_prepared(heap, length);
}

static RTM_NOINLINE void *prepare_and_take(struct heap *heap, uint32_t length) {
  if (!heap->spare_state) return prepare_spare_and_take(heap, length);
  if (arena_describes_few()) return prepare_descriptors_and_take(heap, length);
  if (hint_must_share(&heap->hints)) return prepare_places_and_take(heap, length, 0);
  if (hint_must_grow(&heap->hints, SPAN_MEDIUM)) return prepare_places_and_take(heap, length, SPAN_MEDIUM);
  return take_waited(heap, length);
}

// As many blocks come back as go out, as long as other threads have freed any.
void *medium_malloc_or(struct heap *heap, size_t size) {
  uint32_t length = granules_for(size);
  if (must_prepare(heap)) return prepare_and_take(heap, length);
  struct span *freed = take_freed(heap);
  return RTM_LIKELY(freed != NULL) ? take_for_freed(heap, freed, length) : take_unfreed(heap, length);
}

// While a profile is recorded: another block, only where an extent takes it back, too, as the first one, of `length`
// granules, serves `wanted` there.
static RTM_NOINLINE struct span *other_in_time(struct heap *heap, uint32_t length, uint32_t wanted) {
  struct span *other = extent_fits(length, wanted) ? take_freed(heap) : NULL;
  if (other) note_gone(heap, other->length);
  return other;
}

// The same in pieces, for what does more with the span: the first, before it is taken. Two blocks come back, as what is
// taken then is never one of them. `wanted`: granules that are asked for, where any block serves them. Returns the
// granules of the first, 0 if there was none.
RTM_INLINE uint32_t tend_or_release(struct heap *heap, uint32_t wanted) {
  if (RTM_UNLIKELY(must_prepare(heap))) {
    prepare(heap);
    return 0;
  }
  struct span *freed = take_freed(heap);
  if (!freed) {
    struct span *waited = take_waiting(heap);
    if (waited)
      medium_release(heap, waited);
    else
      tend(heap);
    return 0;
  }
  uint32_t length = freed->length;
  medium_release(heap, freed);
  struct span *other = RTM_UNLIKELY(heap->record != NULL) ? other_in_time(heap, length, wanted) : take_freed(heap);
  if (other) medium_release(heap, other);
  return length;
}

// `gone`: what came back for it counts until now. Another thread may be so late the next time.
static void record_taken(struct heap *heap, uint32_t length, uint32_t gone) {
  if (length) record_large(heap->record, (size_t)length << GRANULE_SHIFT);
  if (gone)
    note_gone(heap, gone);
  else
    record_in_time(heap->record);
}

RTM_INLINE void *finish(struct heap *heap, struct span *span, bool zero, uint32_t gone) {
  uint32_t length = span ? span->length : 0;
  void *block = span && attach_late(heap, span) ? start(heap, span, zero) : NULL;
  if (RTM_UNLIKELY(heap->record != NULL)) record_taken(heap, block ? length : 0, gone);
  return block;
}

void *medium_malloc(struct heap *heap, size_t size) {
  uint32_t length = granules_for(size), gone = tend_or_release(heap, length);
  bool zero = false;
  struct span *span = segment_take(heap, NULL, length, &zero);
  return finish(heap, span, zero, gone);
}

// Of rtm_no_heap: the thread has none yet, or operations are counted.
static RTM_NOINLINE void *take_unusual(struct heap *heap, size_t size) {
  void *block = heap != &rtm_no_heap ? medium_malloc(heap, size) : NULL;
  return block ? block : medium_out_of_memory(size);
}

void *medium_malloc_unusual(struct heap *heap, size_t size) {
  return heap->stores ? extent_large(heap, size) : take_unusual(heap, size);
}

void *medium_aligned(struct heap *heap, size_t size, size_t alignment) {
  uint32_t length = granules_for(size), unit = (uint32_t)(alignment >> GRANULE_SHIFT);
  if (length + unit - 1 > MEDIUM_GRANULES_MAX) return NULL;
  uint32_t gone = tend_or_release(heap, 0);
  bool zero = false;
  struct span *span = segment_take(heap, NULL, length + unit - 1, &zero);
  if (span) span = align_span(heap, span, length, unit, zero);
  return finish(heap, span, zero, gone);
}

// Too much free memory goes back in the same operation: where the span has free neighbours, it is what the span has
// become, as joining them was work enough, else the longest span.
RTM_INLINE void release_joined(struct heap *heap, struct span *span, struct segment_place place, struct span *after) {
  span = segment_join_with(heap, span, segment_all(span), place, after, true);
  if (RTM_LIKELY(segment_must_shrink_early(heap)))
    segment_shrink_by(heap, span);
  else
    segment_insert_dirty(heap, span);
}

RTM_INLINE void release_alone(struct heap *heap, struct span *span, struct segment_place place) {
  segment_insert_dirty(heap, segment_join_with(heap, span, segment_all(span), place, NULL, false));
  if (RTM_UNLIKELY(segment_must_shrink_early(heap)))
    segment_shrink(heap);
  else if (RTM_UNLIKELY(arena_must_shrink()))
    arena_shrink();
}

static RTM_NOINLINE void release_and_shrink(struct heap *heap, struct span *span) {
  if (SECURE_VARIANT) secure_unguard(span);
  hint_detach(span);
  struct segment_place place = segment_place(span);
  uint32_t index;
  struct span *after = segment_free_after(place, span->length);
  if (RTM_LIKELY(after != NULL) || segment_free_before(place, &index))
    release_joined(heap, span, place, after);
  else
    release_alone(heap, span, place);
}

static RTM_NOINLINE void free_unusual(struct heap *heap, struct span *span) {
  if (heap->record) note_gone(heap, span->length);
  release_and_shrink(heap, span);
}

void medium_free(struct heap *heap, struct span *span, void *block) {
  medium_check_free(span, block);
  if (RTM_UNLIKELY(heap->unusual)) {
    if (heap->stores)
      extent_give_medium(heap, span);
    else
      free_unusual(heap, span);
    return;
  }
  release_and_shrink(heap, span);
}

void medium_collect(struct heap *heap, struct span *span) {
  if (!take_remote(span)) return;
  segment_wait(heap, span);
  if (heap->spare_state) heap->spare_state = SPARE_AND_MORE;
  if (RTM_UNLIKELY(heap->record != NULL)) note_early(heap, span->length);
}

// In this order: a prepared heap has both blocks for a while.
static void record_resized(const struct heap *heap, uint32_t had, uint32_t has) {
  record_large(heap->record, (size_t)has << GRANULE_SHIFT);
  record_large_gone(heap->record, (size_t)had << GRANULE_SHIFT);
}

static RTM_NOINLINE void *shorten(struct heap *heap, struct span *span, uint32_t length) {
  CHECK_SCOPE();
  uint32_t had = span->length;
  if (length < had) segment_shorten(heap, span, length, false);
  if (RTM_UNLIKELY(heap->record != NULL)) record_resized(heap, had, span->length);
  return span->start;
}

// `after`: the free span behind, which is long enough.
static RTM_NOINLINE void *grow(struct heap *heap, struct span *span, struct span *after, uint32_t length) {
  CHECK_SCOPE();
  uint32_t had = span->length;
  segment_grow(heap, span, after, length);
  if (RTM_UNLIKELY(must_prepare(heap))) prepare(heap);
  if (RTM_UNLIKELY(heap->record != NULL)) record_resized(heap, had, span->length);
  return span->start;
}

// Not all that is in segments is mapped.
static RTM_COLD void *map_and_grow(struct heap *heap, struct span *span, struct span *after, size_t size, size_t had) {
  uint32_t length = granules_for(secure_pad(size));
  return segment_map_behind(span, length) ? grow(heap, span, after, length) : alloc_move(span->start, size, had);
}

// (Apart from what looks whether there is room, so that no path has both a growth and a move.)
static RTM_NOINLINE void *grow_or_move(struct heap *heap, struct span *span, size_t size, size_t had) {
  uint32_t length = granules_for(secure_pad(size));
  struct span *after = segment_room_behind(span, length);
  if (!after) return alloc_move(span->start, size, had);
  if (RTM_UNLIKELY(!segment_is_mapped(span, length))) return map_and_grow(heap, span, after, size, had);
  return grow(heap, span, after, length);
}

void *medium_resize(struct heap *heap, struct span *span, size_t size, size_t had) {
  size_t padded = secure_pad(size);
  uint32_t length = granules_for(padded);
  bool moves = padded > MEDIUM_MAX || (SECURE_VARIANT && !secure_may_resize() && length != span->length);
  if (RTM_UNLIKELY(heap->stores != NULL))
    return moves || padded > heap->stores->extent_max ? alloc_move(span->start, size, had)
                                                      : extent_resize(heap, span, size, had);
  if (moves) return alloc_move(span->start, size, had);
  return length > span->length ? grow_or_move(heap, span, size, had) : shorten(heap, span, length);
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
