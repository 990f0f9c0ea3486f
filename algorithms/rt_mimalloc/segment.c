// Implements segment.h.
#include "segment.h"

#include <string.h>
#include <sys/mman.h>

#include "heap.h"

// Where the next segment may well be free and aligned; a guess that mmap takes or not.
static _Atomic uintptr_t next_address = (uintptr_t)1 << 43;

// Zeroed, at a multiple of 4 MiB. NULL: no memory.
static void *map_aligned(size_t bytes) {
  size_t room = (bytes + SEGMENT_BYTES - 1) & ~(SEGMENT_BYTES - 1);
  int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *wanted = (void *)atomic_fetch_add_explicit(&next_address, room, memory_order_relaxed);
  char *got = mmap(wanted, bytes, protection, flags, -1, 0);
  if (got == MAP_FAILED) return NULL;
  if (segment_of(got) == (struct segment *)got) return got;
  munmap(got, bytes);
  got = mmap(NULL, room + SEGMENT_BYTES, protection, flags, -1, 0);
  if (got == MAP_FAILED) return NULL;
  char *start = (char *)segment_of(got + SEGMENT_BYTES - 1);
  if (start > got) munmap(got, (size_t)(start - got));
  munmap(start + bytes, (size_t)(got + room + SEGMENT_BYTES - (start + bytes)));
  return start;
}

void rtmi_segment_unmap(struct segment *segment) { munmap(segment, segment->bytes); }

static void add_to_free_list(struct heap *heap, struct segment *segment) {
  if (segment->kind == HUGE) return;
  struct segment **first = &heap->free_segments[segment->kind];
  segment->in_free_list = true;
  segment->previous_free = NULL;
  segment->next_free = *first;
  if (*first) (*first)->previous_free = segment;
  *first = segment;
}

static void remove_from_free_list(struct heap *heap, struct segment *segment) {
  if (!segment->in_free_list) return;
  segment->in_free_list = false;
  if (segment->next_free) segment->next_free->previous_free = segment->previous_free;
  if (segment->previous_free)
    segment->previous_free->next_free = segment->next_free;
  else
    heap->free_segments[segment->kind] = segment->next_free;
}

void rtmi_segment_link(struct heap *heap, struct segment *segment) {
  segment->previous = NULL;
  segment->next = heap->segments;
  if (heap->segments) heap->segments->previous = segment;
  heap->segments = segment;
  if (segment->unused) add_to_free_list(heap, segment);
  if (segment->kind != HUGE) peak_add(&heap->segment_peak[segment->kind]);
  atomic_store_explicit(&segment->heap, heap, memory_order_release);
}

COUNTED struct segment *rtmi_segment_alloc(struct heap *heap, enum kind kind, size_t block_bytes) {
  struct segment *segment = kind == HUGE ? NULL : heap->cache;
  bool fresh = !segment;
  if (segment) {
    heap->cache = segment->next;
    heap->cached--;
    memset(segment, 0, sizeof *segment);
  } else {
    size_t bytes = kind == HUGE ? (HEADER_BYTES + block_bytes + 4095) & ~4095UL : SEGMENT_BYTES;
    if (bytes < block_bytes || !(segment = map_aligned(bytes))) return NULL;
    segment->bytes = bytes;
  }
  if (kind != HUGE) segment->bytes = SEGMENT_BYTES;
  segment->kind = kind;
  segment->shift = kind == SMALL ? SMALL_PAGE_SHIFT : SEGMENT_SHIFT;
  segment->count = kind == SMALL ? PAGES_MOST : 1;
  segment->unused = kind == SMALL ? UINT64_MAX : 1;
  segment->pages[0].zero = fresh;
  rtmi_segment_link(heap, segment);
  return segment;
}

COUNTED void rtmi_segment_free(struct heap *heap, struct segment *segment) {
  remove_from_free_list(heap, segment);
  if (segment->next) segment->next->previous = segment->previous;
  if (segment->previous)
    segment->previous->next = segment->next;
  else
    heap->segments = segment->next;
  if (segment->kind != HUGE) heap->segment_peak[segment->kind].now--;
  if (segment->kind != HUGE && heap->cached < CACHE_MOST) {
    segment->next = heap->cache;
    heap->cache = segment;
    heap->cached++;
  } else {
    rtmi_segment_unmap(segment);
  }
}

struct segment *rtmi_segment_with_space(struct heap *heap, enum kind kind) {
  if (!heap->free_segments[kind]) rtmi_heap_adopt(heap, kind);
  struct segment *segment = heap->free_segments[kind];
  return segment ? segment : rtmi_segment_alloc(heap, kind, 0);
}

COUNTED unsigned rtmi_segment_find_free(const struct segment *segment) {
  if (rtmi_switches.find == FIND_BITMAP) return (unsigned)__builtin_ctzll(segment->unused);
  unsigned i = 0;
  while (segment->pages[i].in_use) i++;
  return i;
}

void rtmi_segment_take_page(struct heap *heap, struct segment *segment, unsigned index) {
  segment->pages[index].in_use = true;
  segment->unused &= ~((uint64_t)1 << index);
  if (++segment->used == segment->count) remove_from_free_list(heap, segment);
}

void rtmi_segment_mark_unused(struct segment *segment, struct page *page) {
  page->in_use = false;
  page->zero = false;
  segment->unused |= (uint64_t)1 << (page - segment->pages);
  segment->used--;
}

void rtmi_segment_give_page(struct heap *heap, struct segment *segment, struct page *page) {
  rtmi_segment_mark_unused(segment, page);
  if (!segment->in_free_list) add_to_free_list(heap, segment);
}
