// The heap: everything that one thread allocates from. Layer: this header is shared by segment, page, remote, heap and
// alloc; heap.c (making, leaving and adopting heaps) is above all of these but alloc.
//
// A heap is used by one thread at a time: its thread, or, once that has exited, whoever holds the claim for a moment.
// Spans refer to the heap, not to the thread, so that it is handed over whole. Heaps are never freed.
#ifndef RTM_HEAP_H
#define RTM_HEAP_H

#include "extent.h"
#include "hint.h"
#include "limit.h"

enum heap_state {  // (free_slow goes by the order)
  HEAP_OWNED,    // by a thread
  HEAP_ORPHAN,   // its thread has exited; in the list of orphans
  HEAP_CLAIMED,  // an orphan that a thread works on for the length of one call
  HEAP_STORES,   // has stores and nothing else; frees of other threads go there whether it has a thread or not
  HEAP_COUNTED,  // owned, and operations are counted or checked: frees leave their short paths
};

enum spare_state {
  SPARE_UNREADY,
  SPARE_READY,     // mapped as far as possible
  SPARE_AND_MORE,  // the same; the next medium block's operation has something to prepare, or a block that waits
};

struct page_queue {
  uint32_t head, tail;  // span indices; first in, first out
};

// A heap's two sets of free spans (tlsf.h): those that are known to be zero, and the others. Two words of lists each
// hold lengths of 1 to 1024 granules.
enum { SPANS_CLEAN = 0, SPANS_DIRTY = 128, SPANS_WORDS = 2 };

struct heap {
  // The page that each class allocates from; &rtm_no_page if none. Size to class to page: two loads, and a change of
  // the page writes one word (RT-Mimalloc, section VI.D).
  struct span *page[CLASSES + 1];
  struct page_queue queue[CLASSES + 1];  // pages with free blocks, beside the current one
  uint32_t pages[CLASSES + 1];           // pages of the class, full ones included
  uint8_t poor[CLASSES + 1];             // pages in a row that had few free blocks (page.c)
  struct tlsf spans;                     // free spans of all segments
  uint32_t segments;                     // owned, without the spare
  uint32_t live;                         // granules in pages and medium blocks
  uint32_t dirty;                        // granules of free spans that may hold memory
  uint32_t keep;                         // dirty granules: see segment_must_shrink
  uint32_t borrowed;                     // part of `keep`: see segment_borrow
  uint64_t keep_of_live;                 // 65536ths of `live` that may be dirty: see segment_learn
  uint64_t keep_of_live_least;
  uint64_t learned;                // keep_of_live as it was when the heap last changed hands
  uint64_t learn_below;            // until keep_of_live is that: 0 if no clean span was taken since
  uint32_t spare;                  // a segment that waits for the next need; 0: none
  uint8_t spare_state;             // enum spare_state
  bool partly_mapped;              // not all that is in segments is mapped
  bool purges_unusually;           // the same, or the system has refused to take contents: memory is locked
  bool keeps_pages;                // an empty page stays if its class has no other with free blocks
  uint32_t waiting;                // span index: stack of empty spans to be released (segment_wait)
  uint32_t turn;                   // of housekeeping (page.c)
  int32_t rest;                    // bytes to be handed out until it collects again (remote.h)
  uint32_t visited;                // the class that it has looked at last
  bool unusual;                    // recorded, prepared, keeps its classes' pages, or rtm_no_heap
  bool apart;                      // orphan: frees into it take the long way (orphan.c)
  bool keeps_class_pages;          // mode `pag` without a profile: pages are long, and a few stay their class's
  struct stores *stores;           // a prepared heap's (store.h); NULL: a general one
  size_t store_from, store_reach;  // of large sizes, the stores' are [store_from, store_from + store_reach)
  struct record *record;           // counts its peaks (record.h); NULL: not recorded
  uintptr_t routine;               // start routine of its thread, 0 for the main thread or where unknown,
  uint32_t index;                  // and its number among the heaps of that routine
  struct hints hints;
  _Alignas(64) uint32_t state;  // enum heap_state; read by every remote free, so accessed by atomics
  struct heap *next;            // all heaps
  struct heap *next_orphan;
  struct heap *heir;           // ready for the thread of its own routine that its thread started last; or NULL
  struct heap *_Atomic offer;  // to whom this one is ready for (heap.c)
  // Set: the state is HEAP_COUNTED, and every operation comes by alloc.c's slow paths, which count in `limits`.
  bool limited;
  bool is_object;  // made by rtm_heap_new: no thread's own (heap_object.c)
  struct limits limits;
  struct quarantine *quarantine;  // secure variant (secure/quarantine.c),
  uint64_t order;                 // the state of its random order (secure.h),
  uint32_t refills;               // and how often a page's hand was empty (page.c)
  struct extent extent;           // prepared in mode `seg`
  uint64_t prepared;              // bytes of blocks that were made for it at load
};

