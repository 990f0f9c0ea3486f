// See page.h; the equations of a page are in span.h.
#include "page.h"

#include "medium.h"
#include "record.h"
#include "remote.h"
#include "secure/secure.h"
#include "segment.h"

// ---- the table ----

// Writes the page's entries in the table, without a loop: overlapping stores of four. `length` <= 16.
RTM_INLINE void set_table(const struct span *page) {
  typedef uint32_t four __attribute__((vector_size(16), aligned(4), may_alias));
  uint32_t *table = rtm_window_table + span_granule(page);
  uint32_t n = page->length;
  uint32_t value = span_index(page);
  four values = {value, value, value, value};
  _Static_assert(PAGE_GRANULES_MAX == 16, "four stores of four reach from both ends");
  if (SECURE_VARIANT) table[n - 1] = value, n -= span_guard();
  if (n < 4) {
    table[0] = value;
    table[n >> 1] = value;
    table[n - 1] = value;
    return;
  }
  *(four *)table = values;
  *(four *)(table + n - 4) = values;
  if (n <= 8) return;
  *(four *)(table + 4) = values;
  *(four *)(table + n - 8) = values;
}

// ---- queues ----

RTM_INLINE void enqueue(struct heap *heap, struct span *page) {
  struct page_queue *queue = &heap->queue[page->kind];
  uint32_t index = span_index(page);
  page->next = 0;
  page->prev = queue->tail;
  if (queue->tail)
    span_at(queue->tail)->next = index;
  else
    queue->head = index;
  queue->tail = index;
}

RTM_INLINE void dequeue(struct heap *heap, struct span *page) {
  struct page_queue *queue = &heap->queue[page->kind];
  uint32_t next = page->next, prev = page->prev;
  if (next)
    span_at(next)->prev = prev;
  else
    queue->tail = prev;
  if (prev)
    span_at(prev)->next = next;
  else
    queue->head = next;
}

static bool is_current(const struct heap *heap, const struct span *page) { return heap->page[page->kind] == page; }
static bool is_full(struct span *page) { return span_tag(page) & TAG_SLOW; }

// ---- a page's life ----

RTM_INLINE void forget_private(struct span *page) {
  for (unsigned w = 0; w < REMOTE_WORDS; w++) page->private[w] = 0;
}

// An empty page, in no queue. Where there is too much free memory, what its span has become goes back with it.
RTM_INLINE void release(struct heap *heap, struct span *page) {
  if (SECURE_VARIANT) secure_unguard(page);
  hint_detach(page);
  heap->pages[page->kind]--;
  unsigned joined;
  page = segment_join(heap, page, page->length, &joined);
  if (RTM_UNLIKELY(segment_must_shrink(heap)))
    segment_shrink_by(heap, page);
  else
    segment_insert_dirty(heap, page);
}

// Apart, as a call in between would cost the other path its registers.
static RTM_NOINLINE void release_recorded(struct heap *heap, struct span *page) {
  record_page_gone(heap->record, page);
  release(heap, page);
}

static RTM_NOINLINE void page_release(struct heap *heap, struct span *page) {
  if (RTM_UNLIKELY(heap->record != NULL))
    release_recorded(heap, page);
  else
    release(heap, page);
}

