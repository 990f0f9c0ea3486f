// Binary buddy: blocks of 2^order units; a block is split into two buddies, and only buddies are joined
// (binary_buddy.h).
//
//   header | next | prev | ...        block: 2^order units of UNIT bytes, header included
//          ^ struct block *: what malloc returns
//
// Header: order << ORDER_SHIFT | flags. Where aligned_alloc returns an address inside a block, the header before that
// address is the distance to the block's own, | INTERIOR. Equations: (b - start) is a multiple of 2^order(b) units;
// b's buddy is at (b - start) ^ 2^order(b) units, if the area has it; b and its buddy are not both free and of one
// order. An area of any number of units is a row of pieces whose orders descend, none of which has a buddy. A piece
// comes into use when those before it cannot serve a request: first the low addresses.
#include "binary_buddy.h"

#include <stdint.h>
#include <string.h>

#if ALGORITHM_HEADER == 4
typedef uint32_t word;
#else
typedef uint64_t word;
#endif

struct block {
  struct block *next, *prev;  // of its order's list, if the block is free
};

enum {
  HEADER = ALGORITHM_HEADER,
  ALIGNMENT = ALGORITHM_ALIGNMENT,
  UNIT_LOG2 = 5,
  UNIT = 1 << UNIT_LOG2,
  FREE = 1,
  INTERIOR = 2,
  ORDER_SHIFT = 3,
  ORDERS = (HEADER == 4 ? 31 : 47) - UNIT_LOG2,
};
_Static_assert(UNIT >= HEADER + (int)sizeof(struct block) && UNIT % ALIGNMENT == 0, "a unit holds a free block");
_Static_assert(ALIGNMENT >= 1 << ORDER_SHIFT, "distances leave their lowest bits to the flags");
#define REQUEST_MOST (((size_t)UNIT << (ORDERS - 1)) - HEADER)

struct heap {
  struct block *start;        // the first block
  size_t bytes;               // of all pieces
  size_t used;                // bytes of the pieces in use; blocks lie in [0, used)
  char *reached;              // the highest end of any live block so far
  struct block list[ORDERS];  // rings: the free blocks of each order
};

static inline word *header_of(const struct block *b) { return (word *)b - 1; }
static inline unsigned order_of(const struct block *b) { return (unsigned)(*header_of(b) >> ORDER_SHIFT); }
static inline size_t bytes_of(unsigned order) { return (size_t)UNIT << order; }
static inline struct block *block_at(const struct heap *heap, size_t offset) {
  return (struct block *)((char *)heap->start + offset);
}
static inline size_t offset_of(const struct heap *heap, const struct block *b) {
  return (size_t)((const char *)b - (const char *)heap->start);
}

static inline unsigned floor_log2(uint64_t n) { return 63u - (unsigned)__builtin_clzll(n); }

static inline unsigned order_for(size_t request) {
  size_t bytes = request + HEADER;
  return bytes <= UNIT ? 0 : floor_log2(bytes - 1) + 1 - UNIT_LOG2;
}

static inline void insert(struct heap *heap, struct block *b, unsigned order) {
  struct block *list = &heap->list[order];
  *header_of(b) = (word)order << ORDER_SHIFT | FREE;
  b->prev = list;
  b->next = list->next;
  list->next->prev = b;
  list->next = b;
}

static inline void detach(struct block *b) {
  b->prev->next = b->next;
  b->next->prev = b->prev;
}

