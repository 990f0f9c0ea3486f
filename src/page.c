// See page.h; the equations of a page are in span.h.
#include "page.h"

#include "extent.h"
#include "medium.h"
#include "page_parts.h"
#include "record.h"
#include "remote.h"
#include "segment.h"

// ---- a page's life ----

// An empty page, in no queue. Where there is too much free memory, what its span has become goes back with it.
RTM_INLINE void release(struct heap *heap, struct span *page) {
  if (SECURE_VARIANT) secure_unguard(page);
  hint_detach(page);
  heap->pages[page->kind]--;
  segment_insert_or_shrink(heap, segment_join(heap, page, segment_all(page)));
}

// Apart, as a call in between would cost the other path its registers.
static RTM_NOINLINE void release_usual(struct heap *heap, struct span *page) { release(heap, page); }
static RTM_NOINLINE void release_recorded(struct heap *heap, struct span *page) {
  record_page_gone(heap->record, page);
  release(heap, page);
}

RTM_INLINE void page_release(struct heap *heap, struct span *page) {
  if (RTM_UNLIKELY(heap->record != NULL))
    release_recorded(heap, page);
  else
    release_usual(heap, page);
}

RTM_INLINE void release_queued(struct heap *heap, struct span *page) {
  page_dequeue(heap, page);
  page_release(heap, page);
}

static void release_waiting(struct heap *heap) {
  struct span *span = span_at(heap->waiting);
  heap->waiting = span->next;
  if (span->kind == SPAN_MEDIUM)
    medium_release(heap, span);
  else
    page_release(heap, span);
}

void page_release_waiting(struct heap *heap) {
  if (heap->waiting) release_waiting(heap);
}

// Operations: what is done now and then, or left out now and then, is so in one of them. (The secure variant has a hand
// of up to 64 blocks between two of them, the others a list of eight: so it does more in each.)
enum { ROUND = SECURE_VARIANT ? 4 : 8 };

static void release_idle(struct heap *heap, unsigned class) {
  struct span *page = page_take_idle(heap, class);
  if (!page) return;
  if (RTM_UNLIKELY(heap->record != NULL)) record_idle(heap->record, page);
  segment_wait(heap, page);
}

// What an operation leaves to be done for the heap as a whole is done by a later one that has little to do itself: one
// piece in each, so that no operation is much longer than its own work. The kinds:
//   release  an empty page or medium block that waits
//   shrink   free memory goes back to the system                             (segment_must_shrink, arena_must_shrink)
//   prepare  a free segment, and memory for nodes of the hint trees          (segment.h, hint.h)
//   idle     an empty current page waits to be released
//   collect  what other threads have freed, in any class
//
// Preparing comes before anything else: what operations need has to be there before them (docs/bounded-work.md).
RTM_INLINE bool is_urgent(const struct heap *heap, unsigned class) {
  return hint_must_prepare(&heap->hints, class) || segment_is_urgent(heap);
}

RTM_INLINE void prepare(struct heap *heap, unsigned class) {
  if (segment_is_urgent(heap))
    segment_prepare_piece(heap);
  else
    hint_prepare(&heap->hints, class);
}

// True if there was any of the rest to do.
RTM_INLINE bool keep_house(struct heap *heap) {
  if (RTM_UNLIKELY(segment_must_shrink(heap)))
    segment_shrink(heap);
  else if (RTM_UNLIKELY(arena_must_shrink()))
    arena_shrink();
  else if (segment_must_extend(heap))
    segment_extend(heap);
  else if (RTM_UNLIKELY(rtm_arena.unchecked))
    arena_see_locked();
  else
    return false;
  return true;
}

static RTM_NOINLINE void housekeep(struct heap *heap, unsigned class) {
  if (RTM_UNLIKELY(is_urgent(heap, class)))
    prepare(heap, class);
  else
    keep_house(heap);
}

