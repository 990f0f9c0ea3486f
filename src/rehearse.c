// See rehearse.h.
#include "rehearse.h"

#include "alloc.h"
#include "mode.h"
#include "rtmalloc.h"
#include "store.h"

static void give_rtm(void *block, size_t size) {
  (void)size;
  rtm_free(block);
}
static const struct front own = {rtm_malloc, give_rtm};

// Weak: override/fronts.c has some.
__attribute__((weak)) const struct front rtm_fronts[] = {{NULL, NULL}};

static void take_and_give(const struct front *front, size_t size) {
  void *block = front->take(size);
  if (block) front->give(block, size);
}

// In mode `pag`. (Mode `seg` has stores for its largest blocks, but what is freed there does not come back to the
// list.)
static bool has_linked(const struct span *store) { return store->free != NULL; }

static void rehearse_class(const struct front *front, struct heap *heap, unsigned class) {
  size_t size = rtm_shape[class].block_size;
  if (heap->page[class]->kind == SPAN_STORE) {
    if (has_linked(heap->page[class])) take_and_give(front, size);
  } else if (extent_may_open(heap, class)) {
    void *block = front->take(size);
    if (heap->page[class]->flags & PAGE_FRESH) take_and_give(front, size);  // the page is extended
    front->give(block, size);
    extent_close(heap, class);
  }
}

// Mode `seg`: a page gets full, another one comes, a block goes back into the full one, which serves again; and all is
// given back. Of one class, as the others' way is the same.
static void rehearse_queue(struct heap *heap) {
  enum { SIZE = GRANULE_SIZE / 4, BLOCKS_MOST = 32 };
  unsigned class = size_class(SIZE), count = 0;
  if (!extent_may_open(heap, class) || heap->extent.lists < heap->extent.enough) return;
  void *blocks[BLOCKS_MOST];
  blocks[count++] = alloc_fast(SIZE);
  const struct span *first = heap->page[class];
  while (count < BLOCKS_MOST && heap->page[class] == first) blocks[count++] = alloc_fast(SIZE);
  free_fast(blocks[0]);
  blocks[0] = NULL;
  while (count < BLOCKS_MOST && heap->page[class] != first) blocks[count++] = alloc_fast(SIZE);
  for (unsigned i = 1; i < count; i++) free_fast(blocks[i]);
  extent_close(heap, class);
}

static void rehearse_front(const struct front *front, struct heap *heap) {
  for (unsigned class = 1; class <= CLASSES; class ++) rehearse_class(front, heap, class);
  if (extent_has_span(heap, BLOCK_MAX + 1)) take_and_give(front, BLOCK_MAX + 1);
  for (unsigned bin = 0; heap->stores->mode == MODE_PAG && bin < BINS_LARGE; bin++)
    if (has_linked(heap->stores->large[bin])) take_and_give(front, bin_size(CLASSES + 1 + bin));
}

void rehearse(void) {
  struct heap *heap = rtm_fast_heap;
  // (The secure variant's blocks do not come back at once, and not in the order in which they went.)
  if (SECURE_VARIANT || !heap->stores) return;
  rehearse_queue(heap);
  rehearse_front(&own, heap);
  for (const struct front *front = rtm_fronts; front->take; front++) rehearse_front(front, heap);
}
