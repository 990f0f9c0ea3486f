// An allocator after the description of DLmalloc 2.8.3: not its code. What it follows (the 2008 paper is in the seeds;
// Lea's notes were recalled, not read again, when this was written):
// - TLSF 2008, section 7: 'an exact search in bintree each time a large (>256) block is required in addition to the
//   heuristic applied'. Immediate coalescing, and bins of one size for smaller blocks, are Lea's notes.
// - D. Lea's notes on 2.8: large free blocks are in trees, two for each doubling of the size, each a bitwise digital
//   tree by size, equals in a ring; the 'designated victim' is what the latest small request left over, and serves the
//   next that have no exact fit, so that blocks requested together lie together; the top (at the area's end) is last.
#include "dlmalloc_283.h"

#include "area_size.h"
#include "free_list.h"

enum {
  TREE_FROM = 256,  // bytes of a whole block: smaller ones have a bin for each size
  TREE_FROM_LOG2 = 8,
  BINS = TREE_FROM / ALIGNMENT,
  TREES = 2 * (48 - TREE_FROM_LOG2),
};
_Static_assert(TREE_FROM == 1 << TREE_FROM_LOG2 && BINS <= 32, "a word has a bit for each bin");

// A large free block. A tree's node has a size whose bits below the two highest begin with the path that leads to it:
// below child[c] the next bit is c. The node itself may have any size with that beginning.
struct node {
  struct block ring;      // blocks of the same size, of which one is in the tree
  struct node *child[2];  // defined for the one in the tree, as slot != NULL tells
  struct node **slot;     // the pointer that leads here
};
_Static_assert(sizeof(struct node) + 2 * HEADER <= TREE_FROM, "a node lies in its block");

// Free blocks: victim, top, or one of bin[] and tree[]. Bit i of bins and trees is set if and only if bin or tree i is
// not empty.
struct heap {
  struct area area;
  struct block *victim;  // NULL: none
  struct block *top;     // the free block at the area's end; NULL if the last block is in use
  bool small;            // the request being served is: its rest becomes the victim
  uint32_t bins;
  struct {
    uint64_t low, high;
  } trees;  // 80 trees
  struct block bin[BINS];
  struct node *tree[TREES];
};

static inline unsigned floor_log2(uint64_t size) { return 63u - (unsigned)__builtin_clzll(size); }
static inline unsigned tree_of(size_t size) {
  unsigned log2 = floor_log2(size);
  return 2 * (log2 - TREE_FROM_LOG2) + ((unsigned)(size >> (log2 - 1)) & 1);
}
// The bits below the two highest, from the word's top.
static inline uint64_t path_of(size_t size) { return (uint64_t)size << (63 - floor_log2(size)) << 2; }

static inline void trees_set(struct heap *heap, unsigned i) {
  if (i < 64)
    heap->trees.low |= (uint64_t)1 << i;
  else
    heap->trees.high |= (uint64_t)1 << (i - 64);
}
static inline void trees_clear(struct heap *heap, unsigned i) {
  if (i < 64)
    heap->trees.low &= ~((uint64_t)1 << i);
  else
    heap->trees.high &= ~((uint64_t)1 << (i - 64));
}
// The first tree at or behind i that is not empty; TREES if there is none.
static inline unsigned trees_from(const struct heap *heap, unsigned i) {
  uint64_t low = i < 64 ? heap->trees.low & (~(uint64_t)0 << i) : 0;
  uint64_t high = i < 64 ? heap->trees.high : i < TREES ? heap->trees.high & (~(uint64_t)0 << (i - 64)) : 0;
  return low ? (unsigned)__builtin_ctzll(low) : high ? 64 + (unsigned)__builtin_ctzll(high) : TREES;
}

// O(bits of the size).
static void tree_insert(struct heap *heap, struct node *node, size_t size) {
  unsigned i = tree_of(size);
  struct node **slot = &heap->tree[i];
  for (uint64_t path = path_of(size); *slot; path <<= 1) {
    if (block_size(&(*slot)->ring) == size) {
      node->slot = NULL;
      free_list_insert(&(*slot)->ring, &node->ring);
      return;
    }
    slot = &(*slot)->child[path >> 63];
  }
  *node = (struct node){{&node->ring, &node->ring}, {NULL, NULL}, slot};
  *slot = node;
  trees_set(heap, i);
}

