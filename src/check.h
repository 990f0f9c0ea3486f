// See check.c.
#ifndef RTM_CHECK_H
#define RTM_CHECK_H

struct heap;

// NULL if every invariant of the heap holds, else the sentence that does not. The caller owns or has claimed the heap.
const char *check_heap(const struct heap *heap);

#endif