RTM_INLINE bool has_no_use(const struct heap *heap, const struct span *page) {
  return !page_is_only(page) || !page_may_stay(heap, page);
}

// Of a heap that keeps its classes' pages, a class keeps this many, none longer than its second one was; more would be
// the sum of what each class ever needed.
enum { CLASS_KEEPS = 2 };

RTM_INLINE bool class_keeps(const struct heap *heap, const struct span *page) {
  return heap->keeps_class_pages && heap->keeps_pages && heap->pages[page->kind] <= CLASS_KEEPS &&
         page->length <= 2 * PAGE_GRANULES_MAX;
}

static RTM_NOINLINE void emptied_unusual(struct heap *heap, struct span *page) {
  if (class_keeps(heap, page)) return;
  if (!has_no_use(heap, page)) return;
  page_dequeue(heap, page);
  page_release(heap, page);
}

void page_emptied(struct heap *heap, struct span *page) {
  if (RTM_UNLIKELY(heap->unusual)) {
    if (heap->stores)
      extent_page_emptied(heap, page);
    else
      emptied_unusual(heap, page);
  } else if (has_no_use(heap, page)) {
    page_dequeue(heap, page);
    release_usual(heap, page);
  }
}

void page_free_full(struct heap *heap, struct span *page, void *block) {
  page_put_in_full(heap, page, block);
  if (RTM_LIKELY(!heap->stores)) housekeep(heap, page->kind);
}

// ---- blocks ----

// Blocks are linked at most eight at a time, a constant number (RT-Mimalloc, section VI.C), and as many as fit in a
// page of the system, so that little memory is touched before it is asked for.
enum { BATCH = 8 };
RTM_INLINE unsigned batch_of(unsigned class) {
  uint32_t size = rtm_shape[class].block_size;
  return GRANULE_SIZE / BATCH >= size ? BATCH : GRANULE_SIZE / size + 1;
}

// Collects one word, which is enough for one operation. `*blocks`: how many that brought.
enum found { NOTHING, ALL, MORE };
RTM_INLINE enum found collect(struct span *page, uint32_t *blocks) {
  *blocks = 0;
  if (SECURE_VARIANT) {
    uint32_t used = page->used;
    for (unsigned w = 0; w < REMOTE_WORDS; w++) page_collect_word(page, w);
    *blocks = used - page->used;
    return *blocks ? ALL : NOTHING;
  }
  // Whoever frees after this has been read raises the hint, which was lowered before.
  uint64_t bits, behind;
  unsigned w = page_first_remote(page, &bits, &behind);
  if (!bits) return NOTHING;
  *blocks = page_collect_one(page, w);
  return RTM_UNLIKELY(behind != 0) ? MORE : ALL;
}

// Collecting costs the freeing threads as much as the owner: both need the same cache lines. Where it brought less than
// LITTLE blocks, the next comes after REST bytes (remote.h) have been handed out. So what is left waiting is at most a
// quarter of each word of 64 blocks, and classes whose blocks are large have no rest.
enum { LITTLE = 16 };

RTM_INLINE void rest_after(struct heap *heap, uint32_t blocks) {
  if (blocks < LITTLE) heap->rest = REST;
}

RTM_INLINE void serve_again(struct heap *heap, struct span *page) {
  span_set_tag(page, (uintptr_t)heap);
  page_enqueue_again(heap, page);
}

// The page has more, and so is not empty: the next operation that collects need not look for it.
static RTM_NOINLINE void leave_more(struct heap *heap, struct span *page, uint32_t blocks) {
  hint_found(&heap->hints, page);
  rest_after(heap, blocks);
  if (page_is_full(page) && !page_is_current(heap, page)) serve_again(heap, page);
}

