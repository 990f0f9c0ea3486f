// Checks every invariant of a heap (rtm_check); the equations are in span.h, tlsf.h and heap.h. Layer: above page.
// Linear in the heap; used by the tests, by fuzzing, and by the debug variant as it runs.
#include "check.h"

#include "hooks.h"
#include "message.h"
#include "page.h"
#include "rtmalloc.h"
#include "store.h"

#define REQUIRE(condition, sentence)   \
  do {                                 \
    if (!(condition)) return sentence; \
  } while (0)

static uint32_t private_blocks(const struct span *page) {
  uint32_t blocks = 0;
  for (unsigned w = 0; w < REMOTE_WORDS; w++) blocks += bits_count(page->private[w]);
  return blocks;
}

static uint32_t remote_blocks(struct span *page) {
  uint32_t blocks = 0;
  for (unsigned w = 0; w < REMOTE_WORDS; w++)
    blocks += bits_count(atomic_load_explicit(&page->remote[w], memory_order_relaxed));
  return blocks;
}

static bool is_block(const struct span *page, const void *block) {
  uintptr_t offset = (uintptr_t)block - (uintptr_t)page->start;
  return offset % rtm_shape[page->kind].block_size == 0 && offset / rtm_shape[page->kind].block_size < page->fresh;
}

static const char *check_page(const struct heap *heap, struct span *page) {
  const struct class_shape *shape = &rtm_shape[page->kind];
  uint32_t blocks = page_blocks(page), listed = 0;
  REQUIRE(page->reciprocal == shape->reciprocal, "a page has its class's reciprocal");
  uint32_t most = heap->keeps_class_pages ? size_class_granules(page->kind) : shape->granules_most;
  REQUIRE(page->length - span_guard() <= most ||
              page->length <= 3 ||  // a segment without descriptors (segment.c)
              (heap->stores && page->length <= PAGE_GRANULES_MAX),
          "a page is no longer than its class allows");
  REQUIRE(blocks * rtm_shape[page->kind].block_size <= page->length << GRANULE_SHIFT,
          "a page's blocks fit in its span");
  REQUIRE(page->fresh <= blocks, "a page's fresh blocks are among its blocks");
  if (page->flags & SPAN_WAITS) {
    REQUIRE(!page->used && !remote_blocks(page), "a waiting page has no block in use");
    REQUIRE(span_tag(page) == TAG_NONE, "a waiting page belongs to nobody");
    return NULL;
  }
  REQUIRE(!(page->flags & PAGE_FRESH) == (page->fresh == blocks), "a page knows whether it has fresh blocks");
  for (uint32_t i = 0; i < page->length; i++)
    REQUIRE(span_of(span_granule(page) + i) == page, "each granule of a page leads to it");
  for (void *block = page->free; block; block = page_linked_after(block)) {
    REQUIRE(is_block(page, block), "a link of the free list leads to a block of its page");
    REQUIRE(++listed <= blocks, "the free list ends");
  }
  REQUIRE(!SECURE_VARIANT || heap->page[page->kind] != page ||
              (page->hand < sizeof page->private && page->hand_size == shape->block_size),
          "a current page has one of its words at hand, and its class's size");
  uint32_t held = page->used - (heap->page[page->kind] == page);
  REQUIRE(held + listed + private_blocks(page) + (blocks - page->fresh) == blocks,
          "used, listed, private and fresh blocks add up");
  REQUIRE(remote_blocks(page) <= held, "blocks freed by other threads count as used");
  uintptr_t tag = span_tag(page);
  REQUIRE((tag & ~(uintptr_t)TAG_SLOW) == (uintptr_t)heap, "a page belongs to the heap of its segment");
  if (tag & TAG_SLOW) {
    REQUIRE(!listed && !private_blocks(page) && page->fresh == blocks, "a full page has no block to give");
    REQUIRE(heap->page[page->kind] != page, "a full page is not current");
  }
  return NULL;
}

static const char *check_free_span(struct span *span) {
  REQUIRE(span_tag(span) == TAG_NONE, "a free span belongs to nobody");
  REQUIRE(span->used <= span->length, "a free span has no more dirty granules than granules");
  REQUIRE(span_of(span_granule(span)) == span && span_of(span_granule(span) + span->length - 1) == span,
          "a free span is found from both ends");
  return NULL;
}

// What the walk over the segments has counted, to be compared with the heap's own figures.
struct census {
  uint32_t segments, live, dirty, free_spans, pages[CLASSES + 1];
};

static const char *check_granules(const struct heap *heap, uint32_t at, uint32_t end, struct census *census) {
  uint32_t segment = segment_of_granule(at);
  bool free_before = false;
  while (at < end) {
    struct span *span = span_of(at);
    REQUIRE(span->kind != SPAN_NONE, "spans follow each other without a gap");
    REQUIRE(span_granule(span) == at && span->length > 0 && span->length <= end - at,
            "a span starts where the last ended");
    const char *broken = NULL;
    if (span->kind == SPAN_FREE) {
      REQUIRE(!free_before, "two free neighbours are one span");
      broken = check_free_span(span);
      census->dirty += span->used;
      census->free_spans++;
    } else {
      census->live += span->length;
      if (span_is_page(span)) {
        census->pages[span->kind]++;
        broken = check_page(heap, span);
      } else {
        REQUIRE(span->kind == SPAN_MEDIUM, "a heap's segment holds pages, medium blocks and free spans");
        REQUIRE(!(span->flags & SPAN_WAITS) || (span_tag(span) == TAG_NONE && !remote_blocks(span)),
                "a waiting span belongs to nobody");
      }
    }
    if (broken) return broken;
    REQUIRE(span->kind == SPAN_FREE || at % SEGMENT_GRANULES + span->length <= segment_at(segment)->mapped,
            "what is in use is mapped");
    free_before = span->kind == SPAN_FREE;
    at += span->length;
  }
  return NULL;
}

