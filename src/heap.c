// Making, leaving and adopting heaps. See heap.h.
#include "heap.h"

#include "check.h"
#include "options.h"
#include "page.h"
#include "process.h"
#include "remote.h"
#include "segment.h"

static struct hint_word no_hint;
struct span rtm_no_page = {.hint = &no_hint};
struct heap rtm_no_heap = {.page = {[0 ... CLASSES] = &rtm_no_page}};
_Thread_local struct heap *rtm_heap __attribute__((tls_model("initial-exec"))) = &rtm_no_heap;
_Thread_local struct heap *rtm_fast_heap __attribute__((tls_model("initial-exec"))) = &rtm_no_heap;

static struct {
  struct os_lock lock;
  struct heap *orphans;
  struct heap *_Atomic all;
} heaps;

struct heap *heap_first(void) {
  return atomic_load_explicit(&heaps.all, memory_order_acquire);
}

void heap_lock_for_fork(void) { os_lock_acquire(&heaps.lock); }
void heap_unlock_after_fork(void) { os_lock_release(&heaps.lock); }

static enum heap_state owned(void) { return rtm_options.count || DEBUG_VARIANT ? HEAP_COUNTED : HEAP_OWNED; }

static struct heap *heap_new(void) {
  struct heap *heap = arena_metadata(sizeof *heap);
  if (!heap) return NULL;
  for (unsigned class = 0; class <= CLASSES; class ++) heap->page[class] = &rtm_no_page;
  heap->keeps_pages = true;
  segment_keep(heap, true);
  segment_take_spare(heap);
  if (!hint_init(&heap->hints)) return NULL;
  __atomic_store_n(&heap->state, owned(), __ATOMIC_RELAXED);
  os_lock_acquire(&heaps.lock);
  heap->next = atomic_load_explicit(&heaps.all, memory_order_relaxed);
  atomic_store_explicit(&heaps.all, heap, memory_order_release);
  os_lock_release(&heaps.lock);
  return heap;
}

// The first orphan that nobody holds at the moment. One step, unless threads are freeing into orphans right now.
static struct heap *adopt(void) {
  os_lock_acquire(&heaps.lock);
  struct heap **link = &heaps.orphans, *heap;
  for (; (heap = *link); link = &heap->next_orphan) {
    uint32_t orphan = HEAP_ORPHAN;
    // Acquire: pairs with the release in heap_leave and heap_unclaim.
    if (__atomic_compare_exchange_n(&heap->state, &orphan, owned(), false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
      *link = heap->next_orphan;
      break;
    }
  }
  os_lock_release(&heaps.lock);
  if (heap) {
    heap->keeps_pages = true;
    segment_keep(heap, true);
  }
  return heap;
}

void heap_leave(struct heap *heap) {
  page_leave_all(heap);
  hint_empty_stash(&heap->hints);
  segment_keep(heap, false);
  os_lock_acquire(&heaps.lock);
  heap->next_orphan = heaps.orphans;
  heaps.orphans = heap;
  os_lock_release(&heaps.lock);
  __atomic_store_n(&heap->state, HEAP_ORPHAN, __ATOMIC_SEQ_CST);
}

bool heap_claim(struct heap *heap) {
  uint32_t orphan = HEAP_ORPHAN;
  return __atomic_compare_exchange_n(&heap->state, &orphan, HEAP_CLAIMED, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

void heap_unclaim(struct heap *heap) { __atomic_store_n(&heap->state, HEAP_ORPHAN, __ATOMIC_SEQ_CST); }

struct heap *heap_of_thread(void) {
  if (rtm_heap != &rtm_no_heap) return rtm_heap;
  if (!process_init()) return NULL;
  if (rtm_heap != &rtm_no_heap) return rtm_heap;  // made while the process started
  struct heap *heap = adopt();
  if (!heap) heap = heap_new();
  if (!heap) return NULL;
  rtm_heap = heap;
  rtm_fast_heap = rtm_options.count || DEBUG_VARIANT ? &rtm_no_heap : heap;
  process_watch_thread();
  return heap;
}

void heap_trim(struct heap *heap) {
  remote_collect_all(heap);
  page_release_empty(heap);
  segment_trim(heap);
}
