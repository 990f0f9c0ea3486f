// Spans of a heap's own segments: taken from a TLSF, coalesced at once. Layer: above arena. Called by page, medium,
// heap. Taking and giving back are inlined into the two paths that use them; what is rare is in segment.c.
//
// Boundary tags (TLSF, section 4.4) are the table's entries at the first and last granule of each span. The free spans
// are in two sets (heap.h): those known to be zero (`used` == 0), and the others, of which `used` granules may hold old
// contents. Where in the span these are is not known.
#ifndef RTM_SEGMENT_H
#define RTM_SEGMENT_H

#include "mode.h"
#include "os/purge.h"

// ---- the rare part: segment.c ----

// A segment of the heap's own as one free span in no set, when no free span is long enough; NULL if out of memory.
struct span *segment_more(struct heap *heap);
// The same where no spare segment is ready: takes and maps one first.
RTM_COLD struct span *segment_late(struct heap *heap);
// The spare segment, which is ready, into the set.
void segment_extend(struct heap *heap);
// Takes and maps a spare segment; and the same in pieces, one for each call.
void segment_take_spare(struct heap *heap);
void segment_map_spare(struct heap *heap);
void segment_prepare_piece(struct heap *heap);
// A heap begins: its spare segment, and what the next one needs is described.
void segment_begin(struct heap *heap);
// The span is not mapped yet: maps it, or takes another that is; NULL if neither is possible.
struct span *segment_map(struct heap *heap, struct span *span, uint32_t dirty, uint32_t length, bool *zero);
// Gives a piece of free memory back: a whole segment to the arena, of a span the contents to the system.
void segment_shrink(struct heap *heap);
// Makes the span shorter at its end and gives the rest back (`zero`: it is known to be zero). Without effect if there
// is no descriptor left.
void segment_shorten(struct heap *heap, struct span *span, uint32_t length, bool zero);
// Gives the first `skip` granules back; returns the rest, or NULL (and changes nothing) if there is no descriptor left.
struct span *segment_skip(struct heap *heap, struct span *span, uint32_t skip, uint32_t dirty);
// Makes the span `length` granules long with the free span behind (segment_room_behind), as far as it is needed.
void segment_grow(struct heap *heap, struct span *span, struct span *after, uint32_t length);
// Maps what the segment needs for that; false if it cannot be.
bool segment_map_behind(const struct span *span, uint32_t length);
// Gives everything that is free back. O(free spans).
void segment_trim(struct heap *heap);

// The spare segment was mapped just now.
RTM_INLINE void segment_spare_mapped(const struct heap *heap) {
  if (RTM_UNLIKELY(rtm_arena.keeps)) arena_want_huge_pages(heap->spare, heap->segments);
}

// Free memory that a heap may keep: a quarter of what is live, more where memory that went back was needed again
// (segment_learn), and 3 MiB in any case; where the thread has exited, 1.25 MiB in the first six such heaps, and in
// others none of what is live but 64 KiB in the next 58. So a program in a steady state makes no system calls, and one
// that shrinks gives back. `keep` and `keep_of_live` follow from the purge mode and from how many heaps have no thread,
// this one included (segment_keep; 0: it has one). What was learned stays for the heap's next thread.
enum { ORPHANS_FEW = 6 };  // heaps without a thread that keep much
enum { ALL_OF_LIVE = 65536, LEAST_OF_LIVE = ALL_OF_LIVE / 4, MOST_OF_LIVE = ALL_OF_LIVE * 2, LESS_OF_LIVE = 64 };
RTM_INLINE bool segment_keeps_too_much(const struct heap *heap, uint64_t of_live) {
  return heap->dirty > RTM_READ_RELAXED(heap->keep) && heap->dirty > heap->live * of_live / ALL_OF_LIVE;
}
// Lets the heap keep 1 MiB more in any case until it changes hands, of 2 MiB that all heaps share; if there is any
// left.
void segment_borrow(struct heap *heap);
// There is too much free memory, and memory that held nothing was taken since it last learned: what goes back is needed
// again. Then the heap may keep twice as much of what is live, and borrows, and nothing goes back this time. Each time
// that something goes back makes the part of what is live a little less again. True if nothing is to go back.
RTM_INLINE bool segment_learn(struct heap *heap) {
  if (RTM_LIKELY(heap->keep_of_live - 1 >= heap->learn_below)) return false;
  heap->learn_below = 0;
  heap->keep_of_live *= 2;
  segment_borrow(heap);
  return true;
}
// Not a mere question: it may learn, and then says no.
RTM_INLINE bool segment_must_shrink(struct heap *heap) {
  return segment_keeps_too_much(heap, heap->keep_of_live) && RTM_LIKELY(!segment_learn(heap));
}
// Where a medium block is freed: each free gives back one span, and what is left of blocks as long as half a segment is
// not much longer than they are. So this must begin early.
RTM_INLINE bool segment_must_shrink_early(const struct heap *heap) {
  return segment_keeps_too_much(heap, heap->keep_of_live_least);
}
void segment_keep(struct heap *heap, uint32_t orphans);
// Nothing goes back, and nothing is taken ahead.
void segment_keep_all(struct heap *heap);
// The arena gives nothing back any more (PURGE_NEVER): for any thread's heap, in the middle of an operation or not.
void segment_keep_from_now(struct heap *heap);