RTM_HIDDEN extern struct span rtm_no_page;  // has no block and never gets one
RTM_HIDDEN extern struct heap rtm_no_heap;  // has only rtm_no_page; what a thread without a heap uses

// This thread's heap, and the one that the fast paths look at: the same, or rtm_no_heap where each operation has to
// take the slow path (statistics, debugging).
RTM_HIDDEN extern _Thread_local struct heap *rtm_heap __attribute__((tls_model("initial-exec")));
RTM_HIDDEN extern _Thread_local struct heap *rtm_fast_heap __attribute__((tls_model("initial-exec")));

RTM_INLINE bool heap_has_thread(const struct heap *heap) {
  uint32_t state = __atomic_load_n(&heap->state, __ATOMIC_RELAXED);
  return state != HEAP_ORPHAN && state != HEAP_CLAIMED;
}

// The calling thread's start routine, where pthread_create was seen; 0: the main thread, or unknown.
RTM_HIDDEN extern _Thread_local uintptr_t rtm_thread_routine __attribute__((tls_model("initial-exec")));

// The heap of the calling thread, prepared, made or adopted if there is none; NULL if out of memory.
struct heap *heap_of_thread(void);
// The calling thread has left its heap, and may not be told when it really ends: other destructors of its data still
// run. So each operation that takes a heap leaves it again.
RTM_HIDDEN extern _Thread_local bool rtm_thread_ends __attribute__((tls_model("initial-exec")));
void heap_leave_again(void);
RTM_INLINE void heap_end_operation(void) {
  if (RTM_UNLIKELY(rtm_thread_ends)) heap_leave_again();
}
// A general heap: adopted or made. NULL: out of memory.
struct heap *heap_general(void);
// What a thread that starts another tells it (override/thread.c).
struct thread_start {
  void *(*routine)(void *);
  void *argument;
  struct heap *heap, *before;  // of heap_ready
};
// For a thread that is about to be started: its prepared heap, or while a profile is recorded the one that counts for
// it. Chosen by the starting thread, as the order in which threads are started is the same in another run more often
// than the order in which they run. NULL: it finds one itself.
// `*before`: the calling thread's heap, if it is of this routine, too; else NULL. If it ends before the new one
// allocates, that takes its heap over.
struct heap *heap_ready(uintptr_t routine, struct heap **before);
// The calling thread's first step, with what heap_ready gave to the thread that started it.
void heap_begin(struct heap *heap, struct heap *before, uintptr_t routine);
// The thread could not be started.
void heap_not_begun(struct heap *heap);
// The state of a heap that a thread has.
enum heap_state heap_owned(void);
// A heap of its own in this state, `index` of its routine or the next that is free; in the list of all heaps. NULL: out
// of memory.
enum { HEAP_NEXT_INDEX = UINT32_MAX };
struct heap *heap_new(uintptr_t routine, uint32_t index, enum heap_state state);
// The same in memory that is zero. False: out of memory.
bool heap_make(struct heap *heap, uintptr_t routine, uint32_t index, enum heap_state state);
// A profile was loaded: if there is a prepared heap for the calling thread, its own one serves what that has not.
void heap_begin_prepared(void);
// Nothing that heaps hold goes back to the system from now on (segment_keep_from_now). How many of them are general
// ones of threads other than the calling one. O(heaps).
uint32_t heap_keep_from_now(void);
// A request for a block of this bin was in vain, in a heap that has nothing of any. If another one of the same routine
// waits that was made with such blocks: true, and the thread goes on with that one. O(heaps of the routine / 64), and
// looks at few of them.
bool heap_change(unsigned bin);
// Leaves the heap to the next thread that needs one. O(CLASSES), and what other threads have freed in a general heap.
void heap_leave(struct heap *heap);
// The same for a general heap that is no thread's: whoever needs one adopts it.
void heap_orphan(struct heap *heap);
// What the fast paths look at while the thread uses this heap.
struct heap *heap_fast(struct heap *heap);
// Claims an orphan for the length of a call; false if its thread lives or another holds it.
RTM_INLINE bool heap_claim(struct heap *heap) {
  uint32_t orphan = HEAP_ORPHAN;
  return __atomic_compare_exchange_n(&heap->state, &orphan, HEAP_CLAIMED, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}
RTM_INLINE void heap_unclaim(struct heap *heap) { __atomic_store_n(&heap->state, HEAP_ORPHAN, __ATOMIC_SEQ_CST); }
// All heaps ever made, linked by next.
struct heap *heap_first(void);
// Collects all that other threads have freed, and releases the pages that this empties. O(that).
void heap_collect(struct heap *heap);
// Gives back everything that can be given back now: collects all remote frees, releases empty pages, purges free spans.
void heap_trim(struct heap *heap);

#endif
