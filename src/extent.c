// See extent.h.
#include "extent.h"

#include "check.h"
#include "medium.h"
#include "os/os.h"
#include "page_parts.h"
#include "remote.h"
#include "segment.h"

enum { PAGES = EXTENT_PAGES, MEDIUMS = EXTENT_MEDIUMS };

// ---- free spans ----
//
// Why the next span is unlikely: where a free span is cut for the first time in a while, no branch is predicted, and
// most of the memory is one span, alone in its list.

RTM_INLINE void insert(struct heap *heap, struct span *span, size_t length) {
  struct extent *extent = &heap->extent;
  struct extent_list *list = (struct extent_list *)((char *)extent->list + extent->list_of[length]);
  RTM_KEEP(list);
  struct span *next = list->first;
  span->length = (uint32_t)length;
  span->extent_next = next;
  span->extent_link = &list->first;
  list->first = span;
  if (RTM_UNLIKELY(next != NULL))
    next->extent_link = &span->extent_next;
  else
    extent->lists |= list->bit;
}

RTM_INLINE void take_out(struct heap *heap, const struct span *span) {
  struct span **link = span->extent_link, *next = span->extent_next;
  *link = next;
  if (next)
    next->extent_link = link;
  else if ((uintptr_t)link - (uintptr_t)heap < sizeof *heap)  // it was the first, too
    heap->extent.lists ^= ((struct extent_list *)link)->bit;
}

// Joins the span, which is in use, with its free neighbours. (Descriptors of granules within a span say what they were
// before; nobody looks at them but look(), which sees no remote free there.)
RTM_INLINE void give(struct heap *heap, struct span *span) {
  size_t index = (size_t)((char *)span - rtm_window_spans) / SPAN_SIZE;  // a descriptor's number is its granule's
  uint32_t *table = rtm_window_table + index;
  size_t length = span->length, before_index = table[-1];
  struct span *after = span + length, *before = span_at((uint32_t)before_index);
  span_set_tag(span, TAG_NONE);
  if (after->kind == SPAN_FREE) {
    length += after->length;
    take_out(heap, after);
  }
  uint32_t *end = table + length;
  if (before->kind == SPAN_FREE) {
    take_out(heap, before);
    length += before->length;
    index = before_index;
    span = before;
  } else {
    span->kind = SPAN_FREE;
  }
  end[-1] = (uint32_t)index;
  insert(heap, span, length);
}

// Cuts what is beyond `length` granules off, a free span of `rest_length`. What follows it is in use.
RTM_INLINE void cut_rest(struct heap *heap, struct span *span, uint32_t index, uint32_t length, size_t rest_length) {
  struct span *rest = span + length;
  uint32_t rest_index = index + length, *table = rtm_window_table + rest_index;
  span->length = length;
  table[0] = rest_index;
  table[rest_length - 1] = rest_index;
  rest->kind = SPAN_FREE;
  insert(heap, rest, rest_length);
}

RTM_INLINE void cut(struct heap *heap, struct span *span, uint32_t index, uint32_t length) {
  size_t rest_length = span->length - length;
  if (rest_length) cut_rest(heap, span, index, length, rest_length);
}

// The first `length` granules of the list's first span. The caller sets what a span in use has, the table's entries
// too. `*index`: its own.
RTM_INLINE struct span *take_first(struct heap *heap, struct extent_list *list, uint32_t length, uint32_t *index) {
  RTM_KEEP(list);
  struct span *span = list->first, *next = span->extent_next;
  list->first = next;
  if (RTM_UNLIKELY(next != NULL))
    next->extent_link = &list->first;
  else
    heap->extent.lists ^= list->bit;
  *index = span_index(span);
  cut(heap, span, *index, length);
  return span;
}

// For a page. NULL: there is none of this length. Up to the longest page each length has its list (extent.h), so that
// list_for[length] need not be read.
RTM_INLINE struct span *take(struct heap *heap, uint32_t length, uint32_t *index) {
  uint64_t found = heap->extent.lists & ~UINT64_C(0) << (length - 1);
  if (RTM_UNLIKELY(!found)) return NULL;
  return take_first(heap, &heap->extent.list[bits_lowest(found)], length, index);
}