// ---- descriptors ----

// One in the same segment; NULL if all are in use (then a span is not split).
RTM_INLINE struct span *segment_descriptor(struct segment *s) {
  struct span *span = s->unused;
  if (RTM_UNLIKELY(span != NULL)) {
    s->unused = span->free;
    return span;
  }
  if (RTM_UNLIKELY(s->first_unused == SEGMENT_GRANULES)) return NULL;
  size_t at = s->first_unused;
  s->first_unused = (uint16_t)(at + 1);
  return (struct span *)((char *)s + (at << SPAN_SHIFT)) - SEGMENT_SLOT;
}

RTM_INLINE void segment_release_descriptor(struct segment *s, struct span *span) {
  span->kind = SPAN_NONE;
  span->free = s->unused;
  s->unused = span;
}

RTM_INLINE void segment_set_ends(const struct span *span) {
  uint32_t *table = rtm_window_table + window_granule(span->start), index = span_index(span);
  table[0] = index;
  table[span->length - 1] = index;
}

// ---- free spans ----

// tlsf_list_of and tlsf_list_for by table, for lengths of 0 to 1024 granules; filled by segment_init.
struct segment_lists {
  uint8_t of, for_request;
};
RTM_HIDDEN extern struct segment_lists rtm_segment_lists[SEGMENT_GRANULES + 1];
void segment_init(void);

RTM_INLINE void segment_insert(struct heap *heap, struct span *span) {
  uint64_t list = rtm_segment_lists[span->length].of;
  tlsf_insert(&heap->spans, RTM_LIKELY(span->used) ? SPANS_DIRTY + list : list, span);
}

RTM_INLINE void segment_insert_dirty(struct heap *heap, struct span *span) {
  tlsf_insert(&heap->spans, SPANS_DIRTY + (uint64_t)rtm_segment_lists[span->length].of, span);
}

RTM_INLINE struct span *segment_take_clean(struct heap *heap, uint32_t word, uint64_t bits) {
  heap->learn_below = MOST_OF_LIVE / 2;
  return tlsf_take_from(&heap->spans, word, bits);
}

// What holds memory already is taken first. Each set has two words of lists; written out, as every instruction counts.
RTM_INLINE struct span *segment_find(struct heap *heap, uint32_t length) {
  enum { CLEAN = SPANS_CLEAN / 64, DIRTY = SPANS_DIRTY / 64 };
  struct tlsf *t = &heap->spans;
  uint32_t list = rtm_segment_lists[length].for_request;
  uint64_t mask = ~UINT64_C(0) << (list % 64), bits;
  if (RTM_LIKELY(list < 64)) {
    if (RTM_UNLIKELY((bits = t->bits[DIRTY] & mask) != 0)) return tlsf_take_from(t, DIRTY, bits);
    if (RTM_UNLIKELY((bits = t->bits[DIRTY + 1]) != 0)) return tlsf_take_from(t, DIRTY + 1, bits);
    if (RTM_UNLIKELY((bits = t->bits[CLEAN] & mask) != 0)) return segment_take_clean(heap, CLEAN, bits);
    if (RTM_LIKELY((bits = t->bits[CLEAN + 1]) != 0)) return segment_take_clean(heap, CLEAN + 1, bits);
  } else {
    if ((bits = t->bits[DIRTY + 1] & mask)) return tlsf_take_from(t, DIRTY + 1, bits);
    if ((bits = t->bits[CLEAN + 1] & mask)) return segment_take_clean(heap, CLEAN + 1, bits);
  }
  return NULL;
}