void page_collect_any(struct heap *heap, struct span *page) {
  uint32_t blocks;
  enum found found = collect(page, &blocks);
  if (RTM_UNLIKELY(found == MORE)) {
    leave_more(heap, page, blocks);
    return;
  }
  rest_after(heap, blocks);
  if (found == NOTHING || page_is_current(heap, page)) return;
  bool full = page_is_full(page);
  bool only = full ? !heap->queue[page->kind].head : page_is_only(page);
  if (!page->used && !(only && page_may_stay(heap, page))) {
    if (!full) page_dequeue(heap, page);
    hint_found_empty(&heap->hints, page);
    segment_wait(heap, page);
  } else if (full) {
    serve_again(heap, page);
  }
}

// A span that was taken becomes the current page. Its first block only is handed out, as this was work enough; the next
// operation extends it.
RTM_INLINE void *begin_at(struct heap *heap, unsigned class, struct span *page, struct hint_leaf *leaf) {
  hint_attach_to(leaf, page);
  page_begin(heap, class, page);
  page_set_table(span_granule(page), page->length, span_index(page));
  page_replace_current(heap, class, page);
  if (SECURE_VARIANT) secure_guard(page);
  return page_first_block(page);
}

static RTM_COLD void *begin_late(struct heap *heap, unsigned class, struct span *page) {
  if (hint_late(&heap->hints, class)) return begin_at(heap, class, page, heap->hints.class[class].vacant);
  segment_give(heap, page, page->used ? page->length : 0);
  return page_out_of_memory(class);
}

RTM_INLINE void *begin(struct heap *heap, unsigned class, struct span *page) {
  struct hint_leaf *leaf = hint_vacant(&heap->hints, class);
  return RTM_LIKELY(leaf != NULL) ? begin_at(heap, class, page, leaf) : begin_late(heap, class, page);
}

// While there is nothing ahead, pages are short: so each class can have one before there is again.
RTM_INLINE uint32_t length_of_new(const struct heap *heap, unsigned class) {
  return RTM_UNLIKELY(segment_is_urgent(heap)) ? page_first_length(class) : page_next_length(heap, class);
}

// Of a heap that keeps its classes' pages: the first is full-grown, and each further one twice as long as the last,
// until it has as many blocks as a page can have. So a class has few pages, and finds free blocks in the current one.
RTM_INLINE uint32_t length_of_kept(const struct heap *heap, unsigned class) {
  enum { DOUBLINGS_MOST = SECURE_VARIANT ? 0 : 4 };  // (secure_number divides in pages of the usual length only)
  _Static_assert(PAGE_GRANULES_MAX << DOUBLINGS_MOST <= PAGE_GRANULES_KEPT, "proofs/arithmetic.c has these");
  uint32_t doublings = heap->pages[class];
  if (doublings > DOUBLINGS_MOST) doublings = DOUBLINGS_MOST;
  uint32_t length = (uint32_t)rtm_shape[class].granules_most << doublings;
  uint32_t most = size_class_granules(class);
  return (length < most ? length : most) + span_guard();
}

// What page_set_table leaves out of a page of more than PAGE_GRANULES_MAX.
RTM_INLINE void set_middle_of_table(const struct span *page) {
  uint32_t *table = rtm_window_table + span_granule(page);
  for (uint32_t at = PAGE_GRANULES_MAX / 2; at + PAGE_GRANULES_MAX / 2 < page->length; at++) table[at] = table[0];
}

// With all that may be in the way.
RTM_INLINE void *begin_carefully(struct heap *heap, unsigned class) {
  bool zero;
  uint32_t length = heap->keeps_class_pages ? length_of_kept(heap, class) : length_of_new(heap, class);
  struct span *page = segment_take(heap, NULL, length, &zero);
  if (RTM_UNLIKELY(!page)) page = segment_take(heap, NULL, page_first_length(class), &zero);
  if (RTM_UNLIKELY(!page)) return page_out_of_memory(class);
  if (!hint_vacant(&heap->hints, class) && !hint_late(&heap->hints, class)) {
    segment_give(heap, page, zero ? 0 : page->length);
    return page_out_of_memory(class);
  }
  void *block = begin_at(heap, class, page, hint_vacant(&heap->hints, class));
  set_middle_of_table(page);
  if (heap->record) record_page(heap->record, page);
  return block;
}

