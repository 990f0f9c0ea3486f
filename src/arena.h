// The arena: where segments come from. Layer: above os, span, tlsf. Called by segment, huge, heap, remote, process.
//
// One window of addresses (span.h), mapped piece by piece: one giant reservation would break mlockall and
// address-space limits. Free segments lie in two places:
//   singles   stacks of single segments, mapped ones and bare ones apart: a heap's segment costs a push or a pop
//   runs      a TLSF over runs of neighbouring segments, for huge blocks; singles join it when a huge block finds none,
//             and heaps take from it when no new segment can be described
// Everything here is done under one lock, but for the mapping itself, and only when a heap needs or returns 4 MiB.
#ifndef RTM_ARENA_H
#define RTM_ARENA_H

#include "os/os.h"
#include "tlsf.h"

enum purge { PURGE_LAZY, PURGE_EAGER, PURGE_NEVER };

struct arena {
  struct os_lock lock;
  uint32_t segments_known;                            // segments [1, known) exist, whether mapped or not
  uint32_t spans_described;                           // segments [0, described) have their descriptors mapped,
  uint32_t table_described;                           // and these their part of the table;
  uint32_t described;                                 // the smaller of both
  uint32_t segments_most;                             // the window's end
  uint32_t singles;                                   // stack, segment indices
  struct segment *retained_newest, *retained_oldest;  // list of free segments that are mapped
  struct tlsf runs;
  _Atomic uint32_t segments_in_use;    // owned by heaps or huge blocks; atomic, as it is read without the lock
  _Atomic uint32_t segments_huge;      // of these, by huge blocks
  _Atomic uint32_t granules_retained;  // mapped granules of free segments; the same
  _Atomic uint32_t retained_most;      // of these, that may be kept
  uint32_t granules_reserved;          // RTMALLOC_RESERVE: retained whatever the purge mode
  enum purge purge;
  bool keeps;                  // segments that heaps and huge blocks gave back stay mapped, whatever `purge` says
  bool purge_refused;          // memory is locked, or a profile is loaded: no contents go back
  _Atomic bool locked;         // what is mapped from now on is locked, too
  _Atomic uint32_t unchecked;  // a segment that has just been mapped, for arena_see_locked; 0: none
  char *meta, *meta_end;       // permanent metadata: heaps, hint nodes
  // Bytes mapped from the system, data and metadata; changed by atomics, as arena_map takes no lock.
  _Atomic size_t bytes_mapped, bytes_mapped_peak, bytes_purged;
  size_t bytes_limit;  // RTMALLOC_LIMIT
  // Operations of general mode that found nothing prepared for them, and were longer than their bound. The few reasons
  // are in docs/bounded-work.md.
  _Atomic uint32_t late;
};
RTM_HIDDEN extern struct arena rtm_arena;

// Chooses the window. False if the system gives no memory at all. Called once, under the process lock.
bool arena_init(enum purge purge, size_t limit);
// Maps and touches `bytes` as free segments. False if the system has not that much.
bool arena_reserve(size_t bytes);

// A segment in no heap; 0 if out of memory. Its granules [0, mapped) are mapped, and `retained` of them may hold old
// contents. O(1).
uint32_t arena_take_segment(void);
// The same, and mapped if that is possible in one step.
uint32_t arena_take_mapped(void);
// The same for a heap that begins. What is described ahead is made up for first, while nobody else can take of it:
// however many threads begin at one time, each leaves some to the operations of others.
uint32_t arena_take_first(void);
// Puts it back, mapped as it is: arena_shrink gives it to the system if that is too much. O(1).
// `s`: its record.
void arena_give_segment(uint32_t segment, struct segment *s);
// Maps the segment's granules [0, granules) if they are not. Only the segment's owner calls it. False: out of memory,
// or, `*taken`, somebody else has mapped there.
bool arena_map(uint32_t segment, uint32_t granules, bool *taken);

// Where segments stay, for one of which nothing is in use yet (0: none): it gets the system's large pages from now on.
// So do the process's second to sixteenth, and a heap's from its fifth on: not the first, as most programs are small;
// and no heap's first ones otherwise, as of many heaps each may use little of them. `others`: that the heap has.
RTM_COLD void arena_want_huge_pages(uint32_t segment, uint32_t others);

// Taking a segment does not have to wait for its descriptors and its part of the table if these are mapped before:
// whenever they are few, and the window has room for more, arena_describe maps some of either; false if that is not
// possible. O(1).
RTM_INLINE bool arena_describes_few(void) {
  enum { FEW = 3 };
  uint32_t described = RTM_READ_RELAXED(rtm_arena.described);
  return described - RTM_READ_RELAXED(rtm_arena.segments_known) < FEW && described < rtm_arena.segments_most;
}
bool arena_describe(void);

// Looks whether what the process maps is locked; called soon after `unchecked` was set.
void arena_see_locked(void);

// As much as huge blocks use may stay mapped, so that a program in a steady state makes no system calls, and one
// that shrinks gives back; and a segment in any case, as heaps keep what they need themselves (segment.c). The reserve
// stays whatever the mode.
RTM_INLINE bool arena_has_room(void) { return rtm_arena.granules_retained < rtm_arena.retained_most; }
RTM_INLINE bool arena_must_shrink(void) { return RTM_UNLIKELY(rtm_arena.granules_retained > rtm_arena.retained_most); }
// Unmaps the free segment that has waited longest if there is too much. O(1).
void arena_shrink(void);

// A run of segments for `granules` granules whose start is a multiple of `alignment` segments (a power of two), all
// mapped, with kind SPAN_HUGE; NULL if out of memory. `*zero`: the contents are known to be zero.
struct span *arena_take_run(uint32_t granules, uint32_t alignment, bool *zero);
// Moves the run's pages, without a copy, to a new run of `granules` granules (more than it has); NULL, and nothing
// changed, where that is impossible. The old run is free afterwards.
struct span *arena_move_run(struct span *run, uint32_t granules);
void arena_give_run(struct span *run);
// Unmaps all of the run, which stays in use: whoever touches it faults.
void arena_unmap_run(struct span *run);
// Makes the run longer or shorter in place. False (and unchanged) if its neighbour is not free.
bool arena_resize_run(struct span *run, uint32_t granules);

// Zeroed memory that is never returned, 64-byte aligned, for types that live for ever; NULL if out of memory.
void *arena_metadata(size_t bytes);
// As RTMALLOC_PURGE says.
void arena_set_purge(enum purge purge);
// From now on the arena gives nothing back to the system.
void arena_keep(void);

// Whether arena_metadata would have to map more for that; and mapping it in an operation of its own.
RTM_INLINE bool arena_short_of_metadata(size_t bytes) {
  return (size_t)(RTM_READ_RELAXED(rtm_arena.meta_end) - RTM_READ_RELAXED(rtm_arena.meta)) < bytes;
}
bool arena_map_metadata(size_t bytes);
// Unmaps everything that is free beyond the reserve.
void arena_trim(void);

#endif