// The next chunk of the reserve, in use, with its place in the heap's trees; NULL: it has none. 15 instructions.
RTM_INLINE struct span *take_chunk(struct heap *heap, uint32_t *index) {
  struct extent_reserve *reserve = heap->extent.reserve;
  size_t number = atomic_fetch_add_explicit(&reserve->next, 1, memory_order_relaxed);
  if (RTM_UNLIKELY(number >= reserve->chunks)) return NULL;
  struct span *span = reserve->chunk[number];
  struct hint_leaf *pages = (struct hint_leaf *)span->hint;
  struct hint_leaf *mediums = (struct hint_leaf *)((char *)pages + EXTENT_LEAF);
  size_t group = heap->extent.chunk_group + number / HINT_FANOUT;
  RTM_WRITE_RELAXED(pages->word.parent, &heap->hints.group[PAGES * EXTENT_GROUPS + group]->word);
  RTM_WRITE_RELAXED(mediums->word.parent, &heap->hints.group[MEDIUMS * EXTENT_GROUPS + group]->word);
  *index = span_index(span);
  return span;
}

RTM_CODE_TOGETHER void extent_page_emptied(struct heap *heap, struct span *page) {
  unsigned class = page->kind;
  heap->pages[class]--;
  page_unlink(heap, class, page);
  give(heap, page);
}

RTM_CODE_TOGETHER void extent_give_medium(struct heap *heap, struct span *span) { give(heap, span); }

RTM_INLINE void give_page(struct heap *heap, struct span *page) {
  heap->pages[page->kind]--;
  give(heap, page);
}

// ---- what other threads have freed ----
//
// Two trees of hints (hint.h), one for pages and one for medium blocks, in which every granule has its place for good.
// A word of them is taken whole, and after the bit above it was cleared: what is freed later sets that again. So
// nothing is looked at twice, and nothing is put back.

// length * reciprocal of a page of at most 64 blocks, which has one word; or a little less.
#define ONE_WORD ((uint64_t)64 << (32 - GRANULE_SHIFT))

RTM_INLINE uint64_t top_bits(const struct extent_tree *tree) {
  return atomic_load_explicit(&tree->top->bits, memory_order_seq_cst);
}

// The words at the top take turns, and the groups of each.
RTM_INLINE void next_top(struct extent_tree *tree) {
  tree->top = tree->top == tree->top_last ? tree->top_first : tree->top + 1;
}

RTM_INLINE void take_group(struct heap *heap, struct extent_tree *tree) {
  struct hint_word *top = tree->top;
  uint64_t bits = top_bits(tree);
  if (bits & tree->later)
    bits &= tree->later;
  else
    next_top(tree);  // all of this word have had their turn
  unsigned place = bits_lowest(bits);
  tree->later = ~UINT64_C(1) << place;
  struct hint_group *group = heap->hints.group[(size_t)(top - heap->hints.top) * HINT_FANOUT + place];
  atomic_fetch_and_explicit(&top->bits, ~group->word.parent_bit, memory_order_seq_cst);
  tree->group = group;
  tree->leaves = atomic_exchange_explicit(&group->word.bits, 0, memory_order_seq_cst);
}

RTM_INLINE void take_next_group(struct heap *heap, struct extent_tree *tree) {
  heap->rest = REST;
  take_group(heap, tree);
}

RTM_INLINE void take_leaf(struct extent_tree *tree) {
  struct hint_leaf *leaf = tree->group->leaf[bits_lowest(tree->leaves)];
  tree->leaves &= tree->leaves - 1;
  tree->leaf = leaf;
  tree->bits = atomic_exchange_explicit(&leaf->word.bits, 0, memory_order_seq_cst);
}

