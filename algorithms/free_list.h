// One doubly linked list of free blocks, last in first out: what first fit, best fit and next fit search (comparison
// of 2006, section 2: 'both are usually implemented with a doubly linked list; the pointers are embedded in each free
// block').
//
// A ring through `ends`, which is no block: ends.next is the block freed last. Insertion and removal O(1) without a
// branch.
#ifndef ALGORITHMS_FREE_LIST_H
#define ALGORITHMS_FREE_LIST_H

#include "block.h"

static inline void free_list_init(struct block *ends) { *ends = (struct block){ends, ends}; }

static inline void free_list_insert(struct block *after, struct block *b) {
  b->prev = after;
  b->next = after->next;
  after->next->prev = b;
  after->next = b;
}

static inline void free_list_remove(struct block *b) {
  b->prev->next = b->next;
  b->next->prev = b->prev;
}

// The list is linked both ways and holds free blocks of `area` only; takes their number off *left, the free blocks
// that no list has shown yet.
static inline const char *free_list_check(const struct area *area, const struct block *ends, size_t *left) {
  const struct block *prev = ends;
  for (const struct block *b = ends->next; b != ends; prev = b, b = b->next) {
    if (!area_has(area, b) || !block_is_free(b)) return "a list has something that is no free block";
    if ((*left)-- == 0) return "the lists have more blocks than are free";
    if (b->prev != prev) return "a list is not linked both ways";
  }
  return ends->prev == prev ? NULL : "a list's end is not its last block";
}

#endif