static void *take_of_queue(struct heap *heap, unsigned class);

// (page_wants_another is not for long pages: they have free blocks enough, however full they are.)
static RTM_NOINLINE void *take_new_unusual(struct heap *heap, unsigned class) {
  uint32_t first = heap->queue[class].head;
  bool enough = first && size_class_granules(class) > PAGE_GRANULES_MAX;
  return heap->keeps_class_pages && enough ? take_of_queue(heap, class) : begin_carefully(heap, class);
}

// Not all that is in segments is mapped, or there is no spare segment, or only part of one: what is mapped is locked,
// or the system refused memory.
static RTM_COLD void *take_where_left(struct heap *heap, unsigned class) { return begin_carefully(heap, class); }

static RTM_NOINLINE void *take_of_spare(struct heap *heap, unsigned class, uint32_t length) {
  if (RTM_UNLIKELY(!segment_spare_serves(heap))) return take_where_left(heap, class);
  return begin(heap, class, segment_take_of_spare(heap, length));
}

static RTM_NOINLINE void *take_from_new(struct heap *heap, unsigned class) {
  if (RTM_UNLIKELY(heap->unusual)) return take_new_unusual(heap, class);
  if (RTM_UNLIKELY(heap->partly_mapped)) return take_where_left(heap, class);
  uint32_t length = length_of_new(heap, class);
  struct span *page = segment_find(heap, length);
  if (RTM_UNLIKELY(!page)) return take_of_spare(heap, class, length);
  segment_take_part(heap, page, length);
  return begin(heap, class, page);
}

// A block that is private or fresh. `batch`: how many may be linked.
RTM_INLINE void *take_unlinked(struct span *page, unsigned batch) {
  if (!page_has_private(page)) return batch == 1 ? page_extend_one(page) : page_extend(page, batch);
  if (SECURE_VARIANT) return secure_refill(page, batch > 1);
  if (batch == 1) return page_take_private(page);
  page_link_private(page, batch);
  return page_take_linked(page);
}

// A block of a page in the queue, which becomes current.
RTM_INLINE void *take_queued(struct heap *heap, unsigned class, unsigned batch) {
  struct span *page = page_dequeue_fuller(heap, class, heap->queue[class].head);
  page_make_current(heap, page);
  return page_has_linked(page) ? page_take_linked(page) : take_unlinked(page, batch);
}

// A block of the one or the other.
RTM_INLINE void *take_at_hand(struct heap *heap, unsigned class, unsigned batch) {
  struct span *page = heap->page[class];
  return page_has_unlinked(page) ? take_unlinked(page, batch) : take_queued(heap, class, batch);
}

// The page that was found empty last is of this class: it serves again.
static void *take_waiting(struct heap *heap, struct span *page) {
  heap->waiting = page->next;
  page_forget_free(page);
  page->fresh = 0;
  page->flags = PAGE_FRESH;
  span_set_tag(page, (uintptr_t)heap);
  page_make_current(heap, page);
  return page_extend_one(page);
}

// A block of a page that others have freed into.
RTM_INLINE void *take_collected(struct heap *heap, struct span *page) {
  if (!page_is_current(heap, page)) {
    span_set_tag(page, (uintptr_t)heap);
    page_make_current(heap, page);
  }
  return page_take_private(page);
}

// What others have freed in a page comes back.
static RTM_NOINLINE void *take_remote(struct heap *heap, struct span *page) {
  uint32_t blocks;
  hint_lower(page->hint, page->hint_bit);
  if (RTM_UNLIKELY(collect(page, &blocks) == MORE)) hint_raise(page->hint, page->hint_bit);
  return take_collected(heap, page);
}