// A page that had no free block and has `bits` of word `w` now: one is linked, so that whoever comes to the page has it
// at hand.
RTM_INLINE void link_first(struct span *page, unsigned w, uint64_t bits) {
  void **block = (void **)(page->start + (size_t)(w * 64 + bits_lowest(bits)) * rtm_shape[page->kind].block_size);
  *block = NULL;
  page->free = block;
  page->private[w] = bits &= bits - 1;
  if (bits) page->flags |= PAGE_COLLECTED;
}

// Takes over what other threads have freed in a word of the page, and puts the page where it belongs now. Returns it if
// it is empty, and then in no list.
RTM_INLINE struct span *collect_word(struct heap *heap, struct span *page, unsigned w) {
  uint64_t bits =
      SECURE_VARIANT ? secure_collect(page, w) : atomic_exchange_explicit(&page->remote[w], 0, memory_order_acq_rel);
  uint32_t used = page->used -= bits_count_quickly(bits);
  if (page_is_full(page)) {
    if (!used) return page;
    if (SECURE_VARIANT)
      page->private[w] |= bits;
    else
      link_first(page, w, bits);
    span_set_tag(page, (uintptr_t)heap);
    page_enqueue_again(heap, page);
    return NULL;
  }
  page->private[w] |= bits;
  page->flags |= PAGE_COLLECTED;
  if (used) return NULL;  // the current page has one more than are in use
  page_dequeue(heap, page);
  return page;
}

RTM_INLINE struct span *found(const struct extent_tree *tree) { return tree->leaf->span[bits_lowest(tree->bits)]; }
RTM_INLINE void pass(struct extent_tree *tree) { tree->bits &= tree->bits - 1; }

// Looks at one word of one of the pages that were found. Returns the page if it is empty now, and in no list. A bit may
// come late: then there is nothing, or the span is a medium block now, whose reciprocal is 0.
RTM_INLINE struct span *look_at_page(struct heap *heap) {
  struct extent_tree *tree = &heap->extent.tree[PAGES];
  struct span *page = found(tree);
  unsigned w = tree->word++;
  uint64_t words = (uint64_t)page->length * page->reciprocal;
  if (w == REMOTE_WORDS - 1 || words <= ONE_WORD) {
    pass(tree);
    tree->word = 0;
    if (RTM_UNLIKELY(!words)) return NULL;
  }
  return page_remote_word(page, w) ? collect_word(heap, page, w) : NULL;
}

// An empty page waits until there is time for it. Nobody looks while EXTENT_WAITING do.
RTM_INLINE void wait_for_time(struct heap *heap, struct span *page) {
  segment_wait(heap, page);
  heap->extent.waiting_length = page->length;
  heap->extent.waiting++;
}

static RTM_NOINLINE void look(struct heap *heap) {
  struct span *page = look_at_page(heap);
  if (page) wait_for_time(heap, page);
}

RTM_INLINE bool may_look(const struct heap *heap) { return RTM_LIKELY(heap->extent.waiting < EXTENT_WAITING); }

RTM_INLINE struct span *pop_waiting(struct heap *heap) {
  struct span *span = span_at(heap->waiting);
  heap->waiting = span->next;
  heap->extent.waiting_length = span_at(span->next)->length;
  heap->extent.waiting--;
  return span;
}

RTM_INLINE void look_in_next_leaf(struct heap *heap) {
  struct extent_tree *tree = &heap->extent.tree[PAGES];
  take_leaf(tree);
  if (RTM_LIKELY(tree->bits != 0)) look(heap);
}

// No free span is enough (extent_start): from then on as much as possible comes back, and new pages are short.
RTM_INLINE bool is_scarce(const struct heap *heap) { return RTM_UNLIKELY(heap->extent.lists < heap->extent.enough); }

// Between two groups REST bytes are handed out, unless memory is scarce: blocks that are looked for less often come
// back more at a time (remote.h). Not a mere question: it counts. Where there is something to look at it is not asked,
// so that the longest operations do not pay for it.
RTM_INLINE bool rests(struct heap *heap, size_t class) {
  if (heap->rest <= 0 || is_scarce(heap)) return false;
  heap->rest -= (int32_t)rtm_shape[class].block_size * AT_HAND;
  return true;
}

