// See page.h; the equations of a page are in span.h.
#include "page.h"

#include "remote.h"
#include "segment.h"

// ---- the table ----

// Writes the page's entries in the table, without a loop: overlapping stores of four. `length` <= 32.
static void set_table(const struct span *page, uint32_t value) {
  typedef uint32_t four __attribute__((vector_size(16), aligned(4), may_alias));
  uint32_t *table = rtm_window_table + span_granule(page);
  uint32_t n = page->length;
  four values = {value, value, value, value};
  _Static_assert(PAGE_GRANULES_MAX == 32, "eight stores of four reach from both ends");
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
  if (n <= 16) return;
  *(four *)(table + 8) = values;
  *(four *)(table + 12) = values;
  *(four *)(table + n - 12) = values;
  *(four *)(table + n - 16) = values;
}

// ---- queues ----

static void enqueue(struct heap *heap, struct span *page) {
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

static void dequeue(struct heap *heap, struct span *page) {
  struct page_queue *queue = &heap->queue[page->kind];
  if (page->next)
    span_at(page->next)->prev = page->prev;
  else
    queue->tail = page->prev;
  if (page->prev)
    span_at(page->prev)->next = page->next;
  else
    queue->head = page->next;
}

static bool is_current(const struct heap *heap, const struct span *page) { return heap->page[page->kind] == page; }
static bool is_full(struct span *page) { return span_tag(page) & TAG_SLOW; }

// ---- a page's life ----

static struct span *page_new(struct heap *heap, unsigned class) {
  const struct class_shape *shape = &rtm_shape[class];
  // Page size follows demand: doubled with every second page of the class, so that the newest page, which may be nearly
  // unused, is at most a third of them all.
  enum { DOUBLINGS_MOST = 5 };
  uint32_t doublings = heap->pages[class] / 2;
  uint32_t length = (uint32_t)shape->granules_first << (doublings < DOUBLINGS_MOST ? doublings : DOUBLINGS_MOST);
  if (length > shape->granules_most) length = shape->granules_most;
  bool zero;
  struct span *page = segment_take_span(heap, length, &zero);
  if (!page) return NULL;
  if (RTM_UNLIKELY(!hint_attach(&heap->hints, class, page))) {
    segment_give_span(heap, page, zero ? 0 : page->length);
    return NULL;
  }
  page->free = NULL;
  page->used = 0;
  page->reciprocal = shape->reciprocal;
  page->fresh = 0;
  page->kind = (uint8_t) class;
  page->flags = zero ? 0 : PAGE_DIRTY;
  span_set_tag(page, (uintptr_t)heap);
  // A descriptor left by another page: `remote` and `private` are zero, as every page is released with all blocks free.
  set_table(page, span_index(page));
  heap->pages[class]++;
  return page;
}

// The page is empty and in no list.
static void page_release(struct heap *heap, struct span *page) {
  uint32_t class = page->kind;
  size_t handed_out = (size_t)page->fresh * rtm_shape[class].block_size;
  uint32_t touched = (uint32_t)((handed_out + GRANULE_SIZE - 1) >> GRANULE_SHIFT);
  if (page->flags & PAGE_DIRTY) touched = page->length;
  for (unsigned w = 0; w < REMOTE_WORDS; w++) page->private[w] = 0;
  hint_detach(&heap->hints, class, page);
  set_table(page, 0);
  heap->pages[class]--;
  segment_give_span(heap, page, touched);
}

static void release_queued(struct heap *heap, struct span *page) {
  dequeue(heap, page);
  page_release(heap, page);
}

// Takes a page out of the ring of retired ones, and releases it if it is still empty.
static void unretire(struct heap *heap, unsigned at) {
  uint32_t index = heap->retired[at];
  heap->retired[at] = 0;
  if (!index) return;
  struct span *page = span_at(index);
  page->flags &= (uint8_t)~PAGE_RETIRED;
  if (!page->used) release_queued(heap, page);
}

// An empty page is not released at once: the last few wait, in case that their class needs them again (mimalloc's
// retired pages, in constant time). In a heap without a thread nobody will need them.
void page_emptied(struct heap *heap, struct span *page) {
  if (page->flags & PAGE_RETIRED) return;
  if (RTM_UNLIKELY(!heap_has_thread(heap))) {
    release_queued(heap, page);
    return;
  }
  uint32_t at = heap->retired_at;
  heap->retired_at = (at + 1) % RETIRED_PAGES;
  unretire(heap, at);
  page->flags |= PAGE_RETIRED;
  heap->retired[at] = span_index(page);
}

void page_free_full(struct heap *heap, struct span *page, void *block) {
  *(void **)block = NULL;
  page->free = block;
  page->used--;
  span_set_tag(page, (uintptr_t)heap);
  enqueue(heap, page);
  if (!page->used) page_emptied(heap, page);
}

// ---- blocks ----

// Fresh blocks: the first is taken, the others are linked. At most eight, a constant number (RT-Mimalloc, section
// VI.C), and as many as fit in a page of the system, so that little memory is touched before it is asked for.
static void *page_extend(struct span *page) {
  enum { BATCH = 8 };
  uint32_t left = page_blocks(page) - page->fresh, size = rtm_shape[page->kind].block_size;
  if (RTM_UNLIKELY(!left)) return NULL;
  char *block = page->start + (size_t)page->fresh * size;
  page->used++;
  page->fresh++;
  uint32_t more = GRANULE_SIZE / BATCH >= size ? BATCH - 1 : GRANULE_SIZE / size;
  if (more > left - 1) more = left - 1;
  if (!more) return block;
  page->fresh += (uint16_t)more;
  char *link = block + size;
  page->free = link;
  for (; --more; link += size) *(void **)link = link + size;
  *(void **)link = NULL;
  return block;
}

bool page_collect(struct span *page) {
  uint64_t any = 0;
  for (unsigned w = 0; w < REMOTE_WORDS; w++) {
    // Sequentially consistent: comes after the hint was cleared, or a free between the two would be missed.
    if (!atomic_load_explicit(&page->remote[w], memory_order_seq_cst)) continue;
    // Acquire: what the freeing thread did with the block comes before its next use.
    uint64_t bits = atomic_exchange_explicit(&page->remote[w], 0, memory_order_acq_rel);
    page->private[w] |= bits;
    page->flags |= PAGE_COLLECTED;
    page->used -= bits_count(bits);
    any |= bits;
  }
  return any != 0;
}

static bool private_any(const struct span *page) {
  uint64_t any = 0;
  for (unsigned w = 0; w < REMOTE_WORDS; w++) any |= page->private[w];
  return any != 0;
}

static bool has_remote(struct span *page) {
  uint64_t any = 0;
  for (unsigned w = 0; w < REMOTE_WORDS; w++) any |= atomic_load_explicit(&page->remote[w], memory_order_relaxed);
  return any != 0;
}

// Links up to eight of the private blocks; false if there is none.
static bool link_private(struct span *page) {
  enum { BATCH = 8 };
  unsigned w = 0;
  while (w < REMOTE_WORDS && !page->private[w]) w++;
  if (w == REMOTE_WORDS) {
    if (page->flags & PAGE_COLLECTED) page->flags &= (uint8_t)~PAGE_COLLECTED;  // rtm_no_page is never written
    return false;
  }
  uint64_t bits = page->private[w];
  uint32_t size = rtm_shape[page->kind].block_size;
  char *start = page->start + (size_t)w * 64 * size;
  void **link = &page->free;
  for (unsigned i = 0; i < BATCH && bits; i++, bits &= bits - 1) {
    void **block = (void **)(start + (size_t)bits_lowest(bits) * size);
    *link = block;
    link = block;
  }
  *link = NULL;
  page->private[w] = bits;
  return true;
}

// Refills the free list from blocks that other threads have freed, in this page or elsewhere; false if there is none
// here. As many blocks at least are collected as fresh ones are handed out.
static RTM_NOINLINE bool refill(struct heap *heap, struct span *page) {
  if (link_private(page)) return true;
  if (has_remote(page)) {
    hint_lower(page);
    page_collect(page);
  } else {
    remote_collect(heap);  // which may find this page, too
  }
  return link_private(page);
}

void page_settle(struct heap *heap, struct span *page) {
  if (is_current(heap, page)) return;
  if (is_full(page)) {
    span_set_tag(page, (uintptr_t)heap);
    enqueue(heap, page);
  }
  if (!page->used) page_emptied(heap, page);
}

// A page with free blocks that the class has already; NULL if there is none.
static struct span *find_page(struct heap *heap, unsigned class) {
  uint32_t queued = heap->queue[class].head;
  if (queued) {
    dequeue(heap, span_at(queued));
    return span_at(queued);
  }
  // A hint may have come late, after its page was collected: a few of them are passed over.
  enum { LATE_HINTS = 3 };
  for (unsigned attempt = 0; attempt < LATE_HINTS; attempt++) {
    struct span *page = hint_take(&heap->hints, class);
    if (!page) return NULL;
    if (!page_collect(page)) continue;
    span_set_tag(page, (uintptr_t)heap);  // it was full, as nothing is queued
    return page;
  }
  return NULL;
}

RTM_INLINE void *take_linked(struct span *page) {
  void *block = page->free;
  page->free = *(void **)block;
  page->used++;
  return block;
}

static void make_current(struct heap *heap, struct span *page) {
  page->used++;
  heap->page[page->kind] = page;
}

// The current page has nothing left: another becomes current.
static RTM_NOINLINE void *malloc_from_next(struct heap *heap, unsigned class) {
  struct span *page = heap->page[class];
  if (page != &rtm_no_page) {
    // Full: no list has it until a block comes back.
    span_set_tag(page, (uintptr_t)heap | TAG_SLOW);
    page->used--;
    heap->page[class] = &rtm_no_page;
  }
  page = find_page(heap, class);
  if (page) {
    make_current(heap, page);
    if (page->free || link_private(page)) return take_linked(page);
    return page_extend(page);
  }
  page = page_new(heap, class);
  if (!page) return NULL;
  make_current(heap, page);
  return page_extend(page);
}

void *page_malloc(struct heap *heap, unsigned class) {
  struct span *page = heap->page[class];
  if (!page->free) {
    bool freed_elsewhere = page->flags & PAGE_COLLECTED || hint_any(&heap->hints);
    if (RTM_LIKELY(!freed_elsewhere) || !refill(heap, page)) {
      void *block = page_extend(page);
      return RTM_LIKELY(block != NULL) ? block : malloc_from_next(heap, class);
    }
  }
  return take_linked(page);
}

void page_leave_all(struct heap *heap) {
  for (unsigned class = 1; class <= CLASSES; class ++) {
    struct span *page = heap->page[class];
    if (page == &rtm_no_page) continue;
    heap->page[class] = &rtm_no_page;
    page->used--;
    if (page->free || private_any(page) || page->fresh < page_blocks(page))
      enqueue(heap, page);
    else
      span_set_tag(page, (uintptr_t)heap | TAG_SLOW);
    if (!page->used) page_emptied(heap, page);
  }
  for (unsigned at = 0; at < RETIRED_PAGES; at++) unretire(heap, at);
}

void page_release_empty(struct heap *heap) {
  for (unsigned at = 0; at < RETIRED_PAGES; at++) unretire(heap, at);
  for (unsigned class = 1; class <= CLASSES; class ++) {
    struct span *page = heap->page[class];
    if (page != &rtm_no_page && page->used == 1) {
      heap->page[class] = &rtm_no_page;
      page_release(heap, page);
    }
    for (uint32_t next, index = heap->queue[class].head; index; index = next) {
      page = span_at(index);
      next = page->next;
      if (!page->used) release_queued(heap, page);
    }
  }
}
