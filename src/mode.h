// The modes: what is made ahead from a profile, the seal, and what is asked beyond both. Layer: above store, profile,
// record, segment. Called by process, heap and alloc.
//
// What each mode switches off or replaces (RT-Mimalloc, Table V):
//
//     RT-Mimalloc                             seg (extent.h)                     pag (store.h)
//     pages are not released                  to the heap's extent only          a class keeps its blocks for good
//     segments are not released               the extent is the heap's for good  there are none to release
//     constant-time page search               one word says which lists have any no search: one store for each bin
//     constant-time list extension            1 to 8 blocks, written out         no extension: all linked at load
//     one-word update of class to page        as in general                      no update
//     no collecting of retired pages          an empty page is given back        none
// Without a profile both are as general mode, and nothing goes back to the system (segment_keep_all, arena_keep); in
// `pag` pages are long, and a class keeps a few of them (heap->keeps_class_pages, page.c).
#ifndef RTM_MODE_H
#define RTM_MODE_H

#include "heap.h"
#include "store.h"

enum mode { MODE_GENERAL, MODE_SEG, MODE_PAG };
enum on_miss { MISS_COUNT, MISS_REPORT, MISS_ABORT, MISS_NULL };

// Does what RTMALLOC_PROFILE, RTMALLOC_MODE, RTMALLOC_SEAL and RTMALLOC_RECORD ask for, once memory is there.
void mode_start(void);
// A heap was made for a thread that none was prepared for: as the mode wants it.
void mode_adapt(struct heap *heap);
// A prepared heap that waits for a thread with this start routine; NULL if there is none.
struct heap *mode_offer_heap(uintptr_t routine);
// The same, and counts a miss if there is none though a profile is loaded.
struct heap *mode_take_heap(uintptr_t routine);
// Another one of the same routine that waits, and was made with blocks of the bin; NULL: there is none.
struct heap *mode_take_other(const struct heap *heap, unsigned bin);
// Its thread has exited.
void mode_leave_heap(struct heap *heap);
// A prepared heap's store has no block of `size` bytes: counts it. False if the program is to see NULL.
bool mode_miss(struct heap *heap, size_t size);
// A heap, or (NULL) a huge block, takes memory from the arena. False if the program is to see NULL.
bool mode_miss_memory(const struct heap *heap, size_t size);

enum mode mode_now(void);
const char *mode_name(void);
bool mode_is_sealed(void);
bool mode_is_loading(void);
// System calls of the allocator since the seal.
uint64_t mode_calls_since_seal(void);
// What loading the profile made ready, and how long that took.
size_t mode_prepared_bytes(void);
size_t mode_reserve_bytes(void);
uint64_t mode_load_us(void);
RTM_HIDDEN extern bool rtm_mode_watches;  // any but general, or sealed: mode_miss_memory is worth a call

#endif
