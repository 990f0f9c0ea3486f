// An allocator after the published description of DLmalloc 2.7.2; the contract is struct algorithm (algorithm.h), the
// policy is described in dlmalloc_272.c.
#ifndef ALGORITHMS_DLMALLOC_272_H
#define ALGORITHMS_DLMALLOC_272_H

#include "algorithm.h"

extern const struct algorithm algorithm_dlmalloc_272;

#endif
