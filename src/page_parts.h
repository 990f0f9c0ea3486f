// The parts of a page's life that every kind of heap has: its place in lists, its blocks, what other threads have
// freed. Inlined into page.c, extent.c and orphan.c; nobody else includes it. The states of a page are in span.h.
#ifndef RTM_PAGE_PARTS_H
#define RTM_PAGE_PARTS_H

#include "page.h"
#include "secure/secure.h"

// ---- the table ----

// Writes the entries of a page of `n` granules in the table, without a loop: overlapping stores of four. `n` <= 16.
RTM_INLINE void page_set_table(uint32_t granule, uint32_t n, uint32_t value) {
  typedef uint32_t four __attribute__((vector_size(16), aligned(4), may_alias));
  uint32_t *table = rtm_window_table + granule;
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

RTM_INLINE void page_enqueue(struct heap *heap, struct span *page) {
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

RTM_INLINE void page_enqueue_first(struct heap *heap, struct span *page) {
  struct page_queue *queue = &heap->queue[page->kind];
  uint32_t index = span_index(page);
  page->next = queue->head;
  page->prev = 0;
  if (queue->head)
    span_at(queue->head)->prev = index;
  else
    queue->tail = index;
  queue->head = index;
}

// A page that was full has a free block. The fuller a page is that serves, the sooner others become empty: of large
// blocks (above 8 KiB, at most six a page) this is the fullest and the next to serve. Pages of smaller blocks take
// turns, as one would be found full again at once.
RTM_INLINE void page_enqueue_again(struct heap *heap, struct span *page) {
  enum { LAST_IN_TURN = LINEAR_CLASSES + 6 * CLASSES_PER_DOUBLING };  // 128 << 6
  if (page->kind > LAST_IN_TURN)
    page_enqueue_first(heap, page);
  else
    page_enqueue(heap, page);
}

// A full page gets a block back, and is not empty: no page has but one.
RTM_INLINE void page_put_in_full(struct heap *heap, struct span *page, void *block) {
  if (SECURE_VARIANT) {
    secure_put(page, block);
  } else {
    *(void **)block = NULL;
    page->free = block;
  }
  page->used--;
  span_set_tag(page, (uintptr_t)heap);
  page_enqueue_again(heap, page);
}

RTM_INLINE void page_unlink(struct heap *heap, unsigned class, struct span *page) {
  struct page_queue *queue = &heap->queue[class];
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

RTM_INLINE void page_dequeue(struct heap *heap, struct span *page) { page_unlink(heap, page->kind, page); }

// The same for `head`, the first in the queue, which is not empty.
RTM_INLINE struct span *page_dequeue_first(struct heap *heap, unsigned class, uint32_t head) {
  struct page_queue *queue = &heap->queue[class];
  struct span *page = span_at(head);
  uint32_t next = queue->head = page->next;
  if (next)
    span_at(next)->prev = 0;
  else
    queue->tail = 0;
  return page;
}

// Of the first two in the queue the fuller, where blocks are not small: so pages become empty sooner.
RTM_INLINE struct span *page_dequeue_fuller(struct heap *heap, unsigned class, uint32_t head) {
  enum { SMALL = LINEAR_CLASSES + 3 * CLASSES_PER_DOUBLING };  // 128 << 3
  if (class > SMALL) {
    const struct span *first = span_at(head);
    struct span *second = span_at(first->next);  // none: the null span, of which nothing is used
    if (second->used > first->used) {
      page_unlink(heap, class, second);
      return second;
    }
  }
  return page_dequeue_first(heap, class, head);
}

RTM_INLINE bool page_is_current(const struct heap *heap, const struct span *page) {
  return heap->page[page->kind] == page;
}
RTM_INLINE bool page_is_full(struct span *page) { return span_tag(page) & TAG_SLOW; }
RTM_INLINE bool page_is_only(const struct span *page) { return !(page->next | page->prev); }

// A small empty page stays if it is the only one of its class with free blocks, beside the current one: the class may
// need it again (mimalloc's retired pages, in constant time). In a heap without a thread nobody will.
RTM_INLINE bool page_may_stay(const struct heap *heap, const struct span *page) {
  enum { SMALL = 4 };
  return page->length <= SMALL && heap->keeps_pages;
}

// ---- blocks ----

RTM_INLINE bool page_has_linked(const struct span *page) {
  return page->free != NULL;
}
RTM_INLINE bool page_private_any(const struct span *page) {
  return (page->private[0] | page->private[1] | page->private[2] | page->private[3]) != 0;
}
RTM_INLINE bool page_has_private(const struct span *page) {
  return SECURE_VARIANT ? page_private_any(page) : page->flags & PAGE_COLLECTED;
}
RTM_INLINE bool page_has_unlinked(const struct span *page) {
  return SECURE_VARIANT ? page->flags & PAGE_FRESH || page_private_any(page)
                        : page->flags & (PAGE_FRESH | PAGE_COLLECTED);
}

RTM_INLINE void *page_take_linked(struct span *page) {
  if (SECURE_VARIANT) return secure_next(page, &rtm_heap->order);
  void *block = page->free;
  page->free = *(void **)block;
  page->used++;
  return block;
}

// A fresh block, and up to `batch` - 1 others that are linked; the page has a fresh block and no linked one.
RTM_INLINE void *page_extend(struct span *page, unsigned batch) {
  if (SECURE_VARIANT) return secure_extend(page, batch > 1);
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

_Static_assert(REMOTE_WORDS == 4, "written out: no loop is left in the machine code, whatever the compiler");
// A fresh block, of which there is one at least.
RTM_INLINE void *page_extend_one(struct span *page) {
  if (SECURE_VARIANT) return secure_extend(page, false);
  uint32_t at = page->fresh++;
  if (page->fresh == page_blocks(page)) page->flags &= (uint8_t)~PAGE_FRESH;
  page->used++;
  return page->start + (size_t)at * rtm_shape[page->kind].block_size;
}

// The first word of `private` with a block; there is one.
RTM_INLINE unsigned page_private_word(const struct span *page) {
  return page->private[0] ? 0 : page->private[1] ? 1 : page->private[2] ? 2 : 3;
}

// Links up to `most` of the private blocks, of which there is one at least.
RTM_INLINE void page_link_private(struct span *page, unsigned most) {
  unsigned w = page_private_word(page);
  uint64_t bits = page->private[w];
  uint32_t size = rtm_shape[page->kind].block_size;
  char *start = page->start + (size_t)w * 64 * size;
  void **link = &page->free;
  do {
    void **block = (void **)(start + bits_lowest(bits) * size);
    *link = block;
    link = block;
    bits &= bits - 1;
  } while (bits && --most);
  *link = NULL;
  page->private[w] = bits;
  if (!bits && !page_private_any(page)) page->flags &= (uint8_t)~PAGE_COLLECTED;
}

// One of them. (Only the words behind the first with a block can have more.)
RTM_INLINE void *page_take_private(struct span *page) {
  if (SECURE_VARIANT) return secure_refill(page, false);
  const uint64_t *private = page->private;
  uint64_t bits, behind;
  unsigned w;
  if ((bits = private[0]))
    w = 0, behind = private[1] | private[2] | private[3];
  else if ((bits = private[1]))
    w = 1, behind = private[2] | private[3];
  else if ((bits = private[2]))
    w = 2, behind = private[3];
  else
    w = 3, behind = 0, bits = private[3];
  uint64_t left = bits & (bits - 1);
  page->private[w] = left;
  page->used++;
  if (!(left | behind)) page->flags &= (uint8_t)~PAGE_COLLECTED;
  return page->start + (size_t)(w * 64 + bits_lowest(bits)) * rtm_shape[page->kind].block_size;
}

// ---- what other threads have freed ----

RTM_INLINE uint64_t page_remote_word(struct span *page, unsigned w) {
  return atomic_load_explicit(&page->remote[w], memory_order_seq_cst);
}

// All of a word, in which there is something. Returns the number of blocks.
RTM_INLINE uint32_t page_collect_one(struct span *page, unsigned w) {
  // Acquire: what the freeing thread did with the block comes before its next use.
  uint64_t bits =
      SECURE_VARIANT ? secure_collect(page, w) : atomic_exchange_explicit(&page->remote[w], 0, memory_order_acq_rel);
  uint32_t blocks = bits_count_quickly(bits);
  page->private[w] |= bits;
  page->used -= blocks;
  page->flags |= PAGE_COLLECTED;
  return blocks;
}

RTM_INLINE bool page_collect_word(struct span *page, unsigned w) {
  // Sequentially consistent: comes after the hint was cleared, or a free between the two would be missed.
  if (!page_remote_word(page, w)) return false;
  page_collect_one(page, w);
  return true;
}

RTM_INLINE bool page_has_remote(struct span *page) {
  return (page_remote_word(page, 0) | page_remote_word(page, 1) | page_remote_word(page, 2) |
          page_remote_word(page, 3)) != 0;
}

// The first word with anything, its bits, 0 if there is none, and those of the words behind it.
RTM_INLINE unsigned page_first_remote(struct span *page, uint64_t *bits, uint64_t *behind) {
  uint64_t first = page_remote_word(page, 0), second = page_remote_word(page, 1), third = page_remote_word(page, 2),
           fourth = page_remote_word(page, 3);
  if ((*bits = first)) return *behind = second | third | fourth, 0;
  if ((*bits = second)) return *behind = third | fourth, 1;
  if ((*bits = third)) return *behind = fourth, 2;
  return *bits = fourth, *behind = 0, 3;
}

// One block that another thread has freed, of which there is one at least. It was held, and is again: nothing else
// changes. `*more`: there was more than that. (Not in the secure variant, where it is the owner who looks at a block.)
RTM_INLINE void *page_take_remote(struct span *page, bool *more) {
  uint64_t bits, behind;
  unsigned w = page_first_remote(page, &bits, &behind);
  *more = behind | (bits & (bits - 1));
  // Acquire: what the freeing thread did with the block comes before its next use.
  atomic_fetch_and_explicit(&page->remote[w], ~(bits & -bits), memory_order_acq_rel);
  return page->start + (size_t)(w * 64 + bits_lowest(bits)) * rtm_shape[page->kind].block_size;
}

// ---- a page's life ----

RTM_INLINE void page_forget_free(struct span *page) {
  page->free = NULL;
  __builtin_memset(page->private, 0, sizeof page->private);
}

// The page is no longer current and has nothing left: until a block comes back, no list has it.
RTM_INLINE void page_left(struct heap *heap, struct span *page) {
  span_set_tag(page, (uintptr_t)heap | TAG_SLOW);
  page->used--;
}

RTM_INLINE void page_replace_current(struct heap *heap, size_t class, struct span *page) {
  struct span *last = heap->page[class];
  heap->page[class] = page;
  if (SECURE_VARIANT) secure_open(page);
  if (RTM_UNLIKELY(last != &rtm_no_page)) page_left(heap, last);  // a class's first page comes without a prediction
}

// Classes are visited in turn, now and then: a page of several granules that is current and empty serves another class
// better. It is in no list then. NULL: the next class has none, or is `class`, which is being served. That the one
// visited may be in use again at any moment does not matter: a visit comes after hundreds of operations that are not
// short.
RTM_INLINE struct span *page_take_idle(struct heap *heap, unsigned class) {
  unsigned visited = heap->visited = heap->visited < CLASSES ? heap->visited + 1 : 1;
  struct span *page = heap->page[visited];
  if (page->used != 1 || page->length == 1 || visited == class) return NULL;
  heap->page[visited] = &rtm_no_page;
  page->used = 0;
  return page;
}

RTM_INLINE void page_make_current(struct heap *heap, struct span *page) {
  page->used++;
  page_replace_current(heap, page->kind, page);
}

// Page size follows demand: doubled with every second page of the class, so that the newest page, which may be nearly
// unused, is at most a third of them all.
RTM_INLINE uint32_t page_next_length(const struct heap *heap, size_t class) {
  enum { DOUBLINGS_MOST = 5 };
  const struct class_shape *shape = &rtm_shape[class];
  uint32_t doublings = heap->pages[class] / 2;
  uint32_t length = (uint32_t)shape->granules_first << (doublings < DOUBLINGS_MOST ? doublings : DOUBLINGS_MOST);
  return (length < shape->granules_most ? length : shape->granules_most) + span_guard();
}

RTM_INLINE uint32_t page_first_length(size_t class) { return rtm_shape[class].granules_first + span_guard(); }

// A span that was just taken, with its place in a hint tree, becomes a page of the class that will be current. Its
// first block counts as handed out; no page has but one. The descriptor is another page's: `remote` is zero, as every
// page is released with all blocks free. The table's entries are the caller's to write.
RTM_INLINE void page_begin(struct heap *heap, size_t class, struct span *page) {
  page_forget_free(page);
  page->used = 2;
  page->reciprocal = rtm_shape[class].reciprocal;
  page->fresh = 1;
  page->kind = (uint8_t) class;
  page->flags = PAGE_FRESH;
  span_set_tag(page, (uintptr_t)heap);
  heap->pages[class]++;
}

// And that block.
RTM_INLINE void *page_first_block(struct span *page) {
  if (!SECURE_VARIANT) return page->start;
  page->fresh = 0;
  page->used = 1;
  return secure_extend(page, false);
}

// Blocks that are handed out until the next operation that looks after its heap, at most.
enum { AT_HAND = SECURE_VARIANT ? 64 : 8 };

// Whether it is time for one more page than the class needs: ROW times in a row the first in the queue had less than an
// eighth of its blocks free. Where blocks come and go in all pages of a class, each would serve a few allocations only
// before the next is looked for, and many frees would find their page full. A single page with more is enough to stop
// it, so that a class with any number of pages that are hardly used does not grow. (Not a mere question: it counts.)
RTM_INLINE bool page_wants_another(struct heap *heap, unsigned class, const struct span *first) {
  enum { ROW = 16 };
  if (RTM_LIKELY(heap->pages[class] < ROW)) return false;
  if (first->used <= rtm_shape[class].used_most) {
    heap->poor[class] = 0;
    return false;
  }
  return RTM_UNLIKELY(++heap->poor[class] % ROW == 0);
}

#endif
