// Making an extent, and the chunks that heaps share: at load. See extent.h. Layer: with extent.c; called by prepare.
#include "extent.h"

#include "page_parts.h"
#include "segment.h"

struct extent_reserve rtm_no_reserve;
static struct extent_reserve shared;

static bool begins_list(uint32_t length, uint32_t first) {
  enum { STEP = 14 };
  if (length <= PAGE_GRANULES_MAX + 1 || length >= EXTENT_SPAN_MAX) return length <= EXTENT_SPAN_MAX;
  return length >= first + (first + STEP - 1) / STEP;
}

static void make_lists(struct extent *extent) {
  for (uint32_t length = 1, first = 0, list = UINT32_MAX; length <= EXTENT_GRANULES; length++) {
    if (begins_list(length, first)) list++, first = length;
    extent->list[list].bit = UINT64_C(1) << list;
    extent->list_of[length] = (uint16_t)(list * sizeof *extent->list);
    extent->list_for[length] = (uint8_t)(length == first ? list : list + 1);
  }
}

static void put_below(struct hint_word *word, struct hint_word *parent, size_t place) {
  word->parent = parent;
  word->parent_bit = UINT64_C(1) << place;
}

// The place of a granule in both trees, by its number in the extent, or among the chunks.
static void make_place(char *leaves, struct span *span, uint64_t number) {
  char *pair = leaves + number / HINT_FANOUT * 2 * EXTENT_LEAF;
  for (unsigned kind = EXTENT_PAGES; kind <= EXTENT_MEDIUMS; kind++)
    ((struct hint_leaf *)(pair + kind * EXTENT_LEAF))->span[number % HINT_FANOUT] = span;
  span->hint = (struct hint_word *)pair;
  span->hint_bit = UINT64_C(1) << number % HINT_FANOUT;
}

static size_t divided_up(uint64_t value, uint32_t by) { return (size_t)((value + by - 1) / by); }

static struct hint_leaf *leaf_of(char *leaves, unsigned kind, size_t number) {
  return (struct hint_leaf *)(leaves + (2 * number + kind) * EXTENT_LEAF);
}

// One tree: its groups are there, and leaves, the first ones the heap's own, then those of chunks.
static void make_tree(struct heap *heap, unsigned kind, struct hint_group *groups, size_t count, size_t own) {
  struct extent *extent = &heap->extent;
  struct extent_tree *tree = &extent->tree[kind];
  size_t first = (size_t)kind * EXTENT_GROUPS;
  for (size_t i = 0; i < count; i++) {
    size_t at = first + i;
    put_below(&groups[i].word, &heap->hints.top[at / HINT_FANOUT], at % HINT_FANOUT);
    heap->hints.group[at] = &groups[i];
    tree->top_last = &heap->hints.top[at / HINT_FANOUT];
  }
  tree->top = tree->top_first = &heap->hints.top[first / HINT_FANOUT];
  for (size_t i = 0; i < own; i++) {
    struct hint_leaf *leaf = leaf_of(extent->leaves, kind, i);
    struct hint_group *group = &groups[i / HINT_FANOUT];
    put_below(&leaf->word, &group->word, i % HINT_FANOUT);
    group->leaf[i % HINT_FANOUT] = leaf;
  }
  for (size_t i = 0; i < extent->reserve->chunks; i++)
    groups[extent->chunk_group + i / HINT_FANOUT].leaf[i % HINT_FANOUT] = leaf_of(extent->reserve->leaves, kind, i);
}

static size_t own_leaves(uint64_t granules) { return divided_up(granules ? granules : 1, HINT_FANOUT); }

static size_t groups_of(size_t leaves, const struct extent_reserve *reserve) {
  return divided_up(leaves, HINT_FANOUT) + divided_up(reserve->chunks, HINT_FANOUT);
}

static const struct extent_reserve *reserve_of(bool shares) { return shares ? &shared : &rtm_no_reserve; }

size_t extent_bytes(uint64_t granules, bool shares) {
  size_t leaves = own_leaves(granules);
  return leaves * 2 * EXTENT_LEAF + 2 * groups_of(leaves, reserve_of(shares)) * sizeof(struct hint_group);
}

