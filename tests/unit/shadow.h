// A shadow of what a program holds: each operation of the family is done for real and in the shadow, and every answer is
// compared. Contents are patterns; addresses are kept in a map of intervals, so that no two blocks overlap. Used by the
// random tests, by fault injection and by the fuzzer.
//
// A shadow belongs to one thread; the interval map is shared by all. Blocks wander by shadow_exchange.
#ifndef RTM_SHADOW_H
#define RTM_SHADOW_H

#include "test.h"

enum { SHADOW_SLOTS = 256 };

struct shadow_block {
  char *address;
  size_t size, usable;  // bytes asked for; bytes that rtm_usable_size said, all of them written
  uint64_t pattern;
};

struct shadow {
  struct shadow_block *slot[SHADOW_SLOTS];
  size_t bytes, bytes_most;  // requests that would exceed it are not made
  uint64_t patterns;
  uint64_t refused;          // requests that got NULL
  bool may_refuse;           // NULL with ENOMEM is a right answer
};

enum operation_kind {
  OPERATION_MALLOC,
  OPERATION_CALLOC,
  OPERATION_REALLOC,
  OPERATION_REALLOCARRAY,
  OPERATION_ALIGNED,
  OPERATION_FREE,
  OPERATION_LOOK,        // the contents and the usable size are what they were
  OPERATION_IMPOSSIBLE,  // sizes near SIZE_MAX, products that overflow: NULL, and nothing changes
  OPERATION_TRIM,
  OPERATION_KINDS,
};

struct operation {
  enum operation_kind kind;
  unsigned slot;
  size_t size;
  unsigned alignment_log;  // of OPERATION_ALIGNED: 4..30
};

void shadow_apply(struct shadow *shadow, struct operation operation);
void shadow_free_all(struct shadow *shadow);
// Swaps the slot's block with the one at `place`, which other threads use as well.
void shadow_exchange(struct shadow *shadow, unsigned slot, struct shadow_block *_Atomic *place);

// Sizes of all ranges, and those at their edges more often.
size_t shadow_random_size(struct random *random, size_t most);
struct operation shadow_random_operation(struct random *random, size_t size_most);

#endif
