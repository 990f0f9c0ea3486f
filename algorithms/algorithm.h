// One interface for the allocators of the papers: each runs over memory that the caller gives, calls no system
// function, and is not thread-safe (preload.c puts a lock around it). Above this: the lab, preload.c, tests. Below:
// the allocators.
//
//   const struct algorithm *a = algorithms_find("half-fit");
//   void *heap = a->init(memory, bytes);
//   void *block = a->malloc(heap, 100);
//
// Build options, the same for all: ALGORITHM_HEADER (8, or 4 as on the papers' 32-bit processors) and
// ALGORITHM_ALIGNMENT (16, or the papers' 8). All blocks carry a header of that size, so that their fragmentation can
// be compared.
#ifndef ALGORITHMS_ALGORITHM_H
#define ALGORITHMS_ALGORITHM_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ALGORITHM_HEADER
#define ALGORITHM_HEADER 8
#endif
#ifndef ALGORITHM_ALIGNMENT
#define ALGORITHM_ALIGNMENT 16
#endif

// Bytes, headers and rounding included. control + area <= the bytes given; live <= reached <= area.
struct algorithm_usage {
  size_t control;       // the heap's own structures
  size_t area;          // for blocks
  size_t live;          // in blocks that the program holds
  size_t free_largest;  // the largest free block
  size_t reached;  // from the first block to the highest end of any live block so far: 'used memory' in Figure 2 of the
                   // 2006 paper; F = reached / peak of live requests - 1
};

struct algorithm {
  const char *name;         // as algorithms_find takes it; also lib<name>-preload.so
  const char *description;  // one line: policy, mechanism, source
  const char *worst_case;   // complexity of malloc and free

  // Makes a heap in `memory`, which need not be aligned. NULL if it is too small.
  void *(*init)(void *memory, size_t bytes);

  // At least `size` bytes at a multiple of ALGORITHM_ALIGNMENT, of its own even if size is 0. NULL: no memory.
  void *(*malloc)(void *heap, size_t size);

  // NULL is ignored. False, and nothing changed, if `block` is seen to be no live block: freed before and its memory
  // not handed out since, or misaligned. Other wrong pointers are not seen.
  bool (*free)(void *heap, void *block);

  // Contents kept up to the smaller size. NULL: no memory, `block` unchanged. block NULL: malloc. size 0: a smallest
  // block.
  void *(*realloc)(void *heap, void *block, size_t size);

  // `alignment` is a power of two, else NULL. The block is freed and re-allocated as any other.
  void *(*aligned_alloc)(void *heap, size_t alignment, size_t size);

  // At least the size asked for; 0 for NULL.
  size_t (*usable_size)(const void *heap, const void *block);

  // All invariants: NULL if they hold, else a sentence. O(blocks).
  const char *(*check)(const void *heap);

  // O(blocks).
  struct algorithm_usage (*usage)(const void *heap);

  // Bytes for init in which no malloc ever fails, whatever the order of requests: `live` is the peak of the sum of the
  // live requests, each rounded up to a multiple of ALGORITHM_ALIGNMENT and at least that; `largest` the largest one.
  // SIZE_MAX: more than can be expressed. Formula and proof: area_size.h and binary_buddy.h. An aligned request counts
  // as one of size + alignment + 2 ALGORITHM_ALIGNMENT; a realloc that moves holds both blocks for a moment.
  size_t (*area_size)(size_t live, size_t largest);
};

// The allocator of that name; NULL if there is none.
const struct algorithm *algorithms_find(const char *name);

// All of them, in the order of the 2006 paper, ended by NULL.
const struct algorithm *const *algorithms_all(void);

#ifdef __cplusplus
}
#endif
#endif
