// First-class heaps: rtm_heap_new and all that follows. Layer: above heap, area; top. The program calls them.
//
// A heap object over the system's memory is a struct heap that no thread has for its own. While a thread works on it,
// it is that thread's heap: so every path of alloc.c serves it, and none knows of it. Between two such calls it looks
// to everybody like a heap of another thread: free is a remote free.
#ifndef RTM_HEAP_OBJECT_H
#define RTM_HEAP_OBJECT_H

#include "heap.h"

struct area;

struct rtm_heap {
  struct heap *core;      // over the system's memory; NULL: `area`
  struct heap *fast;      // what the fast paths look at while a thread works on it
  struct area *area;      // over the caller's memory
  uint64_t mark;          // HEAP_OBJECT_LIVE, or it has ended
  struct rtm_heap *next;  // ended ones, for the next rtm_heap_new
};
#define HEAP_OBJECT_LIVE UINT64_C(0x72746d2068656170)  // "rtm heap"

#endif
