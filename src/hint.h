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

enum { HINT_FANOUT = 64, HINT_TOPS = 32, HINT_GROUPS_MOST = HINT_TOPS * HINT_FANOUT, HINT_TOPS_USUAL = 2 };

// The part that other threads touch.
struct hint_word {
  _Alignas(64) _Atomic uint64_t bits;
  struct hint_word *parent;  // never changes once a span is found by it
  uint64_t parent_bit;
};

struct hint_leaf {
  struct hint_word word;
  struct hint_class *class;       // whose tree it is in
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
  uint32_t places;  // vacant ones
};

struct hints {
  struct hint_word top[HINT_TOPS];
  struct hint_class class[SPAN_MEDIUM + 1];  // [0]: spans of any class, until the class has a tree of its own
  struct hint_group *group[HINT_GROUPS_MOST];
  uint32_t groups;
  uint64_t later[HINT_TOPS];  // of each of the top's words: whose turn has not come yet
  uint32_t shared_at;         // leaf and place at which the next search in the shared leaves starts
  uint32_t turn;
  struct hint_group *rich;  // where a page came back whole last
  uint32_t far;             // which word is looked at next where there are more than the usual ones,
  uint32_t has_far;         // which is so from then on
  // Spans of medium blocks whose bits were taken a word at a time, and are still to be looked at. They are alone in
  // their spans: looking for each by itself would cost more than collecting it.
  struct hint_leaf *stash;
  uint64_t stash_bits;
  uint64_t stash_later;  // leaves of the group whose turn has not come yet
  // A place where a search has led, its bit cleared: the span there is still to be looked at. 0: none.
  struct hint_leaf *found;
  uint64_t found_bit;
};

// One step towards another leaf for the class: memory, a group for leaves, or the leaf. False: out of memory. O(1).
bool hint_grow(struct hints *hints, unsigned class);
// A leaf with vacant places for the class, which has none.
bool hint_add_leaf(struct hints *hints, unsigned class);
// The same where one should have been made ahead.
RTM_COLD bool hint_late(struct hints *hints, unsigned class);
// A new heap's first leaves. False: out of memory.
bool hint_init(struct hints *hints);
// Looks for a span of any class whose bit is set, and clears it: `found`, of which there was none. What it finds of
// medium blocks goes to the stash, which is empty. Owner only. O(1).
void hint_find_any(struct hints *hints);
// That span, or NULL: it may be gone, or the bit was late. The caller looks at its remote words. 6 instructions.
RTM_INLINE struct span *hint_take_found(struct hints *hints) {
  uint64_t bit = hints->found_bit;
  hints->found_bit = 0;
  return bit ? hints->found->span[bits_lowest(bit)] : NULL;
}
// Takes the bits of a leaf of medium blocks, which becomes that of the empty stash; 0 where nothing was found. Leaves
// take turns, and then groups. The bit at the top stays set: hint_find_any clears it. 21 instructions.
RTM_INLINE uint64_t hint_take_leaf(struct hints *hints, struct hint_leaf **leaf) {
  struct hint_class *c = &hints->class[SPAN_MEDIUM];
  struct hint_group *group = c->group;
  uint64_t leaves = atomic_load_explicit(&group->word.bits, memory_order_seq_cst), later = leaves & hints->stash_later;
  if (RTM_LIKELY(!later)) {
    c->group = group->next;
    later = leaves;
    if (!leaves) return 0;
  }
  uint64_t place = bits_lowest(later);
  *leaf = group->leaf[place];
  hints->stash_later = ~UINT64_C(1) << place;
  hints->stash = *leaf;
  // In this order: what is freed after the leaf was looked at sets the bit again.
  atomic_fetch_and_explicit(&group->word.bits, ~(*leaf)->word.parent_bit, memory_order_seq_cst);
  return atomic_exchange_explicit(&(*leaf)->word.bits, 0, memory_order_seq_cst);
}
// The span of a medium block that may have been freed, out of the stash or of the next leaf; NULL if none was found, or
// its bit came late.
RTM_INLINE struct span *hint_take_medium(struct hints *hints) {
  struct hint_leaf *leaf = hints->stash;
  uint64_t bits = hints->stash_bits;
  if (RTM_LIKELY(!bits) && !(bits = hint_take_leaf(hints, &leaf))) return NULL;
  hints->stash_bits = bits & (bits - 1);
  return leaf->span[bits_lowest(bits)];
}
// All spans are gone: every place is vacant, no bit is set. No other thread frees into the heap. O(leaves).
void hint_reset(struct hints *hints);
// Has the span looked at once more.
RTM_INLINE void hint_found(struct hints *hints, const struct span *span) {
  hints->found = (struct hint_leaf *)span->hint;
  hints->found_bit = span->hint_bit;
}
// Puts the stash and what was found back, for a thread that leaves the heap.
void hint_empty_stash(struct hints *hints);
// The bits of a leaf of the class, which stay as they are; 0 where none is found at a glance. Owner only. 11
// instructions.
RTM_INLINE uint64_t hint_peek(struct hints *hints, unsigned class, struct hint_leaf **leaf) {
  struct hint_group *group = hints->class[class].group;
  if (!group) return 0;
  uint64_t leaves = atomic_load_explicit(&group->word.bits, memory_order_seq_cst);
  if (!leaves) return 0;
  *leaf = group->leaf[bits_lowest(leaves)];
  return atomic_load_explicit(&(*leaf)->word.bits, memory_order_seq_cst);
}
// Clears a place's bit, whether it is set or not, before the owner looks at the span's remote words without having been
// led there by hint_find_any. O(1).
void hint_lower(struct hint_word *leaf, uint64_t bit);