static const char *check_tlsf(const struct tlsf *tlsf, uint32_t free_spans) {
  uint32_t listed = 0;
  for (uint32_t list = 0; list < TLSF_LISTS; list++) {
    REQUIRE(!(tlsf->bits[list / 64] >> list % 64 & 1) == !tlsf->head[list], "a list's bit says whether it has any");
    struct span *const *link = &tlsf->head[list];
    for (struct span *span = *link; span; link = &span->free_next, span = *link) {
      REQUIRE(span->kind == SPAN_FREE, "TLSF lists hold free spans");
      REQUIRE((span->used ? SPANS_DIRTY : SPANS_CLEAN) + tlsf_list_of(span->length) == list && span->list == list,
              "a free span is in the list of its set and length");
      REQUIRE(span->free_link == link, "TLSF lists are linked both ways");
      REQUIRE(++listed <= free_spans, "every listed span is in a segment of the heap, once");
    }
  }
  REQUIRE(listed == free_spans, "every free span is listed");
  return NULL;
}

static const char *check_queues(const struct heap *heap) {
  for (unsigned class = 1; class <= CLASSES; class ++) {
    uint32_t before = 0, pages = 0;
    for (uint32_t i = heap->queue[class].head; i; before = i, i = span_at(i)->next) {
      struct span *page = span_at(i);
      REQUIRE(page->kind == class, "a queue holds pages of its class");
      REQUIRE(span_tag(page) == (uintptr_t)heap, "a queued page is this heap's and not full");
      REQUIRE(heap->page[class] != page, "the current page is not queued");
      REQUIRE(page->prev == before, "queues are linked both ways");
      REQUIRE(page->free || private_blocks(page) || page->fresh < page_blocks(page),
              "a queued page has a block");
      REQUIRE(++pages <= heap->pages[class], "a queue ends");
    }
    REQUIRE(heap->queue[class].tail == before, "a queue's tail is its last page");
  }
  return NULL;
}

const char *check_heap(const struct heap *heap) {
  struct census census = {0};
  uint32_t known = (uint32_t)(RTM_READ_RELAXED(rtm_window_granules) / SEGMENT_GRANULES);
  for (uint32_t segment = 1; segment < known; segment++) {
    if (__atomic_load_n(&segment_at(segment)->heap, __ATOMIC_RELAXED) != heap) continue;
    census.segments++;
    uint32_t first = segment * SEGMENT_GRANULES;
    const char *broken = check_granules(heap, first, first + SEGMENT_USED, &census);
    if (broken) return broken;
  }
  uint64_t turn = 0;
  for (uint32_t first, length; (first = extent_piece(heap, &turn, &length));) {
    const char *broken = check_granules(heap, first, first + length, &census);
    if (broken) return broken;
  }
  REQUIRE(census.segments == heap->segments, "the heap knows how many segments it has");
  if (heap->stores) {
    for (unsigned class = 1; class <= CLASSES; class ++)
      REQUIRE(census.pages[class] == heap->pages[class], "the heap knows how many pages each class has");
    const char *broken = extent_check(&heap->extent, census.free_spans);
    return broken ? broken : check_queues(heap);
  }
  REQUIRE(census.live == heap->live, "live granules add up");
  REQUIRE(census.dirty == heap->dirty, "dirty granules add up");
  for (unsigned class = 1; class <= CLASSES; class ++)
    REQUIRE(census.pages[class] == heap->pages[class], "the heap knows how many pages each class has");
  const char *broken = check_tlsf(&heap->spans, census.free_spans);
  return broken ? broken : check_queues(heap);
}

static _Thread_local bool in_operation __attribute__((tls_model("initial-exec")));

bool check_begins(void) {
  bool outer = in_operation;
  if (outer && !hooks_inside())
    message_misuse(rtm_heap, "invalid call",
                   "malloc or free by a signal handler that has interrupted one of the same thread");
  in_operation = true;
  return outer;
}

void check_ends(bool outer) { in_operation = outer; }

// The larger the heap, the rarer: a constant share of the run.
void check_operation(struct heap *heap) {
  // Initial-exec: the first use in a thread must not allocate, in the middle of an operation.
  static _Thread_local uint64_t operations __attribute__((tls_model("initial-exec")));
  static _Thread_local uint64_t next __attribute__((tls_model("initial-exec"))) = 1;
  if (++operations < next) return;
  next = operations + 512 * ((uint64_t)heap->segments * heap->segments + 1);
  const char *broken = check_heap(heap);
  if (broken) message_misuse(heap, "the heap is damaged, or rtmalloc is wrong; this does not hold", broken);
}

void check_free(struct span *span, const void *block) {
  if (!span_is_page(span)) return;
  if (!is_block(span, block)) message_misuse(block, "invalid free", "the pointer lies inside a block");
  for (void *free = span->free; free; free = page_linked_after(free))
    if (free == block) message_misuse(block, "double free", "the block is in its page's free list");
  uint32_t number = (uint32_t)((size_t)((const char *)block - span->start) / rtm_shape[span->kind].block_size);
  uint64_t word = span->private[number / 64] | atomic_load_explicit(&span->remote[number / 64], memory_order_relaxed);
  if (word >> (number % 64) & 1) message_misuse(block, "double free", "the block was freed before, by another thread");
}

const char *rtm_check(void) { return rtm_heap == &rtm_no_heap ? NULL : check_heap(rtm_heap); }
