// An allocator after the published description of DLmalloc 2.8.3; the contract is struct algorithm (algorithm.h), the
// policy is described in dlmalloc_283.c.
#ifndef ALGORITHMS_DLMALLOC_283_H
#define ALGORITHMS_DLMALLOC_283_H

#include "algorithm.h"

extern const struct algorithm algorithm_dlmalloc_283;

#endif