// The last list of each set is that of whole segments.
enum {
  // With a guard, spans that are nearly whole are in the list, too.
  LIST_OF_WHOLE = SEGMENT_GUARD ? 5 * TLSF_SECOND + (SEGMENT_USED >> 5) : 6 * TLSF_SECOND + (SEGMENT_GRANULES >> 6),
  LIST_OF_HALF = 5 * TLSF_SECOND + (SEGMENT_GRANULES >> 6),
};
_Static_assert(LIST_OF_WHOLE / 64 == SPANS_WORDS - 1 && LIST_OF_HALF / 64 == SPANS_WORDS - 1,
               "in each set's last word");

RTM_INLINE bool segment_has_whole(const struct heap *heap) {
  return (heap->spans.bits[SPANS_CLEAN / 64 + 1] | heap->spans.bits[SPANS_DIRTY / 64 + 1]) >> (LIST_OF_WHOLE % 64);
}

// No operation has to wait for the arena. After any operation the heap has a spare segment, or half a segment free in
// one piece, which is the most that a medium block needs: where no spare is ready, the next medium block's operation
// takes and maps one, and where no half is free, the next one is served from the spare, or adds it to what is free
// (medium.c). Pages are longer work and smaller: what they need is prepared by the operations between them, in pieces.
// Before there is a spare again, each of the 72 classes may need a page: of the shortest, 333 granules, and four more,
// for that many pieces (docs/bounded-work.md).
//
// Whether half a segment is free in one piece.
RTM_INLINE bool segment_has_half(const struct heap *heap) {
  return (heap->spans.bits[SPANS_CLEAN / 64 + 1] | heap->spans.bits[SPANS_DIRTY / 64 + 1]) >> (LIST_OF_HALF % 64);
}
// Where growing counts as a miss, it waits for the need.
RTM_INLINE bool segment_must_extend(const struct heap *heap) {
  return RTM_UNLIKELY(!segment_has_half(heap)) && heap->spare && !rtm_mode_watches;
}
// The spare segment is there, and mapped whole: but where the system refused memory, or what is mapped is locked.
RTM_INLINE bool segment_spare_serves(const struct heap *heap) {
  return heap->spare_state && heap->spare && !rtm_mode_watches && segment_at(heap->spare)->mapped >= SEGMENT_USED;
}
// Nothing is ahead but part of a segment.
RTM_INLINE bool segment_is_urgent(const struct heap *heap) {
  return RTM_UNLIKELY(!heap->spare_state) && !segment_has_whole(heap);
}

// Cuts the span after `length` granules; the rest is a free span, clean and not in a set. NULL if there are no
// descriptors. The table has the ends of both.
RTM_INLINE struct span *segment_split(struct span *span, uint32_t length) {
  struct span *rest = segment_descriptor(segment_of(span));
  if (RTM_UNLIKELY(!rest)) return NULL;
  uint32_t *table = rtm_window_table + window_granule(span->start);
  uint32_t whole = span->length, rest_index = span_index(rest);
  table[length - 1] = table[0];
  table[length] = rest_index;
  table[whole - 1] = rest_index;
  span->length = length;
  rest->start = span->start + ((size_t)length << GRANULE_SHIFT);
  rest->kind = SPAN_FREE;  // (its tag is TAG_NONE, as that of any descriptor that is not in use)
  rest->used = 0;
  rest->length = whole - length;
  return rest;
}

// What stays free of a dirty span of which `taken` granules were cut off in front.
RTM_INLINE uint32_t segment_leave_dirty(struct span *rest, uint32_t dirty, uint32_t taken) {
  rest->used = RTM_LIKELY(dirty > taken) ? dirty - taken : 0;
  return rest->used;
}

RTM_INLINE bool segment_is_mapped(const struct span *span, uint32_t length) {
  return span_granule(span) % SEGMENT_GRANULES + length <= segment_of(span)->mapped;
}

// The first `length` granules of a free span in no set become one in use; the rest is free again. Returns as many
// granules as it has to count as dirty when it is given back untouched.
RTM_INLINE uint32_t segment_take_part(struct heap *heap, struct span *span, uint32_t length) {
  uint32_t dirty = span->used, whole = span->length;
  if (whole > length) {
    struct span *rest = segment_split(span, length);
    if (RTM_LIKELY(rest != NULL)) {
      dirty -= segment_leave_dirty(rest, dirty, length);
      segment_insert(heap, rest);
      whole = length;
    }
  }
  heap->dirty -= dirty;
  heap->live += whole;
  span->kind = SPAN_MEDIUM;  // in use, whatever the caller makes of it
  return dirty;
}

