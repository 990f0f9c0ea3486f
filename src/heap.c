// Making, leaving and adopting heaps. See heap.h.
#include "heap.h"

#include "check.h"
#include "mode.h"
#include "options.h"
#include "page.h"
#include "process.h"
#include "record.h"
#include "remote.h"
#include "secure/secure.h"
#include "segment.h"

static struct hint_word no_hint;
struct span rtm_no_page = {.hint = &no_hint};
struct heap rtm_no_heap = {.page = {[0 ... CLASSES] = &rtm_no_page}, .unusual = true};
_Thread_local struct heap *rtm_heap __attribute__((tls_model("initial-exec"))) = &rtm_no_heap;
_Thread_local struct heap *rtm_fast_heap __attribute__((tls_model("initial-exec"))) = &rtm_no_heap;
_Thread_local uintptr_t rtm_thread_routine __attribute__((tls_model("initial-exec")));
_Thread_local bool rtm_thread_ends __attribute__((tls_model("initial-exec")));

// The heap that is ready for a thread that one of its own routine started, and that has not allocated yet (see choose).
static _Thread_local struct heap *undecided __attribute__((tls_model("initial-exec")));
// The heap of the thread that started this one, if it is of the same routine; else NULL.
static _Thread_local struct heap *predecessor __attribute__((tls_model("initial-exec")));

static struct {
  struct os_lock lock;
  struct heap *orphans;
  _Atomic uint32_t orphan_count;
  struct heap *_Atomic all;
} heaps;

struct heap *heap_first(void) {
  return atomic_load_explicit(&heaps.all, memory_order_acquire);
}

void heap_lock_for_fork(void) { os_lock_acquire(&heaps.lock); }
void heap_unlock_after_fork(void) { os_lock_release(&heaps.lock); }

enum heap_state heap_owned(void) { return rtm_options.count || DEBUG_VARIANT ? HEAP_COUNTED : HEAP_OWNED; }

// How many heaps of the routine there are. Under the lock.
static uint32_t count_of(uintptr_t routine) {
  uint32_t count = 0;
  for (struct heap *heap = atomic_load_explicit(&heaps.all, memory_order_relaxed); heap; heap = heap->next)
    count += heap->routine == routine;
  return count;
}

bool heap_make(struct heap *heap, uintptr_t routine, uint32_t index, enum heap_state heap_state) {
  heap->routine = routine;
  heap->index = index;
  for (unsigned class = 0; class <= CLASSES; class ++) heap->page[class] = &rtm_no_page;
  heap->keeps_pages = true;
  if (!hint_init(&heap->hints)) return false;
  if (SECURE_VARIANT && !secure_heap_made(heap)) return false;
  segment_keep(heap, 0);
  // Last: it would be lost with a heap that is not made.
  if (mode_is_loading())
    segment_keep_all(heap);
  else
    segment_begin(heap);
  __atomic_store_n(&heap->state, heap_state, __ATOMIC_RELAXED);
  os_lock_acquire(&heaps.lock);
  if (index == HEAP_NEXT_INDEX) heap->index = count_of(routine);
  heap->next = atomic_load_explicit(&heaps.all, memory_order_relaxed);
  atomic_store_explicit(&heaps.all, heap, memory_order_release);
  os_lock_release(&heaps.lock);
  return true;
}

struct heap *heap_new(uintptr_t routine, uint32_t index, enum heap_state heap_state) {
  struct heap *heap = arena_metadata(sizeof *heap);
  return heap && heap_make(heap, routine, index, heap_state) ? heap : NULL;
}