// One piece of what is to be done for the heap, which may look. False, and nothing done: there was nothing.
RTM_INLINE bool tidy(struct heap *heap, size_t class) {
  struct extent_tree *tree = &heap->extent.tree[PAGES];
  if (tree->bits) {
    look(heap);
  } else if (tree->leaves) {
    look_in_next_leaf(heap);
  } else if (rests(heap, class)) {
    return false;
  } else if (top_bits(tree)) {
    take_next_group(heap, tree);
  } else {
    next_top(tree);
    return false;
  }
  return true;
}

// ---- pages ----

RTM_INLINE void **link_one(void **link, char *start, uint32_t size, uint64_t *bits) {
  void **block = (void **)(start + (size_t)bits_lowest(*bits) * size);
  *bits &= *bits - 1;
  *link = block;
  return block;
}

// Links up to eight of the private blocks, of which there is one at least; written out.
RTM_INLINE void link_private(struct span *page) {
  enum { MOST = 8 };
  unsigned w = page_private_word(page);
  uint64_t bits = page->private[w];
  uint32_t size = rtm_shape[page->kind].block_size;
  char *start = page->start + (size_t)w * 64 * size;
  void **link = link_one(&page->free, start, size, &bits);
#pragma GCC unroll 8
  for (unsigned i = 1; i < MOST; i++)
    if (bits) link = link_one(link, start, size, &bits);
  *link = NULL;
  page->private[w] = bits;
  if (!page_private_any(page)) page->flags &= (uint8_t)~PAGE_COLLECTED;
}

// In the secure variant: whether the next block is chosen, too, and then each that comes after it, as long as there are
// any. Their requests do no piece of what is to be done for the heap.
RTM_INLINE bool may_choose_ahead(const struct heap *heap) {
  const struct extent_tree *tree = &heap->extent.tree[PAGES];
  return !tree->bits && !tree->leaves && !top_bits(tree) && !is_scarce(heap);
}

// The first of eight fresh blocks, of which the others are linked, written out. Of blocks above 1 KiB one alone, as
// eight would be in many pages of the system; and of the last of a page where they are fewer.
RTM_INLINE void *take_fresh(struct heap *heap, struct span *page) {
  enum { MOST = 8 };
  if (SECURE_VARIANT) return secure_extend(page, may_choose_ahead(heap));
  uint32_t size = rtm_shape[page->kind].block_size;
  uint32_t left = page_blocks(page) - page->fresh;
  if (size > GRANULE_SIZE / 4 || left < MOST) return page_extend_one(page);
  if (left == MOST) page->flags &= (uint8_t)~PAGE_FRESH;
  char *block = page->start + (size_t)page->fresh * size, *link = block + size;
  page->used++;
  page->fresh += MOST;
  page->free = link;
#pragma GCC unroll 8
  for (unsigned i = 0; i < MOST - 2; i++, link += size) *(void **)link = link + size;
  *(void **)link = NULL;
  return block;
}

// Where there is nothing else to be done, `class` being served. A class with a queue keeps a current page.
RTM_INLINE void visit(struct heap *heap, unsigned class) {
  struct span *idle = page_take_idle(heap, class);
  if (!idle) return;
  uint32_t queued = heap->queue[idle->kind].head;
  if (queued) page_make_current(heap, page_dequeue_first(heap, idle->kind, queued));
  wait_for_time(heap, idle);
}

// A class is visited in every ROUNDth operation that finds nothing to collect. Where memory is scarce, in every
// ROUND_SCARCEth whatever there is to collect: it may never end, and the pages of classes that are no longer asked for
// would wait behind it.
enum { ROUND = 8, ROUND_SCARCE = 4 };