// The first `length` granules of the spare segment, which is ready, and mapped whole. (segment_more and
// segment_take_part in one, for the longest path: what is the same in each new segment is not looked up.)
RTM_INLINE struct span *segment_take_of_spare(struct heap *heap, uint32_t length) {
  uint32_t first = heap->spare * SEGMENT_GRANULES, index = first + FIRST_SPAN_SLOT, *table = rtm_window_table + first;
  struct segment *s = segment_at(heap->spare);
  struct span *span = span_at(index), *rest = (struct span *)((char *)span + SPAN_SIZE);
  heap->spare = 0;
  heap->spare_state = SPARE_UNREADY;
  heap->segments++;
  s->first_unused = FIRST_SPAN_SLOT + 2;
  __atomic_store_n(&s->heap, heap, __ATOMIC_RELAXED);
  table[0] = table[length - 1] = index;
  table[length] = table[SEGMENT_USED - 1] = index + 1;
  uint32_t dirty = s->retained;  // what was mapped before may hold old contents
  char *start = granule_address(first);
  span->start = start;
  span->length = length;
  span->used = dirty;
  span->kind = SPAN_MEDIUM;
  rest->start = start + ((size_t)length << GRANULE_SHIFT);
  rest->length = SEGMENT_USED - length;
  rest->kind = SPAN_FREE;
  heap->dirty += segment_leave_dirty(rest, dirty, length);
  heap->live += length;
  segment_insert(heap, rest);
  return span;
}

// As segment_take, but the memory may not be mapped yet. `*dirty`: see segment_take_part.
RTM_INLINE struct span *segment_take_unmapped(struct heap *heap, struct span *span, uint32_t length, uint32_t *dirty) {
  if (!span) span = segment_find(heap, length);
  if (RTM_UNLIKELY(!span)) {
    span = segment_more(heap);
    if (!span) return NULL;
  }
  *dirty = segment_take_part(heap, span, length);
  return span;
}

// A span of `length` granules (1..512), mapped; the caller sets its kind, tag, table entries and the rest. NULL if out
// of memory. `*zero`: its contents are known to be zero. O(1). `span`: a free one in no set to take it from, or NULL.
RTM_INLINE struct span *segment_take(struct heap *heap, struct span *span, uint32_t length, bool *zero) {
  uint32_t dirty;
  span = segment_take_unmapped(heap, span, length, &dirty);
  if (RTM_UNLIKELY(!span)) return NULL;
  *zero = span->used == 0;
  if (RTM_LIKELY(!heap->partly_mapped) || segment_is_mapped(span, length)) return span;
  return segment_map(heap, span, dirty, length, zero);
}

// A span's place: its offset within its segment, and its entry in the table.
struct segment_place {
  uint32_t offset, *table;
};
RTM_INLINE struct segment_place segment_place(const struct span *span) {
  uint32_t granule = span_granule(span);
  return (struct segment_place){granule % SEGMENT_GRANULES, rtm_window_table + granule};
}

// The free span behind the `length` granules there, or before them, and its index; NULL if there is none.
RTM_INLINE struct span *segment_free_after(struct segment_place place, uint32_t length) {
  if (RTM_UNLIKELY(place.offset + length >= SEGMENT_USED)) return NULL;
  struct span *after = span_at(place.table[length]);
  return RTM_LIKELY(after->kind == SPAN_FREE) ? after : NULL;
}
RTM_INLINE struct span *segment_free_before(struct segment_place place, uint32_t *index) {
  if (RTM_UNLIKELY(!place.offset)) return NULL;
  *index = place.table[-1];
  struct span *before = span_at(*index);
  return RTM_LIKELY(before->kind == SPAN_FREE) ? before : NULL;
}

// The free span behind, with which the span can become `length` granules long; NULL if there is none.
RTM_INLINE struct span *segment_room_behind(const struct span *span, uint32_t length) {
  struct segment_place place = segment_place(span);
  struct span *after = segment_free_after(place, span->length);
  bool fits = after && place.offset + length <= SEGMENT_USED && after->length >= length - span->length;
  return fits ? after : NULL;
}

