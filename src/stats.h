// Statistics: what rtm_stats tells, and, with RTMALLOC_VERBOSE or RTMALLOC_REPORT, counts of every operation by size
// class, written at exit. Layer: above heap. The counts cost nothing when off: the fast paths are replaced when on.
#ifndef RTM_STATS_H
#define RTM_STATS_H

#include "bits.h"

// The process has started: what is written at exit is its own, and counts the time from here.
void stats_start(void);
// A block was allocated with a request of `size` bytes; one is freed of a span of this kind, with so many usable bytes.
// Only when counting. O(1), atomics.
void stats_count_malloc(const void *block, size_t size);
void stats_count_free(unsigned kind, size_t usable);
// In a forked child: the report belongs to the parent.
void stats_after_fork(void);

#endif
