// What loading a profile makes for one thread: how many blocks of which size, and how long an extent. Layer: above
// profile and extent. Called by mode and prepare. tools/rtmalloc/rtmalloc_tools/profile/memory.py computes the same.
#ifndef RTM_PLAN_H
#define RTM_PLAN_H

#include "mode.h"
#include "profile.h"

// Mode `seg`: threads that race need more in one run and less in another. Where it saves more memory than what spans
// lose between chunks, a thread whose spans fit in chunks gets an extent for the least that it had in any run, and the
// rest is chunks for all of these, as many as the run needed that needed the most (extent.h). Returns how many chunks,
// and writes what a thread keeps for itself into its record, with PROFILE_SHARES; 0: each has all of its own.
// `*reserve`: bytes in chunks beyond what that run needed. For a levelled profile. O(records * routines).
uint64_t plan_share(struct profile *profile, uint64_t *reserve);

// Mode `pag`: where the recorded runs differ, one record more, PROFILE_COMMON. What is made of it is for all threads,
// when their own stores have nothing left: of routines with several threads that race (one needed less by more than a
// 32nd in one run than in another), the most that any thread of these has; and of each other thread as much as it
// differed by, at most an eighth. For a levelled profile. False: out of memory. O(records), where those of a routine
// follow each other.
bool plan_common(struct profile *profile);

struct plan {
  uint64_t blocks[BINS];  // of the bin's own store; 0: it has none
  uint16_t store[BINS];   // the bin whose store has the blocks for this one: itself, or a larger one; 0: none
  uint32_t room[BINS];    // bytes before that store's blocks, at most, so that they are aligned
  size_t spans_most;      // bytes; what is larger has stores
  uint64_t granules;      // of the extent (mode `seg`),
  uint32_t longest;       // and of the longest span in it
  uint64_t reserve;       // bytes beyond what the recorded thread had in pages and spans
};

// O(bins).
void plan_make(const struct profile_record *thread, enum mode mode, struct plan *plan);
// Bytes of so many blocks, in whole granules. No overflow up to STORE_BLOCKS_MAX blocks of any bin.
size_t plan_bytes(uint64_t blocks, unsigned bin);
// Of a bin's store, with the room before it.
size_t plan_store_bytes(const struct plan *plan, unsigned bin);

#endif
