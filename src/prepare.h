// Makes all that a profile's threads need, at load: their heaps, with the stores and extents of plan.h. Layer: above
// plan, store and extent. Called by mode.
//
// It lies side by side in one run of segments, so that threads that work on it find most addresses of each other's
// heaps translated, too: those of a heap that was not used for a while cost thousands of cycles where they do not
// (docs/real-time.md). What is in use of the run is locked, in huge pages where such fit.
//
//     | heaps, and what belongs to them | stores, heap by heap | parts of pieces, chunks | whole pieces |
//
// In the secure variant the heaps lie apart, so that no block is near them. A store's descriptor lies in one of the
// first slots of the run: what is before the extents has no others. Pieces lie as extent.h says; where one does not fit
// in what is left of a segment, that stays out of use.
#ifndef RTM_PREPARE_H
#define RTM_PREPARE_H

#include "mode.h"
#include "profile.h"

struct made {
  struct stores *all;     // by number: prepared_take finds the lowest first, as the recording does
  struct stores *common;  // of all of them; NULL: there are none
  size_t bytes;
  size_t reserve;  // of these, more than the recorded run needed; without chunks
  bool permitted;  // to lock memory
};

// NULL, or why what is planned cannot be made. `chunks`: plan_share's. O(records).
const char *prepare_check(const struct profile *profile, enum mode mode, uint64_t chunks);
// The same, where it was tried; the order of the records changes. `find_routine`: a thread's start routine in this
// process; false: no memory. O(what is made).
const char *prepare(struct profile *profile, enum mode mode, uint64_t chunks,
                    bool (*find_routine)(const struct profile_record *thread, uintptr_t *routine), struct made *made);

#endif
