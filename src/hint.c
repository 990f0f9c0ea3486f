// See hint.h.
#include "hint.h"

static void put_below(struct hint_word *word, struct hint_word *parent, unsigned place) {
  word->parent = parent;
  word->parent_bit = UINT64_C(1) << place;
}

_Static_assert(sizeof(struct hint_group) <= sizeof(struct hint_leaf), "what is enough for a leaf is for a group");

static bool add_group(struct hints *hints, unsigned class) {
  if (hints->groups == HINT_GROUPS_MOST) return false;
  struct hint_group *group = arena_metadata(sizeof *group);
  if (!group) return false;
  struct hint_class *c = &hints->class[class];
  group->class = class;
  if (c->group) {
    group->next = c->group->next;
    c->group->next = group;
  } else {
    group->next = group;
    c->group = group;
  }
  c->newest = group;
  hints->group[hints->groups] = group;
  put_below(&group->word, &hints->top[hints->groups / HINT_FANOUT], hints->groups % HINT_FANOUT);
  RTM_WRITE_RELAXED(hints->groups, hints->groups + 1);
  if (RTM_UNLIKELY(hint_has_far(hints))) hints->has_far = 1;
  return true;
}

static bool add_leaf(struct hint_class *c) {
  struct hint_group *group = c->newest;
  struct hint_leaf *leaf = arena_metadata(sizeof *leaf);
  if (!leaf) return false;
  put_below(&leaf->word, &group->word, group->leaves);
  group->leaf[group->leaves++] = leaf;
  leaf->class = c;
  leaf->vacant = ~UINT64_C(0);
  leaf->next_vacant = c->vacant;
  c->vacant = leaf;
  c->places += HINT_FANOUT;
  return true;
}

bool hint_grow(struct hints *hints, unsigned class) {
  struct hint_class *c = &hints->class[class];
  if (RTM_UNLIKELY(arena_short_of_metadata(sizeof(struct hint_leaf))))
    return arena_map_metadata(sizeof(struct hint_leaf));
  return c->newest && c->newest->leaves < HINT_FANOUT ? add_leaf(c) : add_group(hints, class);
}

bool hint_add_leaf(struct hints *hints, unsigned class) {
  while (!hints->class[class].vacant)
    if (!hint_grow(hints, class)) return false;
  return true;
}

bool hint_late(struct hints *hints, unsigned class) {
  atomic_fetch_add_explicit(&rtm_arena.late, 1, memory_order_relaxed);
  return hint_add_leaf(hints, class);
}

// One leaf more for the class, ahead of its spans.
static struct hint_leaf *reserve(struct hints *hints, unsigned class) {
  const struct hint_leaf *had = hints->class[class].vacant;
  while (hints->class[class].vacant == had)
    if (!hint_grow(hints, class)) return NULL;
  return hints->class[class].vacant;
}

bool hint_init(struct hints *hints) {
  // Room for the first spans of every class: three leaves. (Medium blocks do not use the stash there.)
  if (!hint_add_leaf(hints, SPAN_MEDIUM) || !reserve(hints, 0) || !reserve(hints, 0) || !reserve(hints, 0))
    return false;
  hints->rich = hints->class[0].group;
  return true;
}

// Clears the bit above `word` if nothing is set below it; true if it did, so that the next level has to be looked at.
RTM_INLINE bool settle_level(struct hint_word *word) {
  if (atomic_load_explicit(&word->bits, memory_order_seq_cst)) return false;
  struct hint_word *parent = word->parent;
  atomic_fetch_and_explicit(&parent->bits, ~word->parent_bit, memory_order_seq_cst);
  // Look again: a free that came between saw the bit set and went on.
  if (!atomic_load_explicit(&word->bits, memory_order_seq_cst)) return true;
  atomic_fetch_or_explicit(&parent->bits, word->parent_bit, memory_order_seq_cst);
  return false;
}

RTM_INLINE void lower(struct hint_word *leaf, uint64_t bit) {
  atomic_fetch_and_explicit(&leaf->bits, ~bit, memory_order_seq_cst);
  if (settle_level(leaf)) settle_level(leaf->parent);
}

void hint_lower(struct hint_word *leaf, uint64_t bit) { lower(leaf, bit); }

RTM_INLINE uint64_t leaf_bits(struct hint_leaf *leaf) {
  return atomic_load_explicit(&leaf->word.bits, memory_order_seq_cst);
}

// The first place of those whose bits are set.
RTM_INLINE void find_in(struct hints *hints, struct hint_leaf *leaf, uint64_t spans) {
  uint64_t bit = spans & -spans;
  hints->found = leaf;
  hints->found_bit = bit;
  lower(&leaf->word, bit);
}

// Nothing is found where the bit of the group or of the leaf was late.
RTM_INLINE void find_below(struct hints *hints, struct hint_group *group) {
  uint64_t leaves = atomic_load_explicit(&group->word.bits, memory_order_seq_cst);
  if (!leaves) {
    settle_level(&group->word);
    return;
  }
  struct hint_leaf *leaf = group->leaf[bits_lowest(leaves)];
  find_in(hints, leaf, leaf_bits(leaf));
}

