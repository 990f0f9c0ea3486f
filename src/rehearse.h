// Rehearsal: the calling thread's prepared heap gives a block of each kind and takes it back, so that the program's own
// first operations find code and data in the caches. Layer: above alloc. Called where a heap has just been made ready:
// override/malloc.c, and mode (a profile is loaded, the process sealed). docs/real-time.md has the figures.
//
// The heap is as it was afterwards: nothing is missed, no page is open that was not, no block is another's.
#ifndef RTM_REHEARSE_H
#define RTM_REHEARSE_H

#include "heap.h"

// What a program calls: each has its own copy of the fast path, which is to be in the caches, too.
struct front {
  void *(*take)(size_t size);
  void (*give)(void *block, size_t size);
};
// Those beside rtm_malloc: none, or in the libraries that override malloc what does so (override/fronts.c). The last
// one is empty. In this order: what is rehearsed first may be forgotten first.
RTM_HIDDEN extern const struct front rtm_fronts[];

// Nothing where the thread has no prepared heap, or its operations are counted or checked. O(classes and bins).
void rehearse(void);

#endif