// All that the program had of the page was found freed: its group has every fourth search, as more may have come back
// whole there.
RTM_INLINE void hint_found_empty(struct hints *hints, const struct span *page) {
  hints->rich = (struct hint_group *)page->hint->parent;
}

RTM_INLINE uint64_t hint_top(const struct hints *hints, uint32_t word) {
  return atomic_load_explicit(&hints->top[word].bits, memory_order_seq_cst);
}
RTM_INLINE bool hint_has_far(const struct hints *hints) {
  return RTM_READ_RELAXED(hints->groups) > HINT_TOPS_USUAL * HINT_FANOUT;
}
RTM_INLINE bool hint_turn_is_far(uint32_t turn) { return !(turn & 8); }
// What is set at the top in the usual words.
RTM_INLINE uint64_t hint_pending_usual(const struct hints *hints) { return hint_top(hints, 0) | hint_top(hints, 1); }
// What is set at the top, all words together; any thread. 3 instructions, but for heaps of more than some 200,000
// spans.
RTM_INLINE uint64_t hint_pending(struct hints *hints) {
  _Static_assert(HINT_TOPS_USUAL * HINT_FANOUT > SPAN_MEDIUM, "a first group for each class");
  uint64_t any = hint_pending_usual(hints);
  if (RTM_UNLIKELY(hint_has_far(hints)))
    for (unsigned i = HINT_TOPS_USUAL; i < HINT_TOPS; i++) any |= hint_top(hints, i);
  return any;
}
// Whether there may be anything for the owner, the stash and what was found included: heaps of more than some 200,000
// spans have to look for it (hint_find_any). O(1).
RTM_INLINE bool hint_may_have(const struct hints *hints) {
  return hints->stash_bits | hints->found_bit | hint_top(hints, 0) | hint_top(hints, 1) | hints->has_far;
}
// hint_find_any has found nothing. Whether such a heap has looked at all words by now.
RTM_INLINE bool hint_has_looked(const struct hints *hints) {
  return RTM_UNLIKELY(hint_has_far(hints)) && hint_turn_is_far(hints->turn - 1) && !hints->far && !hints->stash_bits;
}

// 3 instructions, 5 if the bit was clear.
RTM_INLINE void hint_raise_level(struct hint_word *word, uint64_t bit) {
  // Sequentially consistent: comes after the block's own bit, and pairs with the owner's clear in settle_level.
  if (RTM_UNLIKELY(!(atomic_load_explicit(&word->bits, memory_order_seq_cst) & bit)))
    atomic_fetch_or_explicit(&word->bits, bit, memory_order_seq_cst);
}

RTM_INLINE bool hint_is_raised(const struct span *span) {
  return atomic_load_explicit(&span->hint->bits, memory_order_seq_cst) & span->hint_bit;
}