void hint_empty_stash(struct hints *hints) {
  while (hints->stash_bits) {
    uint64_t bit = hints->stash_bits & -hints->stash_bits;
    hints->stash_bits ^= bit;
    hint_raise(&hints->stash->word, bit);
  }
  if (hints->found_bit) hint_raise(&hints->found->word, hints->found_bit);
  hints->found_bit = 0;
}

void hint_reset(struct hints *hints) {
  for (unsigned class = 0; class <= SPAN_MEDIUM; class ++) {
    hints->class[class].vacant = NULL;
    hints->class[class].places = 0;
  }
  for (uint32_t g = 0; g < hints->groups; g++) {
    struct hint_group *group = hints->group[g];
    for (uint32_t i = 0; i < group->leaves; i++) {
      struct hint_leaf *leaf = group->leaf[i];
      atomic_store_explicit(&leaf->word.bits, 0, memory_order_relaxed);
      for (unsigned place = 0; place < HINT_FANOUT; place++) leaf->span[place] = NULL;
      leaf->vacant = ~UINT64_C(0);
      leaf->next_vacant = leaf->class->vacant;
      leaf->class->vacant = leaf;
      leaf->class->places += HINT_FANOUT;
    }
    atomic_store_explicit(&group->word.bits, 0, memory_order_relaxed);
  }
  for (unsigned i = 0; i < HINT_TOPS; i++) atomic_store_explicit(&hints->top[i].bits, 0, memory_order_relaxed);
  hints->stash_bits = hints->found_bit = 0;
}

// Among the shared leaves' first group there are pages of many classes, which would wait long for the one turn of their
// group, and for ever behind some that others keep freeing into: it has every other turn, and its spans take turns in
// the order of their places. `leaves`: the group's bits, of which one is set.
RTM_INLINE void find_shared(struct hints *hints, const struct hint_group *group, uint64_t leaves) {
  uint32_t number = hints->shared_at / HINT_FANOUT, place = hints->shared_at % HINT_FANOUT;
  uint64_t later = leaves & (~UINT64_C(0) << number);
  uint32_t found = bits_lowest(later ? later : leaves);
  struct hint_leaf *leaf = group->leaf[found];
  uint64_t spans = leaf_bits(leaf);
  later = found == number ? spans & (~UINT64_C(0) << place) : spans;
  // Where nothing comes later in this leaf, it is the next leaf's turn.
  uint32_t next = (found + 1) * HINT_FANOUT;
  if (later) {
    spans = later;
    next = found * HINT_FANOUT + bits_lowest(later) + 1;
  }
  hints->shared_at = next % (HINT_FANOUT * HINT_FANOUT);
  find_in(hints, leaf, spans);
}

// Classes take turns: none waits for ever behind one that is always busy. `bits`: of the top's word, not 0.
RTM_INLINE void find_in_turn(struct hints *hints, uint32_t word, uint64_t bits) {
  uint64_t *later = &hints->later[word];
  if (bits & *later) bits &= *later;
  uint32_t place = bits_lowest(bits);
  *later = ~UINT64_C(1) << place;
  struct hint_group *group = hints->group[word * HINT_FANOUT + place];
  if (group->class != SPAN_MEDIUM) {
    find_below(hints, group);
    return;
  }
  hints->class[SPAN_MEDIUM].group = group;
  struct hint_leaf *leaf;
  hints->stash_bits = hint_take_leaf(hints, &leaf);
  settle_level(&group->word);
}

// One of the usual words.
RTM_INLINE void find_usual(struct hints *hints, uint32_t turn) {
  uint32_t word = turn >> 2 & 1;
  uint64_t bits = hint_top(hints, word);
  if (!bits) bits = hint_top(hints, word ^= 1);
  if (bits) find_in_turn(hints, word, bits);
}

// Heaps of more than some 200,000 spans: one word in each search, in half of them one of all in turn.
static RTM_NOINLINE void find_far(struct hints *hints, uint32_t turn) {
  uint32_t word = turn >> 2 & 1;
  if (hint_turn_is_far(turn)) {
    word = hints->far++;
    if (hints->far * HINT_FANOUT >= hints->groups) hints->far = 0;
  }
  uint64_t bits = hint_top(hints, word);
  if (bits) find_in_turn(hints, word, bits);
}

void hint_find_any(struct hints *hints) {
  uint32_t turn = hints->turn++;
  if (turn & 1) {
    const struct hint_group *shared = hints->class[0].group;
    uint64_t leaves = atomic_load_explicit(&shared->word.bits, memory_order_seq_cst);
    if (leaves) {
      find_shared(hints, shared, leaves);
      return;
    }
  } else if (turn & 2) {  // what a class held that is no longer asked for: one look in a round of all would be few
    struct hint_group *rich = hints->rich;
    if (atomic_load_explicit(&rich->word.bits, memory_order_seq_cst)) {
      find_below(hints, rich);
      return;
    }
  }
  if (RTM_UNLIKELY(hint_has_far(hints)))
    find_far(hints, turn);
  else
    find_usual(hints, turn);
}
