// Implements page.h.
#include "page.h"

#include <sched.h>
#include <string.h>

#include "segment.h"

static enum thread_state state_of(uintptr_t word) { return (enum thread_state)(word & STATE_BITS); }
static struct block *list_of(uintptr_t word) { return (struct block *)(word & ~(uintptr_t)STATE_BITS); }
static uintptr_t word_of(struct block *list, enum thread_state state) { return (uintptr_t)list | state; }

static bool change(struct page *page, uintptr_t *from, uintptr_t to) {
  // Release: a block's link is written before others see the block. Acquire: pairs with it when a list is taken.
  return atomic_compare_exchange_weak_explicit(&page->thread_free, from, to, memory_order_acq_rel,
                                               memory_order_relaxed);
}

// ---- pages_direct and the queues ----

// The first page of the class has changed.
static void update_direct(struct heap *heap, unsigned class) {
  struct page *first = heap->queues[class].first;
  if (!first) first = &rtmi_empty_page;
  heap->available[class] = first;
  if (rtmi_switches.direct == DIRECT_POINTER) return;
  size_t last = class_bytes(class) / 8;
  if (last > DIRECT_MOST / 8) return;
  // From one word more than the class below has; of those up to 64 bytes every second is not used.
  size_t below = class == 0 ? 0 : class_bytes(class > 1 && class < 8 ? class - 2 : class - 1) / 8 + 1;
  for (size_t entry = below; entry <= last; entry++) heap->direct[entry] = first;
}

static void queue_prepend(struct queue *queue, struct page *page) {
  page->previous = NULL;
  page->next = queue->first;
  if (page->next)
    page->next->previous = page;
  else
    queue->last = page;
  queue->first = page;
}

static void queue_append(struct queue *queue, struct page *page) {
  page->next = NULL;
  page->previous = queue->last;
  if (page->previous)
    page->previous->next = page;
  else
    queue->first = page;
  queue->last = page;
}

static void queue_drop(struct queue *queue, struct page *page) {
  if (page->next)
    page->next->previous = page->previous;
  else
    queue->last = page->previous;
  if (page->previous)
    page->previous->next = page->next;
  else
    queue->first = page->next;
  page->next = page->previous = NULL;
}

COUNTED void rtmi_page_queue_push(struct heap *heap, struct page *page, bool at_end) {
  struct queue *queue = &heap->queues[page->class];
  if (at_end)
    queue_append(queue, page);
  else
    queue_prepend(queue, page);
  if (queue->first == page) update_direct(heap, page->class);
}

COUNTED void rtmi_page_queue_remove(struct heap *heap, struct page *page) {
  struct queue *queue = &heap->queues[page->class];
  bool first = queue->first == page;
  queue_drop(queue, page);
  if (first) update_direct(heap, page->class);
}

// ---- the three lists ----

void rtmi_page_set_state(struct page *page, enum thread_state state) {
  uintptr_t word = atomic_load_explicit(&page->thread_free, memory_order_relaxed);
  for (;;) {
    if (state_of(word) == TELLING) {
      sched_yield();
      word = atomic_load_explicit(&page->thread_free, memory_order_relaxed);
    } else if (change(page, &word, word_of(list_of(word), state))) {
      return;
    }
  }
}

// What other threads freed goes before local_free. A walk: nobody counted them.
static void collect_thread_free(struct page *page) {
  uintptr_t word = atomic_load_explicit(&page->thread_free, memory_order_relaxed);
  do {
    if (!list_of(word)) return;
  } while (!change(page, &word, word_of(NULL, state_of(word))));
  struct block *first = list_of(word), *last = first;
  uint32_t count = 1;
  for (; last->next; last = last->next) count++;
  last->next = page->local_free;
  page->local_free = first;
  page->used -= count;
}

void rtmi_page_collect(struct page *page) {
  collect_thread_free(page);
  if (page->free) return;
  page->free = page->local_free;
  page->local_free = NULL;
}

// Links blocks that were never used, in the order of their addresses.
COUNTED static void page_free_list_extend(struct page *page) {
  uint32_t count = page->reserved - page->capacity;
  if (rtmi_switches.extend == EXTEND_TWO && count > 2) count = 2;
  if (rtmi_switches.extend == EXTEND_PROPORTIONAL) {
    // As many as fill 4 KiB, so that no more memory is touched than needed soon.
    uint32_t most = page->block_bytes >= 4096 ? 1 : (uint32_t)(4096 / page->block_bytes);
    if (count > most) count = most;
  }
  size_t bytes = page->block_bytes;
  char *block = page->start + page->capacity * bytes, *last = block + (count - 1) * bytes;
  ((struct block *)last)->next = page->free;
  page->free = (struct block *)block;
  for (; block < last; block += bytes) ((struct block *)block)->next = (struct block *)(block + bytes);
  page->capacity += count;
}

bool rtmi_page_available(struct page *page) {
  if (page->free) return true;
  rtmi_page_collect(page);
  if (page->free) return true;
  if (page->capacity == page->reserved) return false;
  page_free_list_extend(page);
  return true;
}