static void *heap_init(void *memory, size_t bytes) {
  uintptr_t from = (uintptr_t)memory, to = from + bytes;
  uintptr_t control = (from + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
  uintptr_t start = (control + sizeof(struct heap) + HEADER + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
  if (!memory || to < from || start < from || to + HEADER < start + UNIT) return NULL;
  struct heap *heap = (struct heap *)control;
  heap->start = (struct block *)start;
  heap->bytes = (to + HEADER - start) & ~(uintptr_t)(UNIT - 1);
  heap->used = 0;
  heap->reached = (char *)start - HEADER;
  for (unsigned i = 0; i < ORDERS; i++) heap->list[i] = (struct block){&heap->list[i], &heap->list[i]};
  if (heap->bytes > bytes_of(ORDERS - 1)) heap->bytes = bytes_of(ORDERS - 1);
  return heap;
}

// The next piece, if there is one of at least that order, becomes the only free block that suffices.
static bool use_piece(struct heap *heap, unsigned order) {
  size_t left = heap->bytes - heap->used;
  if (left < bytes_of(order)) return false;
  unsigned piece = floor_log2(left / UNIT);
  insert(heap, block_at(heap, heap->used), piece);
  heap->used += bytes_of(piece);
  return true;
}

// O(log(area / UNIT)): one step for each order passed, and one for each split.
static void *heap_malloc(void *of, size_t request) {
  struct heap *heap = of;
  if (request > REQUEST_MOST) return NULL;
  unsigned wanted = order_for(request), order = wanted;
  while (order < ORDERS && heap->list[order].next == &heap->list[order]) {
    if (++order == ORDERS && use_piece(heap, wanted)) order = wanted;
  }
  if (order >= ORDERS) return NULL;
  struct block *b = heap->list[order].next;
  detach(b);
  while (order > wanted) {
    order--;
    insert(heap, (struct block *)((char *)b + bytes_of(order)), order);
  }
  *header_of(b) = (word)wanted << ORDER_SHIFT;
  char *end = (char *)b - HEADER + bytes_of(wanted);
  if (end > heap->reached) heap->reached = end;
  return b;
}

// The block that an address of malloc or aligned_alloc lies in.
static inline struct block *block_of(const void *address) {
  word header = *header_of(address);
  return header & INTERIOR ? (struct block *)((char *)(uintptr_t)address - (header & ~(word)INTERIOR))
                           : (struct block *)(uintptr_t)address;
}

// O(log(area / UNIT)): one step for each join.
static bool heap_free(void *of, void *address) {
  struct heap *heap = of;
  if (!address) return true;
  if ((uintptr_t)address % ALIGNMENT) return false;
  struct block *b = block_of(address);
  if (*header_of(b) & FREE) return false;
  unsigned order = order_of(b);
  // Stays in the middle of a joined block until that is handed out, so that a second free is seen.
  *header_of(b) |= FREE;
  for (; order < ORDERS - 1; order++) {
    size_t offset = offset_of(heap, b) ^ bytes_of(order);
    if (offset + bytes_of(order) > heap->bytes) break;
    // A slot's first header is always that of a block, as a block is split in halves.
    struct block *buddy = block_at(heap, offset);
    if (*header_of(buddy) != ((word)order << ORDER_SHIFT | FREE)) break;
    detach(buddy);
    if (buddy < b) b = buddy;
  }
  insert(heap, b, order);
  return true;
}

static size_t heap_usable_size(const void *of, const void *address) {
  (void)of;
  if (!address) return 0;
  struct block *b = block_of(address);
  return bytes_of(order_of(b)) - HEADER - (size_t)((const char *)address - (const char *)b);
}

// In place if the order stays; else the contents are copied, to a smaller block too, so that the rest is free.
static void *heap_realloc(void *heap, void *address, size_t request) {
  if (!address) return heap_malloc(heap, request);
  if (request > REQUEST_MOST) return NULL;
  size_t old = heap_usable_size(heap, address);
  bool fits = request <= old;
  if (fits && order_for(request) == order_of(block_of(address))) return address;
  void *moved = heap_malloc(heap, request);
  if (!moved) return fits ? address : NULL;
  memcpy(moved, address, fits ? request : old);
  heap_free(heap, address);
  return moved;
}

static void *heap_aligned_alloc(void *heap, size_t alignment, size_t request) {
  if (alignment == 0 || (alignment & (alignment - 1))) return NULL;
  if (alignment <= ALIGNMENT) return heap_malloc(heap, request);
  if (request > REQUEST_MOST || alignment > REQUEST_MOST - request) return NULL;
  char *b = heap_malloc(heap, request + alignment - ALIGNMENT);
  size_t gap = (0 - (uintptr_t)b) & (alignment - 1);
  if (!b || !gap) return b;
  *header_of((struct block *)(b + gap)) = (word)gap | INTERIOR;
  return b + gap;
}

static const char *heap_check(const void *of) {
  const struct heap *heap = of;
  size_t free_blocks = 0, offset = 0;
  for (; offset < heap->used; offset += bytes_of(order_of(block_at(heap, offset)))) {
    const struct block *b = block_at(heap, offset);
    unsigned order = order_of(b);
    if (order >= ORDERS || bytes_of(order) > heap->used - offset) return "a block's order is impossible";
    if (offset & (bytes_of(order) - 1)) return "a block is not at a multiple of its size";
    if (*header_of(b) & INTERIOR) return "a block's header has been overwritten";
    if (!(*header_of(b) & FREE)) continue;
    free_blocks++;
    size_t buddy = offset ^ bytes_of(order);
    if (order < ORDERS - 1 && buddy + bytes_of(order) <= heap->bytes &&
        *header_of(block_at(heap, buddy)) == *header_of(b))
      return "two buddies are free";
  }
  for (unsigned i = 0; i < ORDERS; i++) {
    const struct block *list = &heap->list[i], *prev = list;
    for (const struct block *b = list->next; b != list; prev = b, b = b->next) {
      if (b < heap->start || offset_of(heap, b) >= heap->used || (uintptr_t)b % ALIGNMENT)
        return "a list leads out of the area";
      if (*header_of(b) != ((word)i << ORDER_SHIFT | FREE))
        return "a list has something that is no free block of its order";
      if (free_blocks-- == 0) return "the lists have more blocks than are free";
      if (b->prev != prev) return "a list is not linked both ways";
    }
    if (list->prev != prev) return "a list's end is not its last block";
  }
  return free_blocks ? "a free block is in no list" : NULL;
}

static struct algorithm_usage heap_usage(const void *of) {
  const struct heap *heap = of;
  struct algorithm_usage usage = {.control = sizeof *heap, .area = heap->bytes};
  usage.reached = (size_t)(heap->reached + HEADER - (const char *)heap->start);
  for (size_t offset = 0, size; offset < heap->used; offset += size) {
    const struct block *b = block_at(heap, offset);
    size = bytes_of(order_of(b));
    if (!(*header_of(b) & FREE))
      usage.live += size;
    else if (size > usage.free_largest)
      usage.free_largest = size;
  }
  size_t left = heap->bytes - heap->used, piece = left ? bytes_of(floor_log2(left / UNIT)) : 0;
  if (piece > usage.free_largest) usage.free_largest = piece;
  return usage;
}

static size_t heap_area_size(size_t live, size_t largest) {
  if (live > REQUEST_MOST || largest > REQUEST_MOST) return SIZE_MAX;
  double units = (double)((live + ALIGNMENT - 1) / ALIGNMENT + (live == 0));
  double blocks = units * (UNIT > 2 * ALIGNMENT ? UNIT : 2 * ALIGNMENT);
  unsigned order = order_for(largest < live ? largest : live);
  double need = (order + 1) * blocks + 3.0 * (double)bytes_of(order) + sizeof(struct heap) + 4 * ALIGNMENT;
  return need > (double)REQUEST_MOST ? SIZE_MAX : (size_t)need;
}

const struct algorithm algorithm_binary_buddy = {
    "binary-buddy",
    "binary buddy: blocks are powers of two, header included (Knuth; comparison of 2006, section 2)",
    "malloc O(log(area / smallest block)), free the same",
    heap_init,
    heap_malloc,
    heap_free,
    heap_realloc,
    heap_aligned_alloc,
    heap_usable_size,
    heap_check,
    heap_usage,
    heap_area_size,
};