// Memory is scarce. One piece of what is to be done, a shorter one than in `tidy`.
RTM_INLINE void save(struct heap *heap, unsigned class) {
  struct extent_tree *tree = &heap->extent.tree[PAGES];
  if (!may_look(heap)) {
    give_page(heap, pop_waiting(heap));
  } else if (heap->turn++ % ROUND_SCARCE == 0) {
    visit(heap, class);
  } else if (tree->bits) {
    look(heap);
  } else if (tree->leaves) {
    take_leaf(tree);
  } else if (top_bits(tree)) {
    take_group(heap, tree);
  } else {
    next_top(tree);
  }
}

// Apart, as calls would cost the other way its registers.
static RTM_NOINLINE RTM_CODE_TOGETHER void *take_one_collected(struct heap *heap, struct span *page) {
  save(heap, page->kind);
  return page_take_private(page);
}

static RTM_NOINLINE RTM_CODE_TOGETHER void *take_collected(struct heap *heap, struct span *page) {
  if (is_scarce(heap)) return take_one_collected(heap, page);
  if (SECURE_VARIANT) {
    if (may_look(heap))
      tidy(heap, page->kind);
    else
      give_page(heap, pop_waiting(heap));
    return secure_refill(page, may_choose_ahead(heap));
  }
  link_private(page);
  return page_take_linked(page);
}

// The class's page has fresh blocks. One of them is a short way, which leaves time for something else; where there is
// nothing to collect, for a visit of a class now and then.
static RTM_NOINLINE RTM_CODE_TOGETHER void *extend(struct heap *heap, struct span *page) {
  if (!may_look(heap)) {
    void *block = page_extend_one(page);
    give_page(heap, pop_waiting(heap));
    return block;
  }
  if (tidy(heap, page->kind)) return page_extend_one(page);
  if (heap->turn++ % ROUND && !is_scarce(heap)) return take_fresh(heap, page);
  visit(heap, page->kind);
  return page_extend_one(page);
}

// The page, which was queued, has a block that is linked.
RTM_INLINE void *serve(struct heap *heap, size_t class, struct span *page) {
  page_replace_current(heap, class, page);
  if (SECURE_VARIANT) {
    page->used++;
    return page_has_linked(page) ? page_take_linked(page) : secure_refill(page, may_choose_ahead(heap));
  }
  void *block = page->free;
  page->free = *(void **)block;
  page->used += 2;
  return block;
}

RTM_INLINE void *serve_first(struct heap *heap, size_t class, size_t head) {
  return serve(heap, class, page_dequeue_first(heap, (unsigned)class, (uint32_t)head));
}

// Another page of the class has free blocks. The fuller of two serves if there is nothing else to be done: the same
// pieces as in `tidy`, asked for before, as a piece may change the queue.
static RTM_NOINLINE RTM_CODE_TOGETHER void *take_queued(struct heap *heap, size_t class, size_t head) {
  struct extent_tree *tree = &heap->extent.tree[PAGES];
  if (tree->bits) {
    void *block = serve_first(heap, class, head);
    if (may_look(heap)) look(heap);
    return block;
  }
  if (tree->leaves) {
    void *block = serve_first(heap, class, head);
    if (may_look(heap)) look_in_next_leaf(heap);
    return block;
  }
  if (!rests(heap, class) && top_bits(tree)) {
    void *block = serve_first(heap, class, head);
    if (may_look(heap)) take_next_group(heap, tree);
    return block;
  }
  if (page_wants_another(heap, (unsigned)class, span_at((uint32_t)head)) && !is_scarce(heap))
    heap->extent.wanting = (uint8_t) class;
  next_top(tree);
  return serve(heap, class, page_dequeue_fuller(heap, (unsigned)class, (uint32_t)head));
}

RTM_INLINE void *begin(struct heap *heap, size_t class, struct span *page, uint32_t index, uint32_t length) {
  page_begin(heap, class, page);
  page->hint = (struct hint_word *)((uintptr_t)page->hint & ~(uintptr_t)EXTENT_LEAF);
  page_set_table(index, length, index);
  page_replace_current(heap, class, page);
  return page_first_block(page);
}