// (Of who shares most free spans are in chunks.)
static uint64_t enough_for(const struct extent *extent, uint32_t longest) {
  uint32_t enough = longest + PAGE_GRANULES_MAX;
  if (enough < EXTENT_ENOUGH || extent->reserve->chunks) enough = EXTENT_ENOUGH;
  return extent->list[extent->list_for[enough < EXTENT_SPAN_MAX ? enough : EXTENT_SPAN_MAX]].bit;
}

void extent_start(struct heap *heap, uint64_t granules, uint32_t longest, bool shares, char *memory) {
  struct extent *extent = &heap->extent;
  extent->reserve = shares ? &shared : &rtm_no_reserve;
  size_t leaves = own_leaves(granules), groups = groups_of(leaves, extent->reserve);
  extent->chunk_group = divided_up(leaves, HINT_FANOUT);
  extent->leaves = memory;
  struct hint_group *group = (struct hint_group *)(memory + leaves * 2 * EXTENT_LEAF);
  make_tree(heap, EXTENT_PAGES, group, groups, leaves);
  make_tree(heap, EXTENT_MEDIUMS, group + groups, groups, leaves);
  make_lists(extent);
  extent->enough = enough_for(extent, longest);
}

// So many granules from `at` on are one span, in use; the first is number `number`. What is before them is nobody's.
static struct span *make_span(uint32_t at, uint32_t granules, char *leaves, uint64_t number) {
  struct span *first = span_at(at);
  for (uint32_t i = 0; i < granules; i++) {
    struct span *span = first + i;
    span->start = granule_address(at + i);
    make_place(leaves, span, number + i);
  }
  rtm_window_table[at - 1] = 0;
  first->length = granules;
  first->used = 0;
  first->kind = SPAN_MEDIUM;
  segment_set_ends(first);
  return first;
}

void extent_add(struct heap *heap, uint32_t at, uint64_t number, uint32_t granules) {
  struct extent *extent = &heap->extent;
  if (granules < EXTENT_GRANULES) {
    extent->part = at;
    extent->part_length = granules;
  } else if (!extent->wholes++) {
    extent->whole = at;
  }
  extent_give_medium(heap, make_span(at, granules, extent->leaves, number));
}

// ---- chunks ----

static size_t list_bytes(uint64_t chunks) { return bits_round_up(chunks * sizeof *shared.chunk, EXTENT_ALIGNMENT); }

size_t extent_share_bytes(uint64_t chunks) { return chunks ? list_bytes(chunks) + chunks * 2 * EXTENT_LEAF : 0; }

void extent_share(uint64_t chunks) {
  shared.chunks = chunks;
  atomic_store_explicit(&shared.next, 0, memory_order_relaxed);
}

void extent_share_at(char *memory) {
  shared.chunk = (struct span **)memory;
  shared.leaves = memory + list_bytes(shared.chunks);
}

void extent_add_chunk(uint32_t at, uint64_t number) {
  shared.chunk[number] = make_span(at, EXTENT_CHUNK, shared.leaves, number * EXTENT_CHUNK);
  for (unsigned kind = EXTENT_PAGES; kind <= EXTENT_MEDIUMS; kind++)
    put_below(&leaf_of(shared.leaves, kind, number)->word, NULL, number % HINT_FANOUT);
}

// Whether the heap has taken the chunk.
static bool is_of(const struct heap *heap, size_t chunk) {
  const struct hint_word *group = RTM_READ_RELAXED(leaf_of(shared.leaves, EXTENT_PAGES, chunk)->word.parent);
  return group && group->parent >= heap->hints.top && group->parent < heap->hints.top + HINT_TOPS;
}

uint32_t extent_piece(const struct heap *heap, uint64_t *turn, uint32_t *length) {
  const struct extent *extent = &heap->extent;
  uint64_t number = (*turn)++;
  *length = EXTENT_GRANULES;
  if (number < extent->wholes) return extent->whole + (uint32_t)number * SEGMENT_GRANULES;
  number -= extent->wholes;
  *length = extent->part_length;
  if (extent->part && number-- == 0) return extent->part;
  *length = EXTENT_CHUNK;
  for (; extent->reserve == &shared && number < shared.chunks; number++, (*turn)++)
    if (is_of(heap, number)) return span_granule(shared.chunk[number]);
  return 0;
}
