// Hint trees: which spans of a heap may hold remote frees. Layer: above arena. Called by remote, page, segment.
//
// For each heap and size class a 64-ary tree of words. A leaf has a bit for each of 64 spans, an inner node a bit for
// each of 64 nodes below, and above all classes' roots stand two words with a bit for each class (heap->pending):
//
//     pending     [ .. class c .. ]          any bit set: "look below, there may be something"
//     inner             [ .. ]               levels are added as the class grows: 64 spans in one level,
//     leaf        [ .. span .. ] [ .. ]      4096 in two, 2^18 in three, 2^24 in four
//
// Protocol (the reasons are in docs/remote-free.md):
//   any thread, after it has set the block's own bit: at each level from the leaf up, set the bit if it is clear
//   the owner: clear a bit, then look below again, and set it again if something is there
// Each thread looks at every level itself, so that a thread stopped half-way hides no block but its own. Nodes are never
// freed or used for anything else: a late bit costs the owner one look.
#ifndef RTM_HINT_H
#define RTM_HINT_H

#include "arena.h"

enum { HINT_FANOUT = 64, HINT_LEVELS_MOST = 4 };

// The part that other threads touch. Aligned to 64 bytes, so that a reference has room for the bit's number.
struct hint_word {
  _Alignas(HINT_FANOUT) _Atomic uint64_t bits;
  _Atomic uintptr_t parent;  // struct hint_word | bit in it; 0 at the top. Changes when the tree gets a new root
};

struct hint {
  struct hint_word word;
  uint64_t vacant;           // leaf: places without a span
  struct hint *next_vacant;  // leaf: next leaf that has vacant places
  void *child[HINT_FANOUT];  // leaf: struct span; inner node: struct hint
};

struct hint_tree {
  struct hint *root;
  struct hint *vacant;  // leaves with vacant places
  uint32_t leaves;
  uint32_t levels;
};

// Gives the span a place in the tree, whose root stands below bit `bit` of `top`. False: out of memory. O(1).
bool hint_attach(struct hint_tree *tree, struct hint_word *top, unsigned bit, struct span *span);
void hint_detach(struct hint_tree *tree, struct span *span);
// A span whose bit was set, which is now clear; NULL if there is none to be found. The caller looks at the span's remote
// words afterwards. Owner only. O(1).
struct span *hint_take(struct hint_tree *tree);
// Clears the span's own bit, before the owner looks at the span's remote words without having been led there. O(1).
void hint_lower(uintptr_t reference);

RTM_INLINE struct hint_word *hint_word_of(uintptr_t reference) {
  return (struct hint_word *)(reference & ~(uintptr_t)(HINT_FANOUT - 1));
}

// One level of raising a hint; returns the next level's reference. 7 instructions, 9 if the bit was clear.
RTM_INLINE uintptr_t hint_raise_level(uintptr_t reference) {
  struct hint_word *word = hint_word_of(reference);
  uint64_t bit = UINT64_C(1) << (reference % HINT_FANOUT);
  // Sequentially consistent: comes after the block's own bit, and pairs with the owner's clear in hint_settle.
  if (!(atomic_load_explicit(&word->bits, memory_order_seq_cst) & bit))
    atomic_fetch_or_explicit(&word->bits, bit, memory_order_seq_cst);
  return atomic_load_explicit(&word->parent, memory_order_seq_cst);
}

// Sets the bits from the leaf to the top. Any thread, wait-free, without a loop.
RTM_INLINE void hint_raise(uintptr_t reference) {
  _Static_assert(HINT_LEVELS_MOST == 4, "one line for each level, and one for the top");
  reference = hint_raise_level(reference);
  reference = hint_raise_level(reference);
  if (!reference) return;
  reference = hint_raise_level(reference);
  if (!reference) return;
  reference = hint_raise_level(reference);
  if (!reference) return;
  hint_raise_level(reference);
}

#endif