// Puts `by` where `node` is in the tree.
static void tree_replace(struct node *node, struct node *by) {
  by->slot = node->slot;
  *by->slot = by;
  for (int c = 0; c < 2; c++) {
    by->child[c] = node->child[c];
    if (by->child[c]) by->child[c]->slot = &by->child[c];
  }
}

// O(bits of the size). A node with children is replaced by a leaf below it, which begins with the same path.
static void tree_remove(struct heap *heap, struct node *node, size_t size) {
  struct block *other = node->ring.next;
  free_list_remove(&node->ring);
  if (!node->slot) return;
  if (other != &node->ring) {
    tree_replace(node, (struct node *)other);
    return;
  }
  struct node *leaf = node;
  while (leaf->child[0] || leaf->child[1]) leaf = leaf->child[leaf->child[1] != NULL];
  *leaf->slot = NULL;
  if (leaf != node) tree_replace(node, leaf);
  if (!heap->tree[tree_of(size)]) trees_clear(heap, tree_of(size));
}

// The smallest below `node`, if it is below `best_size`.
static struct node *tree_smallest(struct node *node, struct node *best, size_t best_size) {
  for (; node; node = node->child[0] ? node->child[0] : node->child[1]) {
    if (block_size(&node->ring) < best_size) best_size = block_size(&(best = node)->ring);
  }
  return best;
}

// The smallest block of the trees that has `size` bytes; NULL if there is none. O(bits of the size).
static struct block *trees_find(struct heap *heap, size_t size) {
  struct node *best = NULL, *larger = NULL;  // `larger`: the last subtree passed by, of which all blocks suffice
  size_t best_size = SIZE_MAX;
  unsigned i = size < TREE_FROM ? 0 : tree_of(size);
  if (size >= TREE_FROM) {
    struct node *node = heap->tree[i];
    for (uint64_t path = path_of(size); node; path <<= 1) {
      size_t found = block_size(&node->ring);
      if (found >= size && found < best_size) best_size = block_size(&(best = node)->ring);
      if (found == size) break;
      if (!(path >> 63) && node->child[1]) larger = node->child[1];
      node = node->child[path >> 63];
    }
    if (best_size > size) best = tree_smallest(larger, best, best_size);
    i++;
  }
  if (!best && (i = trees_from(heap, i)) < TREES) best = tree_smallest(heap->tree[i], NULL, SIZE_MAX);
  // Another of the ring leaves the tree as it is.
  return best ? best->ring.next : NULL;
}

static void bin_insert(struct heap *heap, struct block *b) {
  size_t size = block_size(b);
  if (size >= TREE_FROM) {
    tree_insert(heap, (struct node *)b, size);
  } else {
    free_list_insert(&heap->bin[size / ALIGNMENT], b);
    heap->bins |= 1u << (size / ALIGNMENT);
  }
}

static inline void policy_insert(struct heap *heap, struct block *b) {
  if (block_next(b) == heap->area.end)
    heap->top = b;
  else
    bin_insert(heap, b);
}

static inline void policy_insert_rest(struct heap *heap, struct block *b) {
  if (!heap->small || block_next(b) == heap->area.end) {
    policy_insert(heap, b);
    return;
  }
  if (heap->victim) bin_insert(heap, heap->victim);
  heap->victim = b;
}

static inline void policy_remove(struct heap *heap, struct block *b) {
  size_t size = block_size(b);
  if (b == heap->victim) {
    heap->victim = NULL;
  } else if (b == heap->top) {
    heap->top = NULL;
  } else if (size >= TREE_FROM) {
    tree_remove(heap, (struct node *)b, size);
  } else {
    free_list_remove(b);
    struct block *bin = &heap->bin[size / ALIGNMENT];
    if (bin->next == bin) heap->bins &= ~(1u << (size / ALIGNMENT));
  }
}

// O(bits of the size).
static struct block *policy_find(struct heap *heap, size_t size) {
  struct block *victim = heap->victim && block_size(heap->victim) >= size ? heap->victim : NULL;
  struct block *b = NULL;
  heap->small = size < TREE_FROM;
  if (heap->small) {
    uint32_t bins = heap->bins & (~0u << (size / ALIGNMENT));
    // An exact fit first, the longest unused of them; else the victim, whatever its size.
    if (bins && (!victim || (bins >> (size / ALIGNMENT)) & 1))
      b = heap->bin[__builtin_ctz(bins)].prev;
    else if (victim)
      b = victim;
    else
      b = trees_find(heap, size);
  } else {
    b = trees_find(heap, size);
    if (victim && (!b || block_size(victim) < block_size(b))) b = victim;
  }
  return b || !heap->top || block_size(heap->top) < size ? b : heap->top;
}