// The page that waits is as long as the class's longest, or a little longer: it is neither joined nor cut, and what
// leads to it stays, which leaves time.
enum { LONGER_MOST = 5 };
static RTM_NOINLINE RTM_CODE_TOGETHER void *take_waiting(struct heap *heap, size_t class) {
  struct span *page = pop_waiting(heap);
  heap->pages[page->kind]--;
  page_begin(heap, class, page);
  page_replace_current(heap, class, page);
  if (heap->extent.tree[PAGES].bits) look(heap);
  return page_first_block(page);
}

// The extent has no span for a page of this length: a chunk becomes part of it.
static RTM_NOINLINE RTM_CODE_TOGETHER void *take_of_chunk(struct heap *heap, size_t class, uint32_t length) {
  uint32_t index;
  struct span *page = take_chunk(heap, &index);
  if (RTM_UNLIKELY(!page)) return alloc_miss(rtm_shape[class].block_size);
  _Static_assert((int)PAGE_GRANULES_MAX < (int)EXTENT_CHUNK, "something is left of a chunk");
  cut_rest(heap, page, index, length, EXTENT_CHUNK - length);
  return begin(heap, class, page, index, length);
}

static RTM_NOINLINE RTM_CODE_TOGETHER void *take_new(struct heap *heap, size_t class) {
  uint32_t index, length = is_scarce(heap) ? page_first_length(class) : page_next_length(heap, class);
  struct span *page = take(heap, length, &index);
  return RTM_LIKELY(page != NULL) ? begin(heap, class, page, index, length) : take_of_chunk(heap, class, length);
}

// The class has wanted one page more, the last time that one of its queued pages served.
static RTM_NOINLINE RTM_CODE_TOGETHER void *take_another(struct heap *heap, size_t class, size_t head) {
  uint32_t index, length = page_next_length(heap, class);
  heap->extent.wanting = 0;
  struct span *page = take(heap, length, &index);
  return RTM_LIKELY(page != NULL) ? begin(heap, class, page, index, length) : serve_first(heap, class, head);
}

void *extent_malloc_any(struct heap *heap, size_t size) {
  struct span *page = heap->page[size_class(size)];
  return page_has_linked(page) ? page_take_linked(page) : extent_malloc(heap, page, size);
}

RTM_CODE_TOGETHER void *extent_malloc(struct heap *heap, struct span *page, size_t size) {
  if (page->flags & PAGE_FRESH) return extend(heap, page);
  if (page_has_private(page)) return take_collected(heap, page);
  size_t class = size_class(size);
  uint32_t queued = heap->queue[class].head;
  if (queued)
    return heap->extent.wanting == class ? take_another(heap, class, queued) : take_queued(heap, class, queued);
  uint32_t longer = heap->extent.waiting_length - rtm_shape[class].granules_most;
  return RTM_UNLIKELY(longer <= LONGER_MOST) ? take_waiting(heap, class) : take_new(heap, class);
}

// ---- medium blocks ----

static uint32_t granules_for(size_t size) { return (uint32_t)((size + GRANULE_SIZE - 1) >> GRANULE_SHIFT); }

RTM_INLINE void *start(struct heap *heap, struct span *span, uint32_t index, uint32_t length) {
  uint32_t *table = rtm_window_table + index;
  table[0] = index;
  table[length - 1] = index;
  span->kind = SPAN_MEDIUM;
  span->used = 1;
  span->reciprocal = 0;
  span->flags = 0;
  span->hint = (struct hint_word *)((uintptr_t)span->hint | EXTENT_LEAF);
  span_set_tag(span, (uintptr_t)heap | TAG_SLOW);
  return span->start;
}