// Sets the bits from the leaf to the top. Any thread, wait-free, without a loop. 13 instructions, 18 if all were clear.
RTM_INLINE void hint_raise(struct hint_word *leaf, uint64_t bit) {
  hint_raise_level(leaf, bit);
  struct hint_word *group = leaf->parent;
  hint_raise_level(group, leaf->parent_bit);
  hint_raise_level(group->parent, group->parent_bit);
}

// A leaf with a vacant place for a span of the class; where its tree has none, in the shared one, and an operation that
// has less to do makes a leaf for the class (hint_prepare). Of the shared places some are kept ahead (hint_must_share).
// So there is always one, where the system gives memory; else NULL.
RTM_INLINE struct hint_leaf *hint_vacant(const struct hints *hints, unsigned class) {
  struct hint_leaf *leaf = hints->class[class].vacant;
  return RTM_LIKELY(leaf != NULL) ? leaf : hints->class[0].vacant;
}

RTM_INLINE void hint_attach_to(struct hint_leaf *leaf, struct span *span) {
  struct hint_class *c = leaf->class;
  c->places--;
  uint64_t vacant = leaf->vacant;
  unsigned place = bits_lowest(vacant);
  span->hint = &leaf->word;
  span->hint_bit = UINT64_C(1) << place;
  leaf->span[place] = span;
  leaf->vacant = vacant & (vacant - 1);
  if (!leaf->vacant) c->vacant = leaf->next_vacant;
}

// A span gets a place. False: out of memory. O(1).
RTM_INLINE bool hint_attach(struct hints *hints, unsigned class, struct span *span) {
  struct hint_leaf *leaf = hint_vacant(hints, class);
  if (RTM_UNLIKELY(!leaf)) {
    if (!hint_late(hints, class)) return false;
    leaf = hints->class[class].vacant;
  }
  hint_attach_to(leaf, span);
  return true;
}

RTM_INLINE void hint_vacate(struct hint_word *hint, uint64_t bit) {
  struct hint_leaf *leaf = (struct hint_leaf *)hint;
  struct hint_class *c = leaf->class;
  uint64_t vacant = leaf->vacant;
  leaf->span[bits_lowest(bit)] = NULL;
  if (!vacant) {
    leaf->next_vacant = c->vacant;
    c->vacant = leaf;
  }
  leaf->vacant = vacant | bit;
  c->places++;
}
RTM_INLINE void hint_detach(const struct span *span) { hint_vacate(span->hint, span->hint_bit); }

// The place of a span that is gone passes to another of its class. 5 instructions.
RTM_INLINE void hint_pass(struct hint_word *hint, uint64_t bit, struct span *to) {
  to->hint = hint;
  to->hint_bit = bit;
  ((struct hint_leaf *)hint)->span[bits_lowest(bit)] = to;
}

RTM_INLINE bool hint_must_grow(const struct hints *hints, unsigned class) {
  return RTM_UNLIKELY(!hints->class[class].vacant);
}
// As many shared places are kept ahead as spans may need before an operation has made more: one of each class, and some
// (docs/bounded-work.md).
RTM_INLINE bool hint_must_share(const struct hints *hints) {
  enum { AHEAD = 128 };
  _Static_assert(AHEAD > SPAN_MEDIUM + 32, "a place for each class");
  return RTM_UNLIKELY(hints->class[0].places < AHEAD) && hints->groups < HINT_GROUPS_MOST;
}
// Whether places are to be made, for all or for the class, and one step towards them; true if it is done.
RTM_INLINE bool hint_must_prepare(const struct hints *hints, unsigned class) {
  return hint_must_share(hints) || hint_must_grow(hints, class);
}
RTM_INLINE bool hint_prepare(struct hints *hints, unsigned class) {
  return hint_grow(hints, hint_must_share(hints) ? 0 : class);
}
// Whether something of the class may have been freed by other threads.
RTM_INLINE bool hint_any_of(struct hints *hints, unsigned class) {
  struct hint_group *group = hints->class[class].group;
  return group && (group->next != group || atomic_load_explicit(&group->word.bits, memory_order_seq_cst));
}

#endif
