// Checks of a live heap. Layer: above page. Called by alloc in the debug variant, and by tests through rtm_check.
#ifndef RTM_CHECK_H
#define RTM_CHECK_H

#include "heap.h"

// NULL if every invariant of the heap holds, else the sentence that does not. The caller owns or has claimed the heap.
// Linear in the heap.
const char *check_heap(const struct heap *heap);

// What the debug variant does beside each operation, none of which takes a fast path there: check_operation looks at
// the whole heap now and then, check_free at the block and its page. Both abort with a line that says what is wrong.
void check_operation(struct heap *heap);
void check_free(struct span *span, const void *block);

// A third: aborts if the operation begins in the middle of another one of its thread, where a signal handler must not
// call. The program's callbacks (hooks.h) may. Returns what check_ends is given.
bool check_begins(void);
void check_ends(bool outer);

#ifdef RTM_DEBUG
enum { DEBUG_VARIANT = 1 };
#else
enum { DEBUG_VARIANT = 0 };
#endif

// Stands where the heap begins to change, for the rest of the scope.
#define CHECK_SCOPE() bool outer __attribute__((cleanup(check_end), unused)) = check_begin()
RTM_INLINE bool check_begin(void) { return DEBUG_VARIANT && check_begins(); }
RTM_INLINE void check_end(const bool *outer) {
  if (DEBUG_VARIANT) check_ends(*outer);
}

#endif
