// Limits of a heap, after the Real-Time Java memory model (Masmano et al. 2006, section 3): most memory held, most
// memory ever, and allocation rate. Layer: above os. Called by alloc, area, heap_object; a heap without limits knows
// nothing of them.
//
// Counted are the bytes of blocks as rtm_usable_size gives them. One thread takes; any thread gives back.
#ifndef RTM_LIMIT_H
#define RTM_LIMIT_H

#include <stdatomic.h>

#include "bits.h"
#include "rtmalloc.h"

struct limits {
  struct rtm_limits most;  // 0: no limit of that kind
  _Atomic size_t held;     // bytes of live blocks
  size_t held_peak, ever;  // bytes
  uint64_t refused;        // requests
  size_t allowance;        // bytes that the rate permits at once, at `refilled_us`
  uint64_t refilled_us;
};

// NULL, or why these limits are impossible.
const char *limits_check(const struct rtm_limits *most);
// From now on; `held`: bytes that live already. What was counted before stays counted.
void limits_set(struct limits *limits, const struct rtm_limits *most, size_t held);
// Counts a block of `bytes`; false, and the refusal is counted, if that is over a limit. O(1); a clock is read if there
// is a rate.
bool limits_take(struct limits *limits, size_t bytes);
// There was no memory for it.
void limits_undo(struct limits *limits, size_t bytes);
RTM_INLINE void limits_give(struct limits *limits, size_t bytes) {
  atomic_fetch_sub_explicit(&limits->held, bytes, memory_order_relaxed);
}
void limits_usage(struct limits *limits, struct rtm_usage *usage);

#endif
