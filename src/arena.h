// The arena: where segments come from. Layer: above os, span, tlsf. Called by segment, huge, heap, remote, process.
//
// One window of addresses (span.h), mapped piece by piece: one giant reservation would break mlockall and
// address-space limits. Free segments lie in two places:
//   singles   stacks of single segments, mapped ones and bare ones apart: a heap's segment costs a push or a pop
//   runs      a TLSF over runs of neighbouring segments, for huge blocks; singles join it when a huge block finds none
// Everything here is done under one lock, but for the mapping itself, and only when a heap needs or returns 4 MiB.
#ifndef RTM_ARENA_H
#define RTM_ARENA_H

#include "os/os.h"
#include "tlsf.h"

enum purge { PURGE_LAZY, PURGE_EAGER, PURGE_NEVER };

struct arena {
  struct os_lock lock;
  uint32_t segments_known;                    // segments [1, known) exist, whether mapped or not
  uint32_t segments_described;                // segments [0, described) have their descriptors and table mapped
  uint32_t segments_most;                     // the window's end
  uint32_t singles;                           // stack, segment indices
  uint32_t retained_newest, retained_oldest;  // list of free segments that are mapped
  struct tlsf runs;
  _Atomic uint32_t segments_in_use;    // owned by heaps or huge blocks; atomic, as it is read without the lock
  _Atomic uint32_t segments_huge;      // of these, by huge blocks
  _Atomic uint32_t granules_retained;  // mapped granules of free segments; the same
  uint32_t granules_reserved;          // RTMALLOC_RESERVE: retained whatever the purge mode
  enum purge purge;
  _Atomic bool purge_refused;  // memory is locked: only whole segments can go back, by unmapping
  char *meta, *meta_end;       // permanent metadata: heaps, hint nodes
  // Bytes mapped from the system, data and metadata; changed by atomics, as arena_map takes no lock.
  _Atomic size_t bytes_mapped, bytes_mapped_peak, bytes_purged;
  size_t bytes_limit;  // RTMALLOC_LIMIT
};
RTM_HIDDEN extern struct arena rtm_arena;

// Chooses the window. False if the system gives no memory at all. Called once, under the process lock.
bool arena_init(enum purge purge, size_t limit);
// Maps and touches `bytes` as free segments. False if the system has not that much.
bool arena_reserve(size_t bytes);

// A segment with at least its first granule mapped, in no heap; 0 if out of memory. `*dirty` is the number of granules
// that are mapped already and may hold old contents.
uint32_t arena_take_segment(uint32_t *dirty);
void arena_give_segment(uint32_t segment);
// Maps the segment's granules [0, granules) if they are not. Only the segment's owner calls it. False: out of memory.
bool arena_map(uint32_t segment, uint32_t granules);

// A run of segments for `granules` granules whose start is a multiple of `alignment` segments (a power of two), all
// mapped, with kind SPAN_HUGE; NULL if out of memory. `*zero`: the contents are known to be zero.
struct span *arena_take_run(uint32_t granules, uint32_t alignment, bool *zero);
// Moves the run's pages, without a copy, to a new run of `granules` granules (more than it has); NULL, and nothing
// changed, where that is impossible. The old run is free afterwards.
struct span *arena_move_run(struct span *run, uint32_t granules);
void arena_give_run(struct span *run);
// Makes the run longer or shorter in place. False (and unchanged) if its neighbour is not free.
bool arena_resize_run(struct span *run, uint32_t granules);

// Zeroed memory that is never returned, 64-byte aligned, for types that live for ever; NULL if out of memory.
void *arena_metadata(size_t bytes);
// Unmaps everything that is free beyond the reserve.
void arena_trim(void);

#endif