// As many blocks come back as go out: the span of one that another thread has freed. NULL: none.
RTM_INLINE struct span *take_freed(struct heap *heap) {
  struct extent_tree *tree = &heap->extent.tree[MEDIUMS];
  if (!tree->bits) {
    if (!tree->leaves) {
      if (!top_bits(tree)) {
        next_top(tree);
        return NULL;
      }
      take_group(heap, tree);
      if (!tree->leaves) return NULL;
    }
    take_leaf(tree);
    if (!tree->bits) return NULL;
  }
  struct span *span = found(tree);
  pass(tree);
  // A bit that comes late may lead to what is a page now.
  if (RTM_UNLIKELY(span->kind != SPAN_MEDIUM) || !page_remote_word(span, 0)) return NULL;
  atomic_store_explicit(&span->remote[0], 0, memory_order_relaxed);
  return span;
}

// As `take`, and before that the first span of the list below those of which every span is long enough, if that is.
// (Where all blocks have one length, that is where they come back to.) 2 granules or more.
RTM_INLINE struct span *take_span(struct heap *heap, uint32_t length, uint32_t *index) {
  unsigned number = heap->extent.list_for[length];
  struct extent_list *list = &heap->extent.list[number - 1];
  if (!list->first || list->first->length < length) {
    uint64_t found = heap->extent.lists & ~UINT64_C(0) << number;
    if (RTM_UNLIKELY(!found)) return NULL;
    list = &heap->extent.list[bits_lowest(found)];
  }
  return take_first(heap, list, length, index);
}

// A freed block that fits serves at once, as it is, and leaves time for another.
static RTM_NOINLINE RTM_CODE_TOGETHER void *large_of_freed(struct heap *heap, struct span *freed) {
  struct span *other = take_freed(heap);
  if (other) give(heap, other);
  return freed->start;
}

static RTM_NOINLINE RTM_CODE_TOGETHER void *large_of_chunk(struct heap *heap, size_t size, uint32_t length) {
  uint32_t index;
  struct span *span = length <= EXTENT_CHUNK ? take_chunk(heap, &index) : NULL;
  if (RTM_UNLIKELY(!span)) return alloc_miss(size);
  if (length < EXTENT_CHUNK) cut_rest(heap, span, index, length, EXTENT_CHUNK - length);
  return start(heap, span, index, length);
}

RTM_CODE_TOGETHER void *extent_large(struct heap *heap, size_t size) {
  uint32_t length = granules_for(size);
  struct span *freed = take_freed(heap);
  if (freed) {
    if (extent_fits(freed->length, length)) return large_of_freed(heap, freed);
    give(heap, freed);
  }
  uint32_t index;
  struct span *span = take_span(heap, length, &index);
  return RTM_LIKELY(span != NULL) ? start(heap, span, index, length) : large_of_chunk(heap, size, length);
}

// Cuts the span, which is in use, after `length` granules; what follows may be free.
RTM_INLINE void shorten(struct heap *heap, struct span *span, uint32_t length) {
  struct span *rest = span + length;
  rest->length = span->length - length;
  rest->kind = SPAN_MEDIUM;
  segment_set_ends(rest);
  span->length = length;
  segment_set_ends(span);
  give(heap, rest);
}

// What is too much in front and behind goes back.
void *extent_aligned(struct heap *heap, size_t size, size_t alignment) {
  uint32_t length = granules_for(size), unit = (uint32_t)(alignment >> GRANULE_SHIFT);
  if (size > EXTENT_MAX || alignment > EXTENT_MAX || length + unit - 1 > EXTENT_SPAN_MAX) return NULL;
  struct span *freed = take_freed(heap);
  if (freed) give(heap, freed);
  uint32_t index;
  struct span *span = take_span(heap, length + unit - 1, &index);
  if (!span && length + unit - 1 <= EXTENT_CHUNK && (span = take_chunk(heap, &index)))
    cut(heap, span, index, length + unit - 1);
  if (RTM_UNLIKELY(!span)) return NULL;
  uint32_t skip = -index & (unit - 1);
  struct span *aligned = span + skip;
  aligned->length = span->length - skip;
  void *block = start(heap, aligned, index + skip, aligned->length);
  if (skip) {
    span->length = skip;
    span->kind = SPAN_MEDIUM;
    segment_set_ends(span);
    give(heap, span);
  }
  if (aligned->length > length) shorten(heap, aligned, length);
  return block;
}

