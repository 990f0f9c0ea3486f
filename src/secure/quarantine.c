// Delayed reuse: what a thread frees of its own heap waits in rings of a fixed size, and the block that has waited
// longest is freed instead. See secure.h.
//
// A block that waits is marked as if another thread had freed it, without the hints that lead its owner there: a second
// free is seen for certain. If its owner is led there by others' frees it takes the block too, and the wait is shorter;
// what the ring has of it then leads to a block without the mark, and is passed over.
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

static void mark(struct span *span, void *block) {
  if (span->kind == SPAN_STORE) {
    uint64_t offset = (uint64_t)((char *)block - span->start);
    store_set_bit(span->store_level[0], (uint64_t)(((unsigned __int128)offset * span->store_reciprocal) >> 64));
    return;
  }
  uint32_t number = span_is_page(span) ? secure_number(span, block) : 0;
  atomic_fetch_or_explicit(&span->remote[number / 64], UINT64_C(1) << (number % 64), memory_order_seq_cst);
}

static void release_store(struct span *store, const char *block) {
  uint64_t offset = (uint64_t)(block - store->start);
  uint64_t number = (uint64_t)(((unsigned __int128)offset * store->store_reciprocal) >> 64);
  store_raise(store->store_level[1], number /= 64);
  store_raise(store->store_level[2], number /= 64);
  store_raise(store->store_level[3], number / 64);
}

// The span may be another one by now, if the block was collected before.
static RTM_NOINLINE void release_local(struct heap *heap, struct span *span, void *block) {
  if ((span_tag(span) & ~(uintptr_t)TAG_SLOW) != (uintptr_t)heap) return;
  uint32_t number = span_is_page(span) ? secure_number(span, block) : block == span->start ? 0 : UINT32_MAX;
  if (number == UINT32_MAX) return;
  uint64_t bit = UINT64_C(1) << (number % 64);
  _Atomic uint64_t *word = &span->remote[number / 64];
  if (!(atomic_load_explicit(word, memory_order_relaxed) & bit)) return;
  if (span_is_page(span)) secure_put(span, block);  // before the mark goes: it is free all the while
  atomic_fetch_and_explicit(word, ~bit, memory_order_seq_cst);
  local_free(heap, span, block);
}

// The wait is over.
static void release(struct heap *heap, void *block) {
  if (!block) return;
  struct span *span = span_of(window_granule(block));
  if (span->kind == SPAN_STORE)
    release_store(span, block);
  else
    release_local(heap, span, block);
}

static void *swap(void **ring, uint32_t *at, uint32_t size, void *block) {
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
  // A profile counts a huge block until it is freed: it has none more that could wait.
  if (span->kind == SPAN_STORE && span->store_size > MEDIUM_MAX) return false;
  if (rtm_options.count) stats_count_free(span->kind, (size_t)span->length << GRANULE_SHIFT);
  if (RTM_UNLIKELY(heap->limited)) limits_give(&heap->limits, alloc_block_size(block));
  size_t size = span->kind == SPAN_STORE ? span->store_size : span_is_page(span) ? rtm_shape[span->kind].block_size : 0;
  mark(span, block);
  void *oldest;
  if (!size || size > BLOCK_MAX)
    oldest = swap(q->medium, &q->medium_at, MEDIUM, block);
  else if (size > SMALL_BYTES)
    oldest = swap(q->larger, &q->larger_at, LARGER, block);
  else
    oldest = swap(q->small, &q->small_at, SMALL, block);
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