RTM_INLINE void release_queued(struct heap *heap, struct span *page) {
  dequeue(heap, page);
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

// Operations: what is done now and then, or left out now and then, is so in one of them.
enum { ROUND = 8 };

// Classes are visited in turn: a page of several granules that is current and empty serves another class better. That
// the class may be in use again at any moment does not matter: a visit comes after hundreds of operations that are not
// short. Not in a heap that was prepared, and not in one that is recorded, so that what a class had is there for the
// next run.
static bool release_idle(struct heap *heap, unsigned class) {
  if (RTM_UNLIKELY(heap->stores != NULL) || RTM_UNLIKELY(heap->record != NULL)) return false;
  unsigned visited = heap->visited = heap->visited % CLASSES + 1;
  struct span *page = heap->page[visited];
  if (page->used != 1 || page->length == 1 || visited == class) return false;
  heap->page[visited] = &rtm_no_page;
  page->used = 0;
  segment_wait(heap, page);
  return true;
}

// What an operation leaves to be done for the heap as a whole is done by a later one that has little to do itself: one
// piece in each, so that no operation is much longer than its own work. The kinds:
//   release  an empty page or medium block that waits
//   shrink   free memory goes back to the system                             (segment_must_shrink, arena_must_shrink)
//   prepare  a free segment, and memory for nodes of the hint trees          (segment.h, hint.h)
//   idle     an empty current page waits to be released
//   collect  what other threads have freed, in any class
// True if there was any of the rest to do.
static bool housekeep(struct heap *heap, unsigned class) {
  if (RTM_UNLIKELY(heap->stores != NULL)) return false;  // all was made ahead (mode.h)
  if (hint_must_grow(&heap->hints, class))
    hint_grow(&heap->hints, class);
  else if (hint_must_share(&heap->hints))
    hint_grow(&heap->hints, 0);
  else if (RTM_UNLIKELY(segment_must_shrink(heap)))
    segment_shrink(heap);
  else if (RTM_UNLIKELY(arena_must_shrink()))
    arena_shrink();
  else if (RTM_UNLIKELY(segment_must_prepare(heap)))
    segment_prepare_piece(heap);
  else if (RTM_UNLIKELY(rtm_arena.unchecked))
    arena_see_locked();
  else
    return false;
  return true;
}

// A small empty page stays if it is the only one of its class with free blocks, beside the current one: the class may
// need it again (mimalloc's retired pages, in constant time). In a heap without a thread nobody will.
RTM_INLINE bool may_stay(const struct heap *heap, const struct span *page) {
  enum { SMALL = 4 };
  return page->length <= SMALL && heap->keeps_pages;
}
static bool is_only(const struct span *page) { return !(page->next | page->prev); }

void page_emptied(struct heap *heap, struct span *page) {
  if (!is_only(page) || !may_stay(heap, page)) release_queued(heap, page);
}

void page_free_full(struct heap *heap, struct span *page, void *block) {
  if (SECURE_VARIANT) {
    secure_put(page, block);
  } else {
    *(void **)block = NULL;
    page->free = block;
  }
  page->used--;
  span_set_tag(page, (uintptr_t)heap);
  enqueue(heap, page);
  if (RTM_UNLIKELY(!page->used)) {
    page_emptied(heap, page);
    return;
  }
  housekeep(heap, page->kind);
}

// ---- blocks ----

// Blocks are linked at most eight at a time, a constant number (RT-Mimalloc, section VI.C), and as many as fit in a
// page of the system, so that little memory is touched before it is asked for.
enum { BATCH = 8 };
RTM_INLINE unsigned batch_of(unsigned class) {
  uint32_t size = rtm_shape[class].block_size;
  return GRANULE_SIZE / BATCH >= size ? BATCH : GRANULE_SIZE / size + 1;
}

RTM_INLINE bool has_linked(const struct span *page) {
  return SECURE_VARIANT ? secure_has_next(page) : page->free != NULL;
}
RTM_INLINE bool has_unlinked(const struct span *page) { return page->flags & (PAGE_FRESH | PAGE_COLLECTED); }

// A fresh block, and up to `batch` - 1 others that are linked; the page has a fresh block and no linked one.
RTM_INLINE void *extend(struct span *page, unsigned batch) {
  if (SECURE_VARIANT) return secure_extend(page, batch);
  uint32_t left = page_blocks(page) - page->fresh, size = rtm_shape[page->kind].block_size;
  if (batch >= left) {
    batch = left;
    page->flags &= (uint8_t)~PAGE_FRESH;
  }
  char *block = page->start + (size_t)page->fresh * size;
  page->used++;
  page->fresh += (uint16_t)batch;
  if (!--batch) return block;
  char *link = block + size;
  page->free = link;
  for (; --batch; link += size) *(void **)link = link + size;
  *(void **)link = NULL;
  return block;
}

static bool private_any(const struct span *page) {
  uint64_t any = 0;
  for (unsigned w = 0; w < REMOTE_WORDS; w++) any |= page->private[w];
  return any != 0;
}

// Links up to `most` of the private blocks, of which there is one at least.
RTM_INLINE void link_private(struct span *page, unsigned most) {
  unsigned w = 0;
  while (!page->private[w]) w++;
  uint64_t bits = page->private[w];
  uint32_t size = rtm_shape[page->kind].block_size;
  char *start = page->start + (size_t)w * 64 * size;
  void **link = &page->free;
  for (unsigned i = 0; i < most && bits; i++, bits &= bits - 1) {
    void **block = (void **)(start + (size_t)bits_lowest(bits) * size);
    *link = block;
    link = block;
  }
  *link = NULL;
  page->private[w] = bits;
  if (!bits && !private_any(page)) page->flags &= (uint8_t)~PAGE_COLLECTED;
}

// One of them.
RTM_INLINE void *take_private(struct span *page) {
  if (SECURE_VARIANT) return secure_deal(page, 1);
  unsigned w = 0;
  while (!page->private[w]) w++;
  uint64_t bits = page->private[w];
  page->private[w] = bits & (bits - 1);
  page->used++;
  if (!page->private[w] && !private_any(page)) page->flags &= (uint8_t)~PAGE_COLLECTED;
  return page->start + (size_t)(w * 64 + bits_lowest(bits)) * rtm_shape[page->kind].block_size;
}

// ---- what other threads have freed ----

RTM_INLINE uint64_t remote_word(struct span *page, unsigned w) {
  return atomic_load_explicit(&page->remote[w], memory_order_seq_cst);
}

RTM_INLINE bool collect_word(struct span *page, unsigned w) {
  // Sequentially consistent: comes after the hint was cleared, or a free between the two would be missed.
  if (!remote_word(page, w)) return false;
  // Acquire: what the freeing thread did with the block comes before its next use.
  uint64_t bits =
      SECURE_VARIANT ? secure_collect(page, w) : atomic_exchange_explicit(&page->remote[w], 0, memory_order_acq_rel);
  page->private[w] |= bits;
  page->used -= bits_count(bits);
  page->flags |= PAGE_COLLECTED;
  return true;
}

// Written out: gcc keeps loops over atomics.
RTM_INLINE bool has_remote(struct span *page) {
  _Static_assert(REMOTE_WORDS == 4, "all words");
  return (remote_word(page, 0) | remote_word(page, 1) | remote_word(page, 2) | remote_word(page, 3)) != 0;
}

RTM_INLINE bool collect(struct span *page) {
  for (unsigned w = 0; w < REMOTE_WORDS; w++) {
    if (!collect_word(page, w)) continue;
    // One word is enough for one operation: the hint leads here again.
    if (RTM_UNLIKELY(has_remote(page))) hint_raise(page->hint, page->hint_bit);
    return true;
  }
  return false;
}

void page_collect_any(struct heap *heap, struct span *page) {
  if (!collect(page) || is_current(heap, page)) return;
  bool full = is_full(page);
  bool only = full ? !heap->queue[page->kind].head : is_only(page);
  if (!page->used && !(only && may_stay(heap, page))) {
    if (!full) dequeue(heap, page);
    segment_wait(heap, page);
  } else if (full) {
    span_set_tag(page, (uintptr_t)heap);
    enqueue(heap, page);
  }
}

RTM_INLINE void *take_linked(struct span *page) {
  if (SECURE_VARIANT) return secure_next(page, rtm_shape[page->kind].block_size);
  void *block = page->free;
  page->free = *(void **)block;
  page->used++;
  return block;
}

// The page is no longer current and has nothing left: until a block comes back, no list has it.
RTM_INLINE void left(struct heap *heap, struct span *page) {
  span_set_tag(page, (uintptr_t)heap | TAG_SLOW);
  page->used--;
}

RTM_INLINE void make_current(struct heap *heap, struct span *page) {
  struct span *last = heap->page[page->kind];
  page->used++;
  heap->page[page->kind] = page;
  if (last != &rtm_no_page) left(heap, last);
}

// A new page becomes current. Its first block only is handed out, as this was work enough; the next operation extends
// it.
static RTM_NOINLINE void *take_from_new(struct heap *heap, unsigned class) {
  const struct class_shape *shape = &rtm_shape[class];
  // Page size follows demand: doubled with every second page of the class, so that the newest page, which may be nearly
  // unused, is at most a third of them all.
  enum { DOUBLINGS_MOST = 5 };
  uint32_t doublings = heap->pages[class] / 2;
  uint32_t length = (uint32_t)shape->granules_first << (doublings < DOUBLINGS_MOST ? doublings : DOUBLINGS_MOST);
  if (length > shape->granules_most) length = shape->granules_most;
  bool zero;
  struct span *page = segment_take(heap, NULL, length + span_guard(), &zero);
  if (RTM_UNLIKELY(!page)) return page_out_of_memory(class);
  if (RTM_UNLIKELY(!hint_attach(&heap->hints, class, page))) {
    set_table(page);
    segment_give(heap, page, zero ? 0 : page->length);
    return page_out_of_memory(class);
  }
  // A descriptor left by another page: `remote` is zero, as every page is released with all blocks free.
  page->free = NULL;
  forget_private(page);
  page->used = 2;
  page->reciprocal = shape->reciprocal;
  page->fresh = 1;
  page->kind = (uint8_t) class;
  page->flags = PAGE_FRESH;  // no page has but one block
  span_set_tag(page, (uintptr_t)heap);
  set_table(page);
  heap->pages[class]++;
  if (RTM_UNLIKELY(heap->record != NULL)) record_page(heap->record, page);
  struct span *last = heap->page[class];
  heap->page[class] = page;
  if (last != &rtm_no_page) left(heap, last);
  if (SECURE_VARIANT) {
    secure_guard(page);
    page->fresh = 0;
    page->used = 1;
    return secure_extend(page, 1);
  }
  return page->start;
}

// A block of the current page, or of the first in the queue; the one has a private or fresh block, or there is the
// other. `batch`: how many may be linked.
RTM_INLINE void *take_at_hand(struct heap *heap, unsigned class, unsigned batch) {
  struct span *page = heap->page[class];
  if (!has_unlinked(page)) {
    page = span_at(heap->queue[class].head);
    dequeue(heap, page);
    make_current(heap, page);
    if (has_linked(page)) return take_linked(page);
  }
  if (!(page->flags & PAGE_COLLECTED)) return extend(page, batch);
  if (SECURE_VARIANT) return secure_deal(page, batch);
  if (batch == 1) return take_private(page);
  link_private(page, batch);
  return take_linked(page);
}

RTM_INLINE bool is_at_hand(const struct heap *heap, unsigned class) {
  return has_unlinked(heap->page[class]) || heap->queue[class].head;
}

static RTM_NOINLINE void *take_remote(struct heap *heap, struct span *page) {
  hint_lower(page);
  collect(page);
  if (!is_current(heap, page)) {
    span_set_tag(page, (uintptr_t)heap);
    make_current(heap, page);
  }
  return take_private(page);
}

// The page that was found empty last is of this class: it serves again.
static void *take_waiting(struct heap *heap, struct span *page) {
  heap->waiting = page->next;
  page->free = NULL;
  forget_private(page);
  page->fresh = 0;
  page->flags = PAGE_FRESH;
  span_set_tag(page, (uintptr_t)heap);
  make_current(heap, page);
  return extend(page, 1);
}

// Nothing of the class is at hand, and no page of it is queued. What others have freed in one of its pages comes back;
// but not always, as then nothing would be collected in other classes, if all that a program does is to pass one
// class's blocks round.
static RTM_NOINLINE void *take_further(struct heap *heap, unsigned class) {
  struct span *page = span_at(heap->waiting);
  if (RTM_UNLIKELY(page->kind == class)) return take_waiting(heap, page);
  if (heap->turn++ % ROUND) {
    page = hint_peek(&heap->hints, class);
    if (page && has_remote(page)) return take_remote(heap, page);
  }
  return take_from_new(heap, class);
}

// Now and then, if there is nothing else to do, a class is visited. (Apart, as a second call would cost the other way
// its registers.)
static RTM_NOINLINE bool housekeep_or_visit(struct heap *heap, unsigned class) {
  return housekeep(heap, class) || (heap->turn % ROUND == 0 && release_idle(heap, class));
}

// A block that is at hand is short work, and leaves time for a piece of what is to be done for the heap. Long pieces
// take turns, so that none waits for ever, and with one of them a single block is handed out, so that this operation is
// not much longer than others.
static RTM_NOINLINE void *take_and_keep_house(struct heap *heap, unsigned class) {
  const struct span *page = heap->page[class];
  uint32_t turn = heap->turn++;
  // The class's own tree comes first: what is freed in the leaves that all share is found later than in its own.
  bool grow = hint_must_grow(&heap->hints, class) && !heap->stores;
  if (turn % ROUND && !grow) {
    bool any = hint_any(&heap->hints);
    // The longest piece, and so only with the shortest way to a block.
    bool release = RTM_UNLIKELY(heap->waiting) && has_unlinked(page) && (turn % 2 || !any);
    if (release || RTM_UNLIKELY(any)) {
      void *block = take_at_hand(heap, class, 1);
      if (release)
        release_waiting(heap);
      else
        remote_collect(heap);
      return block;
    }
  }
  return take_at_hand(heap, class, housekeep_or_visit(heap, class) ? 1 : batch_of(class));
}

// In the secure variant every eighth allocation comes here, also where the others' come from a list: most of these have
// nothing to keep house for.
RTM_INLINE bool is_quiet(struct heap *heap) {
  enum { PASS = 4 };
  if (!SECURE_VARIANT || (heap->turn + 1) % PASS == 0 || heap->waiting || hint_any(&heap->hints)) return false;
  heap->turn++;
  return true;
}

void *page_malloc(struct heap *heap, unsigned class) {
  struct span *page = heap->page[class];
  if (has_linked(page)) return take_linked(page);
  if (SECURE_VARIANT && page->flags & PAGE_COLLECTED && is_quiet(heap)) return secure_deal(page, batch_of(class));
  return is_at_hand(heap, class) ? take_and_keep_house(heap, class) : take_further(heap, class);
}

void page_leave_all(struct heap *heap) {
  if (heap->record) record_leave(heap->record);
  heap->keeps_pages = false;
  for (unsigned class = 1; class <= CLASSES; class ++) {
    // A page that was kept is the first in its queue.
    struct span *kept = span_at(heap->queue[class].head);
    if (heap->queue[class].head && !kept->used) release_queued(heap, kept);
    struct span *page = heap->page[class];
    if (page == &rtm_no_page) continue;
    heap->page[class] = &rtm_no_page;
    page->used--;
    if (has_linked(page) || has_unlinked(page))
      enqueue(heap, page);
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
      heap->page[class] = &rtm_no_page;
      page->used = 0;
      enqueue(heap, page);
    }
    for (uint32_t next, index = heap->queue[class].head; index; index = next) {
      page = span_at(index);
      next = page->next;
      if (!page->used) release_queued(heap, page);
    }
  }
}
