// Allocators of others over the caller's memory, behind struct algorithm: one file each, compiled by `rtlab peers`
// together with the unmodified source that a crate or a Debian package carries and with preload.c. The library is
// preloaded as those of
// ../, and the loads of lab/paper open it for `algorithm_foreign`.
//
// What these allocators do not have: free sees no wrong pointer and returns true; `usage` knows the area only, so that
// its `reached` is all of it (lab/paper looks at the blocks instead); no size of the area is stated, below which malloc
// may fail: area_size is SIZE_MAX.
#ifndef ALGORITHMS_FOREIGN_H
#define ALGORITHMS_FOREIGN_H

#include <stdint.h>
#include <string.h>

#include "../algorithm.h"

extern const struct algorithm algorithm_foreign __attribute__((visibility("default")));

// From `memory` on, the first multiple of `alignment`; NULL if fewer than `least` bytes are left of `bytes`, which
// becomes what is left.
static inline char *foreign_align(void *memory, size_t *bytes, size_t alignment, size_t least) {
  size_t lost = -(uintptr_t)memory & (alignment - 1);
  if (*bytes < lost || *bytes - lost < least) return NULL;
  *bytes -= lost;
  return (char *)memory + lost;
}

static inline size_t foreign_area_size(size_t live, size_t largest) {
  (void)live, (void)largest;
  return SIZE_MAX;
}

// Of those that have no check, or only in a build for debugging.
static inline const char *foreign_no_check(const void *heap) {
  (void)heap;
  return NULL;
}

#endif
