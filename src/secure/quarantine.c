// Delayed reuse: what a thread frees of its own heap waits in rings of a fixed size, and the block that has waited
// longest is freed instead. See secure.h.
//
// A block of a page that waits is a bit of `waits`, and counts as in use. Others are marked as if another thread had
// freed them, without the hints that lead their owner there. So a second free is seen for certain. If the owner of a
// medium block is led there by others' frees it takes the block too, and the wait is shorter; what the ring has of it
// then leads to a block without the mark, and is passed over.
#include "../alloc.h"
#include "../medium.h"
#include "../options.h"
#include "../stats.h"
#include "../store.h"
#include "secure.h"

enum {
  SMALL_BYTES = 1024,  // 256 KiB at most wait in the ring of small blocks,
  SMALL = 256,
  LARGER = 32,  // 1 MiB in that of larger blocks in pages,
  MEDIUM = 4,   // 8 MiB in that of medium blocks;
  HUGE = 4,     // addresses only: these are unmapped
};

struct quarantine {
  uint32_t small_at, larger_at, medium_at, huge_at;
  void *small[SMALL], *larger[LARGER], *medium[MEDIUM];
  struct span *huge[HUGE];
};

bool secure_heap_made(struct heap *heap) {
  uint64_t random = secure_random(heap);
  heap->order = random ? random | 1 : 0;
  if (!(rtm_secure.features & SECURE_QUARANTINE)) return true;
  heap->quarantine = arena_metadata(sizeof *heap->quarantine);
  if (!heap->quarantine) return false;
  // Touched now, so that no free faults for it.
  *heap->quarantine = (struct quarantine){0};
  return true;
}

// ---- marks ----

static uint64_t store_number(const struct span *store, const void *block) {
  uint64_t offset = (uint64_t)((const char *)block - store->start);
  return (uint64_t)(((unsigned __int128)offset * store->store_reciprocal) >> 64);
}

static void release_store(struct span *store, const void *block) {
  uint64_t number = store_number(store, block);
  store_raise(store->store_level[1], number /= 64);
  store_raise(store->store_level[2], number /= 64);
  store_raise(store->store_level[3], number / 64);
}

// The span may be another one by now, if the block was collected before.
static RTM_NOINLINE void release_medium(struct heap *heap, struct span *span, void *block) {
  if (span_tag(span) != ((uintptr_t)heap | TAG_SLOW) || span->kind != SPAN_MEDIUM || block != span->start) return;
  if (!atomic_load_explicit(&span->remote[0], memory_order_relaxed)) return;
  atomic_store_explicit(&span->remote[0], 0, memory_order_seq_cst);
  local_free(heap, span, block);
}

// ---- pages ----

RTM_INLINE void mark_page(struct span *page, const void *block) {
  uint32_t number = secure_place(page, block);
  uint64_t *word = &page->secure->waits[number / 64];
  __atomic_store_n(word, bits_set(*word, number), __ATOMIC_RELAXED);
}

static RTM_NOINLINE void release_page(struct heap *heap, struct span *page, void *block) {
  uint32_t number = secure_place(page, block);
  uint64_t *word = &page->secure->waits[number / 64];
  secure_put(page, block);  // before the mark goes: it is free all the while
  __atomic_store_n(word, bits_clear(*word, number), __ATOMIC_RELEASE);
  if (span_tag(page) & TAG_SLOW)
    page_free_full(heap, page, block);
  else if (--page->used == 0)
    page_emptied(heap, page);
}

// ---- both ----

RTM_INLINE void mark(struct span *span, const void *block) {
  if (RTM_LIKELY(span_is_page(span)))
    mark_page(span, block);
  else if (span->kind == SPAN_STORE)
    store_set_bit(span->store_level[0], store_number(span, block));
  else
    atomic_fetch_or_explicit(&span->remote[0], 1, memory_order_seq_cst);
}

// The wait is over.
RTM_INLINE void release(struct heap *heap, void *block) {
  if (!block) return;
  struct span *span = span_of(window_granule(block));
  if (RTM_LIKELY(span_is_page(span)))
    release_page(heap, span, block);
  else if (span->kind == SPAN_STORE)
    release_store(span, block);
  else
    release_medium(heap, span, block);
}

RTM_INLINE void *swap(void **ring, uint32_t *at, uint32_t size, void *block) {
  uint32_t here = *at;
  void *oldest = ring[here];
  ring[here] = block;
  *at = here + 1 < size ? here + 1 : 0;
  return oldest;
}

bool secure_delay(struct span *span, void *block) {
  struct heap *heap = rtm_heap;
  struct quarantine *q = heap->quarantine;
  if (!q) return false;
  if ((span_tag(span) & ~(uintptr_t)TAG_SLOW) != (uintptr_t)heap) return false;
  if (rtm_options.count) stats_count_free(span->kind, (size_t)span->length << GRANULE_SHIFT);
  if (RTM_UNLIKELY(heap->limited)) limits_give(&heap->limits, alloc_block_size(block));
  mark(span, block);
  size_t size = span_is_page(span) ? span->secure->size : span->kind == SPAN_STORE ? span->store_size : SIZE_MAX;
  void *oldest;
  if (RTM_LIKELY(size <= SMALL_BYTES))
    oldest = swap(q->small, &q->small_at, SMALL, block);
  else if (size <= BLOCK_MAX)
    oldest = swap(q->larger, &q->larger_at, LARGER, block);
  else
    oldest = swap(q->medium, &q->medium_at, MEDIUM, block);
  release(heap, oldest);
  return true;
}

// ---- huge blocks ----

void secure_give_run(struct span *run) {
  if (rtm_secure.features & (SECURE_ZERO | SECURE_QUARANTINE)) arena_unmap_run(run);
  struct quarantine *q = rtm_heap->quarantine;
  if (q) run = swap((void **)q->huge, &q->huge_at, HUGE, run);
  if (run) arena_give_run(run);
}

void secure_flush(struct heap *heap) {
  struct quarantine *q = heap->quarantine;
  if (!q) return;
  for (unsigned i = 0; i < SMALL; i++) release(heap, swap(q->small, &q->small_at, SMALL, NULL));
  for (unsigned i = 0; i < LARGER; i++) release(heap, swap(q->larger, &q->larger_at, LARGER, NULL));
  for (unsigned i = 0; i < MEDIUM; i++) release(heap, swap(q->medium, &q->medium_at, MEDIUM, NULL));
  for (unsigned i = 0; i < HUGE; i++) {
    struct span *run = swap((void **)q->huge, &q->huge_at, HUGE, NULL);
    if (run) arena_give_run(run);
  }
}