// One node with its ring and what is below it; `prefix` are the first `depth` bits of every path. Depth is at most 48.
static const char *check_node(const struct heap *heap, struct node *const *slot, unsigned tree, uint64_t prefix,
                              unsigned depth, size_t *left) {
  const struct node *node = *slot;
  if (!node) return NULL;
  if (!area_has(&heap->area, &node->ring) || !block_is_free(&node->ring)) return "a tree has no free block at a node";
  size_t size = block_size(&node->ring);
  if (node->slot != slot) return "a node does not know what leads to it";
  if (size < TREE_FROM || tree_of(size) != tree) return "a free block is in the wrong tree";
  if (depth && path_of(size) >> (64 - depth) != prefix) return "a node is not where its size leads";
  const struct block *b = &node->ring;
  do {
    if (!area_has(&heap->area, b) || !block_is_free(b) || block_size(b) != size)
      return "a ring has a block of another size";
    if ((*left)-- == 0) return "the lists have more blocks than are free";
    if (b->next->prev != b) return "a ring is not linked both ways";
    if (b != &node->ring && ((const struct node *)b)->slot) return "a ring has two nodes";
    b = b->next;
  } while (b != &node->ring);
  const char *wrong = check_node(heap, &node->child[0], tree, prefix << 1, depth + 1, left);
  return wrong ? wrong : check_node(heap, &node->child[1], tree, prefix << 1 | 1, depth + 1, left);
}

static const char *policy_check(const struct heap *heap, size_t free_blocks, size_t cached_blocks) {
  (void)cached_blocks;
  const char *wrong = NULL;
  for (unsigned i = 0; i < BINS; i++) {
    const struct block *bin = &heap->bin[i];
    if (((heap->bins >> i) & 1) != (bin->next != bin)) return "a bit is wrong about its bin";
    if ((wrong = free_list_check(&heap->area, bin, &free_blocks))) return wrong;
    for (const struct block *b = bin->next; b != bin; b = b->next) {
      if (block_size(b) != i * ALIGNMENT) return "a free block is in the wrong bin";
    }
  }
  for (unsigned i = 0; i < TREES; i++) {
    if ((trees_from(heap, i) == i) != (heap->tree[i] != NULL)) return "a bit is wrong about its tree";
    if ((wrong = check_node(heap, &heap->tree[i], i, 0, 0, &free_blocks))) return wrong;
  }
  if (heap->top && (!block_is_free(heap->top) || block_next(heap->top) != heap->area.end))
    return "the top is not the free block at the area's end";
  if (heap->victim && (!block_is_free(heap->victim) || heap->victim == heap->top))
    return "the victim is not free, or the top";
  return free_blocks == (size_t)(heap->top != NULL) + (heap->victim != NULL) ? NULL : "a free block is in no list";
}

#include "boundary_tag.h"

static void prepare(struct heap *heap) {
  for (unsigned i = 0; i < BINS; i++) free_list_init(&heap->bin[i]);
}
static void *heap_init(void *memory, size_t bytes) { return tag_init(memory, bytes, prepare); }
static void *heap_malloc(void *heap, size_t size) { return tag_malloc(heap, size); }
static bool heap_free(void *heap, void *block) { return tag_free(heap, block); }
static size_t heap_area_size(size_t live, size_t largest) {
  return area_size_coalescing(live, largest, sizeof(struct heap), area_size_fails_below_itself);
}

const struct algorithm algorithm_dlmalloc_283 = {
    "dlmalloc-2.8.3",
    "after DLmalloc 2.8.3: trees of large blocks, immediate coalescing (from published descriptions, not its code)",
    "malloc O(log area), free O(log area), by the depth of a tree",
    heap_init,
    heap_malloc,
    heap_free,
    heap_realloc,
    heap_aligned_alloc,
    heap_usable_size,
    heap_check,
    heap_usage,
    heap_area_size,
};
