// Rehearsal: the calling thread's prepared heap gives a block of each kind and takes it back, so that the program's own
// first operations find code and data in the caches. Layer: above alloc. Called where a heap has just been made ready:
// override/malloc.c, and mode (a profile is loaded, the process sealed). docs/real-time.md has the figures.
//
// The heap is as it was afterwards: nothing is missed, no page is open that was not, no block is another's.
#ifndef RTM_REHEARSE_H
#define RTM_REHEARSE_H

#include "heap.h"

// Nothing where the thread has no prepared heap, or its operations are counted or checked. O(classes and bins).
void rehearse(void);

#endif