// Gives a span back, of which the first `dirty` granules may hold memory. Returns it as it is now, in no set yet, and
// joined with its free neighbours: with `after`, which may be NULL, and if `look` with the one before. `place`: its
// own. The table's entries where they meet stay as they are: they lead to descriptors without an owner. O(1). What is
// likely here is what makes the longest operations: it has no jumps.
RTM_INLINE struct span *segment_join_with(struct heap *heap, struct span *span, uint32_t dirty,
                                          struct segment_place place, struct span *after, bool look) {
  uint32_t length = span->length, *table = place.table;
  struct segment *s = segment_of(span);
  heap->live -= length;
  uint32_t dirty_before = 0;  // of the neighbours
  span_set_tag(span, TAG_NONE);
  if (RTM_LIKELY(after != NULL)) {
    tlsf_remove(&heap->spans, after);
    dirty_before = after->used;
    if (after->used) dirty = length + after->used;
    if (after->used && !dirty) __builtin_unreachable();
    length += after->length;
    segment_release_descriptor(s, after);
  }
  uint32_t index = 0;
  struct span *before = look ? segment_free_before(place, &index) : NULL;
  if (RTM_LIKELY(before != NULL)) {
    tlsf_remove(&heap->spans, before);
    table -= before->length;
    length += before->length;
    dirty_before += before->used;
    dirty = dirty ? dirty + before->length : before->used;
    segment_release_descriptor(s, span);
    span = before;
  } else {
    span->kind = SPAN_FREE;
    index = span_index(span);
  }
  table[0] = index;
  table[length - 1] = index;
  heap->dirty += dirty - dirty_before;
  span->used = dirty;
  span->length = length;
  return span;
}

RTM_INLINE struct span *segment_join(struct heap *heap, struct span *span, uint32_t dirty) {
  struct segment_place place = segment_place(span);
  return segment_join_with(heap, span, dirty, place, segment_free_after(place, span->length), true);
}

// The same where all of the span may hold memory: not short of a granule, and so not zero.
RTM_INLINE uint32_t segment_all(const struct span *span) {
  if (!span->length) __builtin_unreachable();
  return span->length;
}

RTM_INLINE void segment_give(struct heap *heap, struct span *span, uint32_t dirty) {
  segment_insert(heap, segment_join(heap, span, dirty));
}

// Spans whose last block was found free by an operation that had no time to release them: a later one does. Whoever
// comes across one sees a page or medium block that belongs to nobody.
RTM_INLINE void segment_wait(struct heap *heap, struct span *span) {
  span->flags = SPAN_WAITS;
  span_set_tag(span, TAG_NONE);
  span->next = heap->waiting;
  heap->waiting = span_index(span);
}

// ---- memory that goes back ----

// The whole segment is free, and not in a set. (What is left in the table leads to descriptors that say so.)
RTM_INLINE void segment_disown(struct heap *heap, struct span *span) {
  heap->dirty -= span->used;
  heap->segments--;
  arena_give_segment(segment_of_granule(span_index(span)), segment_of(span));
}

// The contents of a span have gone back; it is in no set.
RTM_INLINE void segment_insert_clean(struct heap *heap, struct span *span) {
  heap->dirty -= span->used;
  span->used = 0;
  tlsf_insert(&heap->spans, SPANS_CLEAN + (uint64_t)rtm_segment_lists[span->length].of, span);
}
RTM_INLINE void segment_purged(struct heap *heap, struct span *span) {
  if (heap->keep_of_live > heap->keep_of_live_least) heap->keep_of_live -= LESS_OF_LIVE;
  segment_insert_clean(heap, span);
}

// The same where not all that is in segments is mapped, or the system does not take the contents, as memory is locked:
// whole segments are all that can go then. Cold.
void segment_purge_unusual(struct heap *heap, struct span *span);

RTM_INLINE bool segment_purge_contents(const struct span *span) {
  size_t bytes = (size_t)span->length << GRANULE_SHIFT;
  if (RTM_UNLIKELY(os_purge((uintptr_t)span->start, bytes) != 0)) return false;
  atomic_fetch_add_explicit(&rtm_arena.bytes_purged, bytes, memory_order_relaxed);
  return true;
}

// Gives the contents of a free span back that is in no set.
RTM_INLINE void segment_purge(struct heap *heap, struct span *span) {
  if (RTM_UNLIKELY(RTM_READ_RELAXED(heap->purges_unusually)) || RTM_UNLIKELY(!segment_purge_contents(span)))
    segment_purge_unusual(heap, span);
  else
    segment_purged(heap, span);
}

// Gives back this span, which is free and not in a set.
RTM_INLINE void segment_shrink_by(struct heap *heap, struct span *span) {
  // Where the arena has enough, the segment stays: its contents are what counts. And where no spare one is ready: it
  // may be all that the next operation has.
  if (span->length == SEGMENT_USED && arena_has_room() && heap->spare_state) {
    segment_disown(heap, span);
  } else {
    segment_purge(heap, span);
  }
}

// A free span that is in no set goes back where there is too much, else into the set of those that hold memory.
RTM_INLINE void segment_insert_or_shrink(struct heap *heap, struct span *span) {
  if (RTM_LIKELY(segment_must_shrink(heap)))
    segment_shrink_by(heap, span);
  else
    segment_insert_dirty(heap, span);
}

#endif
