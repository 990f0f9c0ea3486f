// What loading a profile makes for one thread: how many blocks of which size, and how long an extent. Layer: above
// profile and extent. Called by mode. tools/rtmalloc/rtmalloc_tools/profile/memory.py computes the same.
#ifndef RTM_PLAN_H
#define RTM_PLAN_H

#include "mode.h"
#include "profile.h"

struct plan {
  uint64_t blocks[BINS];  // of the bin's own store; 0: it has none
  uint16_t store[BINS];   // the bin whose store has the blocks for this one: itself, or a larger one; 0: none
  uint64_t granules;      // of the extent (mode `seg`)
  uint64_t reserve;       // bytes beyond what the recorded thread had in pages and spans
};

// O(bins).
void plan_make(const struct profile_record *thread, enum mode mode, struct plan *plan);
// Bytes of so many blocks, in whole granules. No overflow up to STORE_BLOCKS_MAX blocks of any bin.
size_t plan_bytes(uint64_t blocks, unsigned bin);

#endif