// Takes the orphan out of the list; false if another thread is freeing into it.
static bool take_orphan(struct heap **link) {
  struct heap *heap = *link;
  uint32_t orphan = HEAP_ORPHAN;
  // Acquire: pairs with the release in heap_leave and heap_unclaim.
  if (!__atomic_compare_exchange_n(&heap->state, &orphan, heap_owned(), false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
    return false;
  *link = heap->next_orphan;
  heaps.orphan_count--;
  return true;
}

// Where in the list of orphans a heap is that came lately; NULL: not there.
static struct heap **find_orphan(const struct heap *heap) {
  enum { LATELY = 16 };
  struct heap **link = &heaps.orphans;
  for (unsigned i = 0; i < LATELY && *link; i++, link = &(*link)->next_orphan)
    if (*link == heap) return link;
  return NULL;
}

// `before`, if it came lately; else the first orphan that nobody holds at the moment: one step, unless threads are
// freeing into orphans right now. While a profile is recorded, the first of its own routine, as a profile's heaps
// belong to routines.
static struct heap *adopt(uintptr_t routine, struct heap *before) {
  struct heap *heap = NULL;
  os_lock_acquire(&heaps.lock);
  struct heap **link = before ? find_orphan(before) : NULL;
  if (!link || !take_orphan(link)) {
    for (link = &heaps.orphans; (heap = *link); link = &heap->next_orphan) {
      if (RTM_UNLIKELY(heap->record != NULL) && heap->routine != routine) continue;
      if (take_orphan(link)) break;
    }
  } else {
    heap = before;
  }
  os_lock_release(&heaps.lock);
  if (heap) {
    heap->keeps_pages = true;
    segment_keep(heap, 0);
  }
  return heap;
}

// A general heap becomes an orphan.
static RTM_NOINLINE void leave_general(struct heap *heap) {
  if (SECURE_VARIANT) secure_flush(heap);
  if (RTM_UNLIKELY(rtm_options.record[0])) record_thread(false);
  heap_orphan(heap);
}

void heap_orphan(struct heap *heap) {
  RTM_WRITE_RELAXED(heap->limited, false);
  page_leave_all(heap, atomic_load_explicit(&heaps.orphan_count, memory_order_relaxed) < ORPHANS_FEW);
  // What is recorded waits for the next thread, as in the heap that is made of the profile (docs/real-time.md).
  if (!heap->record) heap_collect(heap);
  os_lock_acquire(&heaps.lock);
  segment_keep(heap, ++heaps.orphan_count);
  struct heap **link = &heaps.orphans;
  // While a profile is recorded, in order of their numbers: the lowest is taken first, as it is when that is loaded.
  while (RTM_UNLIKELY(heap->record != NULL) && *link && (*link)->index < heap->index) link = &(*link)->next_orphan;
  heap->next_orphan = *link;
  *link = heap;
  os_lock_release(&heaps.lock);
  // Some of what is too much for an orphan; the rest goes with what is freed into it. Four pieces are most of it, as
  // the longest come first. (One that is recorded has kept all so far.)
  unsigned pieces = heap->record ? UINT32_MAX : 4;
  while (pieces-- > 0 && segment_must_shrink(heap)) segment_shrink(heap);
  heap->apart = remote_frees_apart(heap);
  __atomic_store_n(&heap->state, HEAP_ORPHAN, __ATOMIC_SEQ_CST);
}

static struct heap *make_general(uintptr_t routine) {
  bool records = rtm_options.record[0];
  struct heap *heap = heap_new(routine, records ? HEAP_NEXT_INDEX : 0, heap_owned());
  if (heap && records && (heap->record = record_new(heap))) {
    heap->unusual = true;
    segment_keep_all(heap);
  }
  return heap;
}

static RTM_NOINLINE struct heap *general_of(uintptr_t routine, struct heap *before) {
  struct heap *heap = adopt(routine, before);
  if (!heap && rtm_options.record[0]) {
    uintptr_t same = record_routine(routine);
    if (same != routine) heap = adopt(routine = same, before);
  }
  if (!heap) heap = make_general(routine);
  if (heap) mode_adapt(heap);
  return heap;
}
struct heap *heap_general(void) {
  return general_of(rtm_thread_routine, predecessor);
}

struct heap *heap_fast(struct heap *heap) {
  return rtm_options.count || DEBUG_VARIANT || heap->limited ? &rtm_no_heap : heap;
}

static void use(struct heap *heap) {
  rtm_heap = heap;
  rtm_fast_heap = heap_fast(heap);
}

static void begin(struct heap *heap) {
  use(heap);
  if (RTM_UNLIKELY(rtm_options.record[0])) record_thread(true);
  process_watch_thread(heap);
}

// ---- a thread that was started by one of its own routine ----
//
// A server's thread may start its successor, hand it all that it has, and end. Then it offers its heap, with the blocks
// that the successor will free; who has not allocated yet takes it, and leaves the heap that was ready for it.
//
//     heir->offer   NULL: its thread has chosen   &rtm_no_heap: it has not   else: the heap that it is offered
//
// Of the two it takes the one with the lower number: that is the predecessor's, but where a thread before had allocated
// too early to get that, and the chain has gone on with a heap that the recorded run never used.
// (Where no heap was ready, as in general mode, the first malloc adopts the predecessor's if it is an orphan by then.)

static void expect_offer(struct heap *heap, struct heap *heir) {
  atomic_store_explicit(&heir->offer, &rtm_no_heap, memory_order_relaxed);
  heap->heir = heir;
}

static bool offer(struct heap *heap) {
  struct heap *heir = heap->heir, *undecided_yet = &rtm_no_heap;
  if (!heir) return false;
  heap->heir = NULL;
  // Release: what this thread did with its heap comes before what the next does.
  return atomic_compare_exchange_strong_explicit(&heir->offer, &undecided_yet, heap, memory_order_acq_rel,
                                                 memory_order_relaxed);
}

// NULL: nothing was offered, and nothing will be.
static struct heap *offered(struct heap *heir) {
  struct heap *heap = atomic_exchange_explicit(&heir->offer, NULL, memory_order_acq_rel);
  return heap == &rtm_no_heap ? NULL : heap;
}

// The thread's first allocation.
static RTM_NOINLINE struct heap *choose(void) {
  struct heap *heap = undecided, *before = offered(heap);
  undecided = NULL;
  if (before) {
    bool first = before->index < heap->index;
    heap_not_begun(first ? heap : before);
    if (first) heap = before;
  }
  use(heap);
  process_watch_thread(heap);
  return heap;
}

bool heap_change(unsigned bin) {
  struct heap *own = rtm_heap, *other = mode_take_other(own, bin);
  if (!other) return false;
  other->stores->general = own->stores->general;
  own->stores->general = NULL;
  other->heir = own->heir;
  own->heir = NULL;
  mode_leave_heap(own);
  use(other);
  process_watch_thread(other);
  return true;
}

RTM_INLINE void leave(struct heap *heap) {
  if (RTM_UNLIKELY(heap->stores != NULL)) {
    struct heap *general = heap->stores->general;
    heap->stores->general = NULL;
    if (!offer(heap)) mode_leave_heap(heap);
    if (general) leave_general(general);
  } else if (RTM_UNLIKELY(heap->heir != NULL) && offer(heap)) {
    record_thread(false);
  } else {
    leave_general(heap);
  }
}

void heap_leave(struct heap *heap) {
  if (RTM_UNLIKELY(undecided != NULL)) {
    struct heap *before = offered(undecided);
    undecided = NULL;
    if (before) leave(before);
  }
  leave(heap);
}

void heap_leave_again(void) {
  struct heap *heap = rtm_heap;
  if (heap == &rtm_no_heap || heap->is_object) return;  // a heap object is the program's
  rtm_heap = rtm_fast_heap = &rtm_no_heap;
  leave(heap);
}

struct heap *heap_of_thread(void) {
  if (rtm_heap != &rtm_no_heap) return rtm_heap;
  if (undecided) return choose();
  if (!process_init()) return NULL;
  if (rtm_heap != &rtm_no_heap) return rtm_heap;  // made while the process started
  struct heap *heap = mode_take_heap(rtm_thread_routine);
  if (!heap) heap = heap_general();
  if (!heap) return NULL;
  begin(heap);
  return heap;
}

struct heap *heap_ready(uintptr_t routine, struct heap **before) {
  struct heap *heap = mode_offer_heap(routine), *own = rtm_heap;
  if (RTM_UNLIKELY(!heap) && rtm_options.record[0]) heap = general_of(routine, NULL);
  *before = rtm_thread_routine == routine && own != &rtm_no_heap ? own : NULL;
  if (heap && *before) {
    if (own->stores || own->record)
      expect_offer(own, heap);
    else
      *before = NULL;
  }
  return heap;
}

void heap_begin(struct heap *heap, struct heap *before, uintptr_t routine) {
  rtm_thread_routine = routine;
  predecessor = before;
  if (!before) {
    if (heap)
      begin(heap);
    else
      heap_of_thread();
  } else if (heap) {
    undecided = heap;
    if (RTM_UNLIKELY(rtm_options.record[0])) record_thread(true);
    process_watch_thread(heap);
  }
}

void heap_not_begun(struct heap *heap) {
  atomic_store_explicit(&heap->offer, NULL, memory_order_relaxed);
  if (heap->stores)
    mode_leave_heap(heap);
  else
    heap_orphan(heap);
}

void heap_begin_prepared(void) {
  struct heap *own = rtm_heap, *prepared = own->stores ? NULL : mode_take_heap(rtm_thread_routine);
  if (!prepared) return;
  prepared->stores->general = own;
  use(prepared);
  process_watch_thread(prepared);
}

uint32_t heap_keep_from_now(void) {
  uint32_t threads = 0;
  os_lock_acquire(&heaps.lock);
  for (struct heap *heap = atomic_load_explicit(&heaps.all, memory_order_relaxed); heap; heap = heap->next) {
    if (heap->stores) continue;
    segment_keep_from_now(heap);
    threads += heap != rtm_heap && heap_has_thread(heap) && !heap->is_object;
  }
  os_lock_release(&heaps.lock);
  return threads;
}

void heap_collect(struct heap *heap) {
  remote_collect_all(heap);
  if (heap->record) record_collected(heap->record);
  while (heap->waiting) page_release_waiting(heap);
}

void heap_trim(struct heap *heap) {
  if (SECURE_VARIANT) secure_flush(heap);
  // What was prepared stays.
  if (heap->stores) heap = heap->stores->general;
  if (!heap || mode_now() != MODE_GENERAL) return;
  remote_collect_all(heap);
  page_release_empty(heap);
  segment_trim(heap);
}