bool rtmi_page_to_full(struct heap *heap, struct page *page) {
  uintptr_t word = atomic_load_explicit(&page->thread_free, memory_order_relaxed);
  do {
    if (list_of(word)) return false;
    if (state_of(word) == TELLING) {  // of an earlier time in the full list
      sched_yield();
      word = atomic_load_explicit(&page->thread_free, memory_order_relaxed);
      continue;
    }
  } while (!change(page, &word, word_of(NULL, TELL_HEAP)));
  if (page->class < CLASSES) rtmi_page_queue_remove(heap, page);
  page_set(page, IN_FULL, true);
  queue_prepend(&heap->full, page);
  return true;
}

void rtmi_page_unfull(struct heap *heap, struct page *page) {
  uintptr_t word = atomic_load_explicit(&page->thread_free, memory_order_relaxed);
  while (state_of(word) == TELL_HEAP && !change(page, &word, word_of(list_of(word), JOIN_LIST))) continue;
  page_set(page, IN_FULL, false);
  queue_drop(&heap->full, page);
  if (page->class < CLASSES) rtmi_page_queue_push(heap, page, true);
}

void rtmi_page_free_remotely(struct segment *segment, struct page *page, struct block *block) {
  uintptr_t word = atomic_load_explicit(&page->thread_free, memory_order_relaxed);
  for (;;) {
    if (state_of(word) == TELL_HEAP) {
      if (change(page, &word, word_of(list_of(word), TELLING))) break;
    } else {
      block->next = list_of(word);
      if (change(page, &word, word_of(block, state_of(word)))) return;
    }
  }
  // The heap cannot go while the state is TELLING.
  struct heap *heap = atomic_load_explicit(&segment->heap, memory_order_acquire);
  struct block *list = atomic_load_explicit(&heap->delayed, memory_order_relaxed);
  do block->next = list;
  while (
      !atomic_compare_exchange_weak_explicit(&heap->delayed, &list, block, memory_order_release, memory_order_relaxed));
  word = atomic_load_explicit(&page->thread_free, memory_order_relaxed);
  while (!change(page, &word, word_of(list_of(word), JOIN_LIST))) continue;
}

// ---- beginning and end ----

struct page *rtmi_page_fresh(struct heap *heap, unsigned class, size_t block_bytes) {
  enum kind kind = kind_of(block_bytes);
  struct segment *segment =
      kind == HUGE ? rtmi_segment_alloc(heap, HUGE, block_bytes) : rtmi_segment_with_space(heap, kind);
  if (!segment) return NULL;
  unsigned index = kind == SMALL ? rtmi_segment_find_free(segment) : 0;
  struct page *page = &segment->pages[index];
  bool zero = page->zero;
  memset(page, 0, sizeof *page);
  rtmi_segment_take_page(heap, segment, index);
  size_t skipped = index == 0 ? HEADER_BYTES : 0;
  size_t bytes = kind == SMALL ? (size_t)1 << SMALL_PAGE_SHIFT : segment->bytes;
  page->start = (char *)segment + ((size_t)index << SMALL_PAGE_SHIFT) + skipped;
  page->kind = (uint8_t)kind;
  page->zero = zero;
  page->class = (uint8_t) class;
  page->block_bytes = block_bytes;
  page->reserved = kind == HUGE ? 1 : (uint32_t)((bytes - skipped) / block_bytes);
  page_free_list_extend(page);
  if (class < CLASSES) {
    peak_add(&heap->page_peak[class]);
    rtmi_page_queue_push(heap, page, false);
  }
  return page;
}

static void page_free(struct heap *heap, struct page *page) {
  struct segment *segment = segment_of_page(page);
  if (page->class < CLASSES) {
    rtmi_page_queue_remove(heap, page);
    heap->page_peak[page->class].now--;
  }
  rtmi_segment_give_page(heap, segment, page);
  if (segment->used == 0 && (rtmi_switches.free_segments || segment->kind == HUGE)) rtmi_segment_free(heap, segment);
}

void rtmi_page_retire(struct heap *heap, struct page *page) {
  bool classless = page->class == CLASSES;  // no queue to stay in
  if (!classless) {
    if (rtmi_switches.free_pages == FREE_NONE) return;
    if (rtmi_switches.free_pages == FREE_NOT_HUGE && page->kind == HUGE) return;
    struct queue *queue = &heap->queues[page->class];
    if (page->kind != HUGE && queue->first == page && queue->last == page) {
      // The program will want such a block again soon.
      page->retired = RETIRE_ROUNDS;
      if (page->class < heap->retired_low) heap->retired_low = page->class;
      if (page->class > heap->retired_high) heap->retired_high = page->class;
      return;
    }
  }
  page_free(heap, page);
}

COUNTED void rtmi_heap_collect_retired(struct heap *heap) {
  int low = heap->retired_low, high = heap->retired_high;
  heap->retired_low = CLASSES;
  heap->retired_high = -1;
  for (int class = low; class <= high; class ++) {
    struct page *page = heap->queues[class].first;
    if (!page || !page->retired) continue;
    if (page->used > 0) {
      page->retired = 0;
    } else if (--page->retired == 0) {
      page_free(heap, page);
    } else {
      if (class < heap->retired_low) heap->retired_low = class;
      heap->retired_high = class;
    }
  }
}
