// Implements heap.h.
#include "heap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "page.h"
#include "profile.h"
#include "rt_mimalloc.h"
#include "segment.h"

enum { ADOPT_MOST = 8 };

struct page rtmi_empty_page;
struct page *rtmi_empty_pointer = &rtmi_empty_page;
// Not fixed: entries until the environment is read.
struct heap rtmi_empty_heap = {.direct = {[0 ... DIRECT_ENTRIES_COUNT - 1] = RTMI_STARTS_WITH_POINTERS
                                                                                 ? (void *)&rtmi_empty_pointer
                                                                                 : (void *)&rtmi_empty_page}};
__thread struct heap *rtmi_heap __attribute__((tls_model("initial-exec"))) = &rtmi_empty_heap;

static _Atomic(struct heap *) all_heaps;
static _Atomic(struct segment *) abandoned;
static pthread_key_t exit_key;
static char save_path[4096];  // a copy: programs that set their title write over the environment

struct heap *rtmi_heap_first(void) {
  return atomic_load_explicit(&all_heaps, memory_order_acquire);
}

// ---- start of the process; the first allocation comes before any other thread ----

static void leave_heap(void *heap);

static void start_process(void) {
  static bool started;
  if (started) return;
  started = true;
  rtmi_read_switches();
  if (rtmi_switches.direct == DIRECT_POINTER)
    for (int i = 0; i < DIRECT_ENTRIES_COUNT; i++) rtmi_empty_heap.direct[i] = &rtmi_empty_pointer;
  pthread_key_create(&exit_key, leave_heap);
  const char *save = getenv("RT_MIMALLOC_SAVE");
  if (save) strncat(save_path, save, sizeof save_path - 1);
  const char *load_path = getenv("RT_MIMALLOC_LOAD");
  if (load_path && !rtmi_load_profile(load_path)) _exit(2);
}

// What a profile prepares, it prepares before main, not at the first allocation.
__attribute__((constructor)) void rtmi_prepare_thread(void) { rtmi_heap_of_thread(); }

__attribute__((destructor)) static void end_process(void) {
  if (*save_path) rtmi_save_profile(save_path);
}

// ---- heaps ----

// Empty, but for the peaks and its place among all heaps.
static void reset_heap(struct heap *heap) {
  heap->segments = heap->cache = heap->free_segments[SMALL] = heap->free_segments[MEDIUM] = NULL;
  heap->cached = 0;
  memset(heap->queues, 0, sizeof heap->queues);
  heap->full = (struct queue){NULL, NULL};
  heap->retired_low = CLASSES;
  heap->retired_high = -1;
  for (int class = 0; class < CLASSES; class ++) {
    heap->available[class] = &rtmi_empty_page;
    heap->page_peak[class].now = 0;
  }
  heap->segment_peak[SMALL].now = heap->segment_peak[MEDIUM].now = 0;
  for (unsigned i = 0; i < DIRECT_ENTRIES_COUNT; i++)
    heap->direct[i] =
        rtmi_switches.direct == DIRECT_POINTER ? (void *)&heap->available[class_of(i * 8)] : (void *)&rtmi_empty_page;
}

static struct heap *take_heap(void) {
  for (struct heap *heap = rtmi_heap_first(); heap; heap = heap->next)
    if (!atomic_exchange_explicit(&heap->taken, true, memory_order_acquire)) return heap;
  struct heap *heap =
      mmap(NULL, sizeof *heap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (heap == MAP_FAILED) return NULL;
  atomic_store_explicit(&heap->taken, true, memory_order_relaxed);
  heap->next = atomic_load_explicit(&all_heaps, memory_order_relaxed);
  while (
      !atomic_compare_exchange_weak_explicit(&all_heaps, &heap->next, heap, memory_order_release, memory_order_relaxed))
    continue;
  return heap;
}

struct heap *rtmi_heap_of_thread(void) {
  if (rtmi_heap != &rtmi_empty_heap) return rtmi_heap;
  start_process();
  struct heap *heap = take_heap();
  if (!heap) return NULL;
  reset_heap(heap);
  rtmi_heap = heap;
  pthread_setspecific(exit_key, heap);  // may allocate
  rtmi_profile_prepare(heap);
  return heap;
}

void rtmi_heap_free_block(struct heap *heap, struct page *page, struct block *block) {
  block->next = page->local_free;
  page->local_free = block;
  page->used--;
  page->zero = false;
  if (page_has(page, IN_FULL)) rtmi_page_unfull(heap, page);
  if (page->used == 0) rtmi_page_retire(heap, page);
}

void rtmi_heap_free_delayed(struct heap *heap) {
  if (!atomic_load_explicit(&heap->delayed, memory_order_relaxed)) return;
  struct block *block = atomic_exchange_explicit(&heap->delayed, NULL, memory_order_acquire);
  while (block) {
    struct block *next = block->next;
    struct page *page = page_of(segment_of(block), block);
    uintptr_t word = atomic_load_explicit(&page->thread_free, memory_order_acquire);
    if ((word & STATE_BITS) == TELLING) {
      // Its thread will touch the page once more, so that the page must not be released: later.
      struct block *list = atomic_load_explicit(&heap->delayed, memory_order_relaxed);
      do block->next = list;
      while (!atomic_compare_exchange_weak_explicit(&heap->delayed, &list, block, memory_order_release,
                                                    memory_order_relaxed));
    } else {
      rtmi_heap_free_block(heap, page, block);
    }
    block = next;
  }
}

// ---- a thread's exit, and what becomes of its segments ----

static void abandon(struct segment *segment) {
  atomic_store_explicit(&segment->heap, NULL, memory_order_relaxed);
  segment->next = atomic_load_explicit(&abandoned, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&abandoned, &segment->next, segment, memory_order_release,
                                                memory_order_relaxed))
    continue;
}

