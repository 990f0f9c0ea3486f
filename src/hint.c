// See hint.h.
#include "hint.h"

static uintptr_t reference_to(struct hint_word *word, unsigned bit) { return (uintptr_t)word | bit; }

static struct hint *new_node(struct hint_word *parent, unsigned bit) {
  struct hint *node = arena_metadata(sizeof *node);
  if (node) atomic_store_explicit(&node->word.parent, reference_to(parent, bit), memory_order_relaxed);
  return node;
}

// A new root above the old one. A thread that still sees the old parent has set its bit in the old root before, so the
// new root starts with a hint that makes the owner look there.
static bool add_level(struct hint_tree *tree) {
  struct hint *old = tree->root, *root = arena_metadata(sizeof *root);
  if (!root) return false;
  root->child[0] = old;
  atomic_store_explicit(&root->word.bits, 1, memory_order_relaxed);
  uintptr_t above = atomic_load_explicit(&old->word.parent, memory_order_relaxed);
  atomic_store_explicit(&root->word.parent, above, memory_order_relaxed);
  atomic_store_explicit(&old->word.parent, reference_to(&root->word, 0), memory_order_seq_cst);
  atomic_fetch_or_explicit(&hint_word_of(above)->bits, UINT64_C(1) << (above % HINT_FANOUT), memory_order_seq_cst);
  tree->root = root;
  tree->levels++;
  return true;
}

static bool add_leaf(struct hint_tree *tree, struct hint_word *top, unsigned bit) {
  enum { FANOUT_SHIFT = 6 };
  _Static_assert(1 << FANOUT_SHIFT == HINT_FANOUT, "");
  struct hint *leaf;
  if (!tree->root) {
    leaf = new_node(top, bit);
    if (!leaf) return false;
    tree->root = leaf;
    tree->levels = 1;
  } else {
    uint32_t number = tree->leaves;
    if (number >> (FANOUT_SHIFT * (tree->levels - 1))) {
      if (tree->levels == HINT_LEVELS_MOST || !add_level(tree)) return false;
    }
    struct hint *node = tree->root;
    for (uint32_t level = tree->levels - 2; level > 0; level--) {
      unsigned i = (number >> (FANOUT_SHIFT * level)) % HINT_FANOUT;
      if (!node->child[i]) {
        node->child[i] = new_node(&node->word, i);
        if (!node->child[i]) return false;
      }
      node = node->child[i];
    }
    unsigned i = number % HINT_FANOUT;
    leaf = new_node(&node->word, i);
    if (!leaf) return false;
    node->child[i] = leaf;
  }
  tree->leaves++;
  leaf->vacant = ~UINT64_C(0);
  leaf->next_vacant = tree->vacant;
  tree->vacant = leaf;
  return true;
}

bool hint_attach(struct hint_tree *tree, struct hint_word *top, unsigned bit, struct span *span) {
  if (RTM_UNLIKELY(!tree->vacant) && !add_leaf(tree, top, bit)) return false;
  struct hint *leaf = tree->vacant;
  unsigned place = bits_lowest(leaf->vacant);
  leaf->vacant &= leaf->vacant - 1;
  if (!leaf->vacant) tree->vacant = leaf->next_vacant;
  leaf->child[place] = span;
  span->hint = reference_to(&leaf->word, place);
  return true;
}

void hint_detach(struct hint_tree *tree, struct span *span) {
  struct hint *leaf = (struct hint *)hint_word_of(span->hint);
  unsigned place = span->hint % HINT_FANOUT;
  leaf->child[place] = NULL;
  if (!leaf->vacant) {
    leaf->next_vacant = tree->vacant;
    tree->vacant = leaf;
  }
  leaf->vacant |= UINT64_C(1) << place;
}

// Clears the bit above `word` if nothing is set below; true if it did, so that the next level has to be looked at.
RTM_INLINE struct hint_word *settle_level(struct hint_word *word) {
  if (!word || atomic_load_explicit(&word->bits, memory_order_seq_cst)) return NULL;
  uintptr_t above = atomic_load_explicit(&word->parent, memory_order_relaxed);
  if (!above) return NULL;
  struct hint_word *parent = hint_word_of(above);
  uint64_t bit = UINT64_C(1) << (above % HINT_FANOUT);
  atomic_fetch_and_explicit(&parent->bits, ~bit, memory_order_seq_cst);
  // Look again: a free that came between saw the bit set and went on.
  if (atomic_load_explicit(&word->bits, memory_order_seq_cst)) {
    atomic_fetch_or_explicit(&parent->bits, bit, memory_order_seq_cst);
    return NULL;
  }
  return parent;
}

static void hint_settle(struct hint_word *word) {
  word = settle_level(word);
  word = settle_level(word);
  word = settle_level(word);
  settle_level(word);
}

void hint_lower(uintptr_t reference) {
  struct hint_word *leaf = hint_word_of(reference);
  uint64_t bit = UINT64_C(1) << (reference % HINT_FANOUT);
  if (!(atomic_load_explicit(&leaf->bits, memory_order_seq_cst) & bit)) return;
  atomic_fetch_and_explicit(&leaf->bits, ~bit, memory_order_seq_cst);
  hint_settle(leaf);
}

// The child below the lowest set bit; NULL, with the hint above put right, if there is none.
RTM_INLINE struct hint *go_down(struct hint *node) {
  if (!node) return NULL;
  uint64_t bits = atomic_load_explicit(&node->word.bits, memory_order_seq_cst);
  if (!bits) {
    hint_settle(&node->word);
    return NULL;
  }
  return node->child[bits_lowest(bits)];
}

struct span *hint_take(struct hint_tree *tree) {
  struct hint *node = tree->root;
  uint32_t levels = tree->levels;
  if (levels > 3) node = go_down(node);
  if (levels > 2) node = go_down(node);
  if (levels > 1) node = go_down(node);
  if (!node) return NULL;
  uint64_t bits = atomic_load_explicit(&node->word.bits, memory_order_seq_cst);
  struct span *span = NULL;
  if (bits) {
    unsigned place = bits_lowest(bits);
    atomic_fetch_and_explicit(&node->word.bits, ~(UINT64_C(1) << place), memory_order_seq_cst);
    span = node->child[place];  // NULL: a late bit of a span that is gone
  }
  hint_settle(&node->word);
  return span;
}