// One block of them, and a piece of what is in any class: all that a program does may be to pass one class's blocks
// round.
static RTM_NOINLINE void *take_remote_and_collect(struct heap *heap, struct span *page) {
  bool more;
  void *block = page_take_remote(page, &more);
  if (!more) {
    hint_lower(page->hint, page->hint_bit);
    if (RTM_UNLIKELY(page_has_remote(page))) hint_raise(page->hint, page->hint_bit);
  }
  remote_collect_piece(heap);
  return block;
}

RTM_INLINE bool has_remote(struct span *page) { return page && page_has_remote(page); }

// The leaf's bit came late: it is cleared, and another page serves.
static RTM_NOINLINE void *take_past_late(struct heap *heap, struct hint_leaf *leaf, uint64_t bit, struct span *page) {
  hint_lower(&leaf->word, bit);
  if (has_remote(leaf->span[bits_lowest(bit)])) hint_raise(&leaf->word, bit);
  return take_remote(heap, page);
}

// Nothing of the class is at hand, and no page of it is queued. Where the first bit of the leaf leads to nothing, its
// last one is looked at: or the class would get a new page each time, however much others have freed behind a late bit.
// (It does where that is the leaf's only one, or the leaf's own bit came late, until a search over all classes comes.)
static RTM_NOINLINE void *take_further(struct heap *heap, unsigned class) {
  struct span *page = span_at(heap->waiting);
  if (RTM_UNLIKELY(page->kind == class)) return take_waiting(heap, page);
  struct hint_leaf *leaf;
  uint64_t bits = hint_peek(&heap->hints, class, &leaf);
  if (!bits) return take_from_new(heap, class);
  page = leaf->span[bits_lowest(bits)];
  if (RTM_UNLIKELY(!has_remote(page))) {
    page = leaf->span[bits_highest(bits)];
    return has_remote(page) ? take_past_late(heap, leaf, bits & -bits, page) : take_from_new(heap, class);
  }
  return SECURE_VARIANT || heap->turn++ % ROUND ? take_remote(heap, page) : take_remote_and_collect(heap, page);
}

// With a piece of work for the heap a single block is handed out, so that this operation is not much longer than
// others.
static RTM_NOINLINE void *take_and_prepare(struct heap *heap, unsigned class) {
  prepare(heap, class);
  return take_at_hand(heap, class, 1);
}

// If there is nothing else to do, a class is visited.
static RTM_NOINLINE void *take_and_housekeep(struct heap *heap, unsigned class) {
  if (!keep_house(heap)) release_idle(heap, class);
  return take_at_hand(heap, class, 1);
}

// The longest piece, and so only with the shortest way to a block.
static RTM_NOINLINE void *take_and_release(struct heap *heap, struct span *page) {
  void *block = take_unlinked(page, 1);
  release_waiting(heap);
  return block;
}

// The secure variant's: few of its operations come here with a block in the current page, and what waits would pile up.
static RTM_NOINLINE void *take_queued_and_release(struct heap *heap, unsigned class) {
  void *block = take_queued(heap, class, 1);
  release_waiting(heap);
  return block;
}

// The current page has a block: this leaves time to look for what others have freed, and to collect it.
static RTM_NOINLINE void *take_and_collect(struct heap *heap, struct span *page) {
  void *block = take_unlinked(page, 1);
  remote_collect(heap);
  return block;
}

// For one of the two. (In the secure variant pages have a few blocks free when they come here: it would be late.)
static RTM_NOINLINE void *take_queued_and_collect(struct heap *heap, unsigned class) {
  void *block = take_queued(heap, class, 1);
  if (SECURE_VARIANT)
    remote_collect(heap);
  else
    remote_collect_piece(heap);
  return block;
}

static RTM_NOINLINE void *take_several(struct heap *heap, unsigned class) {
  return take_at_hand(heap, class, batch_of(class));
}