// The thread's exit takes no account of the switches: what is empty goes back to the system, or each new thread would
// add its profile's memory to that of all threads before it.
static void leave_heap(void *pointer) {
  struct heap *heap = pointer;
  rtmi_heap = &rtmi_empty_heap;
  for (struct segment *segment = heap->segments; segment; segment = segment->next)
    for (unsigned i = 0; i < segment->count; i++)
      if (segment->pages[i].in_use) rtmi_page_set_state(&segment->pages[i], NO_HEAP);
  // From here on nobody tells the heap anything.
  struct block *block = atomic_exchange_explicit(&heap->delayed, NULL, memory_order_acquire);
  while (block) {
    struct block *next = block->next;
    struct page *page = page_of(segment_of(block), block);
    block->next = page->local_free;
    page->local_free = block;
    page->used--;
    block = next;
  }
  struct segment *next;
  for (struct segment *segment = heap->segments; segment; segment = next) {
    next = segment->next;
    for (unsigned i = 0; i < segment->count; i++) {
      struct page *page = &segment->pages[i];
      if (!page->in_use) continue;
      rtmi_page_collect(page);
      if (page->used == 0) rtmi_segment_mark_unused(segment, page);
    }
    if (segment->used == 0)
      rtmi_segment_unmap(segment);
    else
      abandon(segment);
  }
  for (struct segment *segment = heap->cache; segment; segment = next) {
    next = segment->next;
    rtmi_segment_unmap(segment);
  }
  reset_heap(heap);
  atomic_store_explicit(&heap->taken, false, memory_order_release);
}

static void adopt(struct heap *heap, struct segment *segment) {
  segment->in_free_list = false;
  for (unsigned i = 0; i < segment->count; i++) {
    struct page *page = &segment->pages[i];
    if (!page->in_use) continue;
    rtmi_page_set_state(page, JOIN_LIST);
    rtmi_page_collect(page);
    page_set(page, IN_FULL, false);
    page->retired = 0;
    if (page->used == 0) {
      rtmi_segment_mark_unused(segment, page);
    } else if (page->class < CLASSES) {
      peak_add(&heap->page_peak[page->class]);
      rtmi_page_queue_push(heap, page, false);
    }
  }
  if (segment->used == 0 && segment->kind == HUGE) {
    rtmi_segment_unmap(segment);
    return;
  }
  rtmi_segment_link(heap, segment);
  if (segment->kind == HUGE) {
    // In the full list, so that the free of its one block is told. Freed already by now: collect it.
    struct page *page = &segment->pages[0];
    while (!rtmi_page_to_full(heap, page)) {
      rtmi_page_collect(page);
      if (page->used == 0) {
        rtmi_page_retire(heap, page);
        return;
      }
    }
  }
}

// One of the abandoned segments; NULL: none. The whole list is taken, so that no segment can come back between a look
// and the exchange.
static struct segment *take_abandoned(void) {
  if (!atomic_load_explicit(&abandoned, memory_order_relaxed)) return NULL;
  struct segment *first = atomic_exchange_explicit(&abandoned, NULL, memory_order_acquire);
  struct segment *rest = first ? first->next : NULL;
  if (!rest) return first;
  struct segment *last = rest;
  while (last->next) last = last->next;
  last->next = atomic_load_explicit(&abandoned, memory_order_relaxed);
  while (
      !atomic_compare_exchange_weak_explicit(&abandoned, &last->next, rest, memory_order_release, memory_order_relaxed))
    continue;
  return first;
}

void rtmi_heap_adopt(struct heap *heap, enum kind kind) {
  struct segment *segment;
  for (int i = 0; i < ADOPT_MOST && !heap->free_segments[kind] && (segment = take_abandoned()); i++)
    adopt(heap, segment);
}

void rtmi_heap_adopt_most(struct heap *heap, uint32_t most) {
  struct segment *segment;
  for (uint32_t i = 0; i < most && (segment = take_abandoned()); i++) adopt(heap, segment);
}