void extent_collect(struct heap *heap) {
  struct extent_tree *mediums = &heap->extent.tree[MEDIUMS], *pages = &heap->extent.tree[PAGES];
  for (;;) {
    struct span *freed = take_freed(heap);
    if (freed) give(heap, freed);
    heap->rest = 0;
    tidy(heap, 0);
    while (heap->extent.waiting) give_page(heap, pop_waiting(heap));
    bool more = mediums->bits | mediums->leaves | pages->bits | pages->leaves;
    for (unsigned top = 0; top < HINT_TOPS; top++)
      more |= atomic_load_explicit(&heap->hints.top[top].bits, memory_order_seq_cst) != 0;
    if (!more) break;
  }
}

void *extent_late(struct heap *heap, size_t size) {
  extent_collect(heap);
  uint32_t index;
  struct span *span;
  if (size > BLOCK_MAX) {
    uint32_t length = granules_for(size);
    span = take_span(heap, length, &index);
    return span ? start(heap, span, index, length) : NULL;
  }
  unsigned class = size_class(size);
  struct span *page = heap->page[class];
  if (page_has_linked(page)) return page_take_linked(page);
  if (page_has_private(page)) return take_collected(heap, page);
  if (heap->queue[class].head) return take_queued(heap, class, heap->queue[class].head);
  uint32_t length = page_next_length(heap, class);
  span = take(heap, length, &index);
  if (!span) span = take(heap, length = page_first_length(class), &index);
  return span ? begin(heap, class, span, index, length) : NULL;
}

static bool has_span(const struct heap *heap, uint32_t length) {
  return heap->stores->extent_max && heap->extent.lists & ~UINT64_C(0) << heap->extent.list_for[length];
}

bool extent_has_span(const struct heap *heap, size_t size) { return has_span(heap, granules_for(size)); }

bool extent_may_open(const struct heap *heap, unsigned class) {
  return !heap->pages[class] && has_span(heap, page_next_length(heap, class));
}

void extent_close(struct heap *heap, unsigned class) {
  struct span *page = heap->page[class];
  heap->page[class] = &rtm_no_page;
  page->used--;
  give_page(heap, page);
}

static RTM_NOINLINE void *grow(struct heap *heap, struct span *span, struct span *after, uint32_t granules) {
  CHECK_SCOPE();
  take_out(heap, after);
  span->length += after->length;
  cut(heap, span, span_index(span), granules);
  segment_set_ends(span);
  return span->start;
}

void *extent_resize(struct heap *heap, struct span *span, size_t size, size_t had) {
  uint32_t granules = granules_for(secure_pad(size)), length = span->length;
  if (granules > length) {
    struct span *after = span + length;
    bool fits = after->kind == SPAN_FREE && after->length >= granules - length;
    return fits ? grow(heap, span, after, granules) : alloc_move(span->start, size, had);
  }
  CHECK_SCOPE();
  if (granules < length) shorten(heap, span, granules);
  return span->start;
}

// ---- for the checker ----

const char *extent_check(const struct extent *extent, uint32_t free_spans) {
  uint32_t listed = 0;
  for (unsigned list = 0; list < EXTENT_LISTS; list++) {
    struct span *const *link = &extent->list[list].first;
    if (!(extent->lists >> list & 1) != !*link) return "a list's bit says whether it has any";
    for (struct span *span = *link; span; link = &span->extent_next, span = *link) {
      if (span->kind != SPAN_FREE) return "an extent's lists hold free spans";
      if (extent->list_of[span->length] != list * sizeof *extent->list)
        return "a free span is in the list of its length";
      if (span->extent_link != link) return "an extent's lists are linked both ways";
      if (span_index(span) != span_granule(span)) return "a descriptor of an extent has its granule's number";
      if (++listed > free_spans) return "every listed span is in a segment of the heap, once";
    }
  }
  return listed == free_spans ? NULL : "every free span is listed";
}