// A block that is at hand is short work, and leaves time for a piece of what is to be done for the heap. The pieces
// take turns, so that none waits for ever. `page`: the current one, if the block is in that; else NULL.
RTM_INLINE void *take_and_keep_house(struct heap *heap, unsigned class, struct span *page) {
  uint32_t turn = heap->turn++;
  if (RTM_UNLIKELY(is_urgent(heap, class))) return take_and_prepare(heap, class);
  if (turn % ROUND == 0) return take_and_housekeep(heap, class);
  if ((page || SECURE_VARIANT) && turn % 2 && RTM_UNLIKELY(heap->waiting))
    return page ? take_and_release(heap, page) : take_queued_and_release(heap, class);
  if ((heap->rest -= (int32_t)rtm_shape[class].block_size * AT_HAND) < 0) {
    heap->rest = 0;
    if (RTM_UNLIKELY(hint_may_have(&heap->hints)))
      return page ? take_and_collect(heap, page) : take_queued_and_collect(heap, class);
  }
  return take_several(heap, class);
}

static RTM_NOINLINE void *take_of_current(struct heap *heap, unsigned class, struct span *page) {
  if (!page) __builtin_unreachable();
  return take_and_keep_house(heap, class, page);
}
static RTM_NOINLINE void *take_of_queue(struct heap *heap, unsigned class) {
  return take_and_keep_house(heap, class, NULL);
}

// In the secure variant pages that are nearly full come here every few allocations: most have nothing else to do.
RTM_INLINE bool is_short(struct heap *heap, unsigned class) {
  enum { SHORT = 4 };
  return batch_of(class) > 1 && ++heap->refills % SHORT;
}

void *page_malloc(struct heap *heap, unsigned class) {
  struct span *page = heap->page[class];
  if (page_has_linked(page)) return page_take_linked(page);
  if (SECURE_VARIANT && page_has_private(page) && is_short(heap, class)) return secure_refill(page, true);
  if (page_has_unlinked(page)) return take_of_current(heap, class, page);
  uint32_t first = heap->queue[class].head;
  if (!first) return take_further(heap, class);
  return page_wants_another(heap, class, span_at(first)) ? take_from_new(heap, class) : take_of_queue(heap, class);
}

void page_leave_all(struct heap *heap, bool few) {
  if (heap->record) record_leave(heap->record);
  bool keeps = heap->keeps_class_pages && few;  // for the next thread; long ones would be what each ever needed
  if (!keeps) heap->keeps_pages = false;
  for (unsigned class = 1; class <= CLASSES; class ++) {
    if (keeps && heap->page[class]->length <= PAGE_GRANULES_MAX) continue;
    // A page that was kept is the first in its queue.
    struct span *kept = span_at(heap->queue[class].head);
    if (heap->queue[class].head && !kept->used) release_queued(heap, kept);
    struct span *page = heap->page[class];
    if (page == &rtm_no_page) continue;
    heap->page[class] = &rtm_no_page;
    page->used--;
    if (page_has_linked(page) || page_has_unlinked(page))
      page_enqueue(heap, page);
    else
      span_set_tag(page, (uintptr_t)heap | TAG_SLOW);
    if (!page->used) release_queued(heap, page);
  }
}

void page_release_empty(struct heap *heap) {
  while (heap->waiting) release_waiting(heap);
  for (unsigned class = 1; class <= CLASSES; class ++) {
    struct span *page = heap->page[class];
    if (page != &rtm_no_page && page->used == 1) {
      if (RTM_UNLIKELY(heap->record != NULL)) record_idle(heap->record, page);
      heap->page[class] = &rtm_no_page;
      page->used = 0;
      page_enqueue(heap, page);
    }
    for (uint32_t next, index = heap->queue[class].head; index; index = next) {
      page = span_at(index);
      next = page->next;
      if (!page->used) release_queued(heap, page);
    }
  }
}
