// Hint trees: which spans of a heap may hold remote frees. Layer: above arena. Called by remote, page, medium.
//
// Three levels of words of 64 bits; any bit set says "look below, there may be something":
//
//     top      [ .. group .. ] [ .. ]    HINT_TOPS words for the heap: a bit for each group
//     group    [ .. leaf  .. ]           a bit for each of 64 leaves; belongs to one size class
//     leaf     [ .. span  .. ]           a bit for each of 64 spans of that class
//
// A class starts with one group and gets another for each 4096 spans: the depth is the same for every heap.
//
// Protocol (the reasons are in docs/remote-free.md):
//   any thread, after it has set the block's own bit: at each level from the leaf up, set the bit if it is clear
//   the owner: clear a bit, then look below again, and set it again if something is there
// Each thread looks at every level itself, so that a thread stopped half-way hides no block but its own. Nodes are
// never freed, moved or used for anything else: a late bit costs the owner one look.
#ifndef RTM_HINT_H
#define RTM_HINT_H

#include "arena.h"

enum { HINT_FANOUT = 64, HINT_TOPS = 32, HINT_GROUPS_MOST = HINT_TOPS * HINT_FANOUT };

// The part that other threads touch.
struct hint_word {
  _Alignas(64) _Atomic uint64_t bits;
  struct hint_word *parent;  // never changes
  uint64_t parent_bit;
};

struct hint_leaf {
  struct hint_word word;
  uint64_t vacant;                // places without a span
  struct hint_leaf *next_vacant;  // next leaf of the class that has vacant places
  struct span *span[HINT_FANOUT];
};

struct hint_group {
  struct hint_word word;
  struct hint_group *next;  // ring of the class's groups
  uint32_t class;
  uint32_t leaves;  // leaf[0 .. leaves) exist
  struct hint_leaf *leaf[HINT_FANOUT];
};

// What a heap has for each class.
struct hint_class {
  struct hint_group *group;   // where the next search starts; NULL: the class has never had a span
  struct hint_group *newest;  // where the next leaf goes
  struct hint_leaf *vacant;
};

struct hints {
  struct hint_word top[HINT_TOPS];
  struct hint_class class[SPAN_MEDIUM + 1];
  struct hint_group *group[HINT_GROUPS_MOST];
  uint32_t groups;
  uint32_t at;  // top bit at which the next search over all classes starts
};

// Gives the span a place in the class's tree. False: out of memory. O(1).
bool hint_attach(struct hints *hints, unsigned class, struct span *span);
void hint_detach(struct hints *hints, unsigned class, struct span *span);
// A span of the class, or of any class, whose bit was set, which is now clear; NULL if there is none to be found. The
// caller looks at the span's remote words afterwards. Owner only. O(1).
struct span *hint_take(struct hints *hints, unsigned class);
struct span *hint_take_any(struct hints *hints);
// Clears the span's own bit, before the owner looks at its remote words without having been led there. O(1).
void hint_lower(struct span *span);

// Whether any bit is set at the top. 6 instructions, but for heaps of more than some 200,000 spans.
RTM_INLINE bool hint_any(struct hints *hints) {
  enum { USUAL = 2 };
  _Static_assert(USUAL * HINT_FANOUT > SPAN_MEDIUM, "a first group for each class");
  uint64_t any = 0;
  for (unsigned i = 0; i < USUAL; i++) any |= atomic_load_explicit(&hints->top[i].bits, memory_order_seq_cst);
  if (RTM_UNLIKELY(hints->groups > USUAL * HINT_FANOUT))
    for (unsigned i = USUAL; i < HINT_TOPS; i++) any |= atomic_load_explicit(&hints->top[i].bits, memory_order_seq_cst);
  return any != 0;
}

// 3 instructions, 5 if the bit was clear.
RTM_INLINE void hint_raise_level(struct hint_word *word, uint64_t bit) {
  // Sequentially consistent: comes after the block's own bit, and pairs with the owner's clear in settle_level.
  if (RTM_UNLIKELY(!(atomic_load_explicit(&word->bits, memory_order_seq_cst) & bit)))
    atomic_fetch_or_explicit(&word->bits, bit, memory_order_seq_cst);
}

// Sets the bits from the leaf to the top. Any thread, wait-free, without a loop. 13 instructions, 18 if all were clear.
RTM_INLINE void hint_raise(struct hint_word *leaf, uint64_t bit) {
  hint_raise_level(leaf, bit);
  struct hint_word *group = leaf->parent;
  hint_raise_level(group, leaf->parent_bit);
  hint_raise_level(group->parent, group->parent_bit);
}

#endif
