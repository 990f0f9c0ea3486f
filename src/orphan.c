// Frees into the heap of a thread that has exited. See remote.h; docs/remote-free.md has the argument.
//
// The freeing thread is the heap's owner for the length of the call, if no other is: then memory goes back at once. If
// another is, the block goes the remote way. When its thread exits nothing is left to collect (heap_orphan), and who
// leaves the heap looks whether others have marked blocks meanwhile. So only where threads free into one heap at the
// same moment is such a free longer than an owner's.
#include "check.h"
#include "medium.h"
#include "options.h"
#include "page_parts.h"
#include "remote.h"
#include "segment.h"
#include "stats.h"

static void count(const struct span *span) {
  if (rtm_options.count) stats_count_free(span->kind, (size_t)span->length << GRANULE_SHIFT);
}

// One piece of what has been marked.
static RTM_NOINLINE void unowned_help(struct heap *heap) {
  if (!hint_pending(&heap->hints) || !heap_claim(heap)) return;
  remote_collect(heap);
  page_release_waiting(heap);
  hint_empty_stash(&heap->hints);  // where the next to help finds it
  heap_unclaim(heap);
}

RTM_INLINE void leave(struct heap *heap) {
  heap_unclaim(heap);
  if (RTM_UNLIKELY(hint_pending_usual(&heap->hints))) unowned_help(heap);
}

static RTM_NOINLINE void unowned_contended(struct heap *heap, struct span *span, void *block) {
  count(span);
  remote_mark(span, block);
  if (!heap->record) unowned_help(heap);
}

// As its owner would; but while a profile is recorded it waits for the next one, as in the heap that is made of it.
static RTM_NOINLINE void unowned_unusual(struct heap *heap, struct span *span, void *block) {
  count(span);
  if (heap->record) {
    remote_mark(span, block);
    heap_unclaim(heap);
    return;
  }
  if (RTM_UNLIKELY(span_is_page(span) && span->free == block)) remote_free_twice(block);
  local_free(heap, span, block);
  page_release_waiting(heap);
  heap_unclaim(heap);
  unowned_help(heap);
}

// ---- the usual way: no operation has room for what the heap as a whole needs, but what it brings back goes back ----

// Its contents go back to the system. (As segment_purge, but nothing is learned for a heap that no thread has.)
RTM_INLINE void purge(struct heap *heap, struct span *span) {
  if (RTM_LIKELY(segment_purge_contents(span))) {
    segment_insert_clean(heap, span);
  } else {
    heap->apart = true;
    segment_purge_unusual(heap, span);
  }
}

// (What is live does not count here: the heap's next thread may need none.)
RTM_INLINE bool has_too_much(const struct heap *heap) { return RTM_LIKELY(heap->dirty > heap->keep); }

static RTM_NOINLINE void unowned_span(struct heap *heap, struct span *span, void *block) {
  medium_check_free(span, block);
  hint_detach(span);
  span = segment_join(heap, span, segment_all(span));
  if (!has_too_much(heap))
    segment_insert_dirty(heap, span);
  else if (span->length == SEGMENT_USED && arena_has_room())
    segment_disown(heap, span);
  else
    purge(heap, span);
  leave(heap);
}

static RTM_NOINLINE void unowned_full(struct heap *heap, struct span *page, void *block) {
  page_put_in_full(heap, page, block);
  leave(heap);
}

static RTM_NOINLINE void unowned_emptied(struct heap *heap, struct span *page) {
  if (RTM_LIKELY(!page_is_only(page)) || !page_may_stay(heap, page)) {
    unsigned class = page->kind;
    page_unlink(heap, class, page);
    heap->pages[class]--;
    hint_detach(page);
    page = segment_join(heap, page, segment_all(page));
    if (has_too_much(heap))
      purge(heap, page);
    else
      segment_insert_dirty(heap, page);
  }
  leave(heap);
}

static RTM_NOINLINE void give_whole(struct heap *heap, struct span *whole) {
  tlsf_remove(&heap->spans, whole);
  segment_disown(heap, whole);
  leave(heap);
}

// A segment that pages have left whole goes to the arena with a free that has little to do itself.
RTM_INLINE void in_used_page(struct heap *heap) {
  struct span *whole = heap->spans.head[SPANS_CLEAN + LIST_OF_WHOLE];
  if (RTM_UNLIKELY(whole != NULL) && arena_has_room())
    give_whole(heap, whole);
  else
    leave(heap);
}

RTM_INLINE void unowned_page(struct heap *heap, struct span *page, void *block) {
  void *first = page->free;
  if (RTM_UNLIKELY(first == block)) {
    remote_free_twice(block);
    return;
  }
  *(void **)block = first;
  page->free = block;
  page->used--;
  if (page->used)
    in_used_page(heap);
  else
    unowned_emptied(heap, page);
}

bool remote_frees_apart(const struct heap *heap) {
  return SECURE_VARIANT || DEBUG_VARIANT || heap->unusual || rtm_options.count || heap->purges_unusually ||
         hint_has_far(&heap->hints);
}

void remote_free_unowned(struct heap *heap, struct span *span, void *block) {
  if (RTM_UNLIKELY(!heap_claim(heap)))
    unowned_contended(heap, span, block);
  else if (RTM_UNLIKELY(heap->apart))
    unowned_unusual(heap, span, block);
  else if (span->kind == SPAN_MEDIUM)
    unowned_span(heap, span, block);
  else if (RTM_UNLIKELY(page_is_full(span)))
    unowned_full(heap, span, block);
  else
    unowned_page(heap, span, block);
}
