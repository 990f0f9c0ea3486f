// A heap over memory that the caller gives: TLSF, and a tree of bits for what other threads free. Layer: above store.
// Called by heap_object, and by alloc for a block outside the window. docs/heaps.md has the argument.
//
//   memory   | struct area | a store for each stripe of 256 MiB | their trees: a bit for each 16 bytes | TLSF ... |
//
// Nothing here calls the system. One thread at a time uses the area (its user); any thread frees by area_free_remote,
// which sets the bit of the block's first 16 bytes, as in a store (store.h); the user takes such blocks back, a
// constant number in each operation.
#ifndef RTM_AREA_H
#define RTM_AREA_H

#include "heap_object.h"
#include "span.h"
#include "walk.h"

enum { AREAS_MOST = 64 };

struct area {
  struct rtm_heap object;        // first: its address is the heap's
  char *end;                     // of all the memory; it starts with this structure
  struct rtm_area_tlsf *blocks;  // algorithms/tlsf.h, by the name of tlsf_area.h
  uint32_t stripes;
  uint32_t turn;  // the stripe that is looked at next
  bool limited;
  struct limits limits;
  struct span stripe[];
};

// NULL and `*wrong`, a sentence, if the memory cannot be used. O(bytes / 4096) for the trees' zeroing.
struct area *area_make(void *memory, size_t bytes, const char **wrong);
// The memory is the caller's again. O(1).
void area_end(struct area *area);
// Of `bytes`, how many are not for blocks; SIZE_MAX: it is too small.
size_t area_overhead(size_t bytes);
// Bytes in which no request fails: docs/heaps.md. SIZE_MAX: more than can be expressed.
size_t area_size_for(size_t live, size_t largest);

// The area whose memory has the address; NULL: none. Any thread. O(areas), at most AREAS_MOST.
struct area *area_of(const void *address);

void *area_malloc(struct area *area, size_t alignment, size_t size);
void *area_realloc(struct area *area, void *block, size_t size);
void area_free(struct area *area, void *block);
void area_free_remote(struct area *area, void *block);
size_t area_usable_size(const struct area *area, const void *block);
// Takes back all that other threads have freed. O(that + stripes).
void area_collect(struct area *area);
bool area_walk(struct area *area, walk_function *visit, void *argument);
// All invariants: NULL, or a sentence. O(blocks).
const char *area_check(struct area *area);

#endif
