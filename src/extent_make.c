// Making an extent, and the chunks that heaps share: at load. See extent.h. Layer: with extent.c; called by mode.
#include "extent.h"

#include "os/os.h"
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
  extent->enough = extent->list[extent->list_for[EXTENT_ENOUGH]].bit;
}

// In use, by nobody.
static void set_apart(uint32_t segment, uint32_t slot, uint32_t granule, uint32_t length) {
  struct span *span = segment_slot(segment, slot);
  span->start = granule_address(segment * SEGMENT_GRANULES + granule);
  span->length = length;
  span->kind = SPAN_MEDIUM;
  segment_set_ends(span);
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

bool extent_start(struct heap *heap, uint64_t granules, bool shares, size_t *bytes) {
  struct extent *extent = &heap->extent;
  extent->reserve = shares ? &shared : &rtm_no_reserve;
  size_t leaves = divided_up(granules ? granules : 1, HINT_FANOUT), leaf_bytes = leaves * 2 * EXTENT_LEAF;
  extent->chunk_group = divided_up(leaves, HINT_FANOUT);
  size_t groups = extent->chunk_group + divided_up(extent->reserve->chunks, HINT_FANOUT);
  *bytes = bits_round_up(leaf_bytes + 2 * groups * sizeof(struct hint_group), GRANULE_SIZE);
  char *memory = os_map(*bytes);
  if (!memory) return false;
  extent->leaves = memory;
  struct hint_group *group = (struct hint_group *)(memory + leaf_bytes);
  make_tree(heap, EXTENT_PAGES, group, groups, leaves);
  make_tree(heap, EXTENT_MEDIUMS, group + groups, groups, leaves);
  make_lists(extent);
  return true;
}

// A segment of the heap's, of which the granules from EXTENT_FIRST to `end` are mapped. 0: out of memory.
static uint32_t add_segment(struct heap *heap, uint32_t end) {
  struct span *whole = segment_more(heap);
  if (!whole) return 0;
  uint32_t segment = segment_of_granule(span_granule(whole));
  bool taken;  // what the system refused is not there yet
  if (segment_at(segment)->mapped < end && !arena_map(segment, end, &taken)) return 0;
  set_apart(segment, end + 1, 0, EXTENT_FIRST);
  set_apart(segment, end, end, SEGMENT_USED - end);
  segment_at(segment)->first_unused = SEGMENT_GRANULES;
  heap->dirty = 0;
  return segment;
}

// So many granules from `slot` on are one span, in use; the first is number `number`.
static struct span *make_span(uint32_t segment, uint32_t slot, uint32_t granules, char *leaves, uint64_t number) {
  struct span *first = segment_slot(segment, slot);
  for (uint32_t i = 0; i < granules; i++) {
    struct span *span = first + i;
    span->start = granule_address(segment * SEGMENT_GRANULES + slot + i);
    make_place(leaves, span, number + i);
  }
  first->length = granules;
  first->used = 0;
  first->kind = SPAN_MEDIUM;
  segment_set_ends(first);
  return first;
}

uint32_t extent_add(struct heap *heap, uint32_t first, uint32_t granules) {
  uint32_t segment = add_segment(heap, EXTENT_FIRST + granules);
  if (!segment) return 0;
  heap->live += granules;  // whatever of it is in use
  extent_give_medium(heap, make_span(segment, EXTENT_FIRST, granules, heap->extent.leaves, first));
  return segment;
}

// ---- chunks ----

void *extent_share(uint64_t chunks, size_t *bytes) {
  size_t list_bytes = bits_round_up(chunks * sizeof *shared.chunk, GRANULE_SIZE);
  *bytes = list_bytes + chunks * 2 * EXTENT_LEAF;
  char *memory = os_map(bits_round_up(*bytes, GRANULE_SIZE));
  if (!memory) return NULL;
  shared.chunk = (struct span **)memory;
  shared.leaves = memory + list_bytes;
  shared.chunks = 0;
  atomic_store_explicit(&shared.next, 0, memory_order_relaxed);
  return memory;
}

uint32_t extent_add_chunks(struct heap *heap, uint32_t chunks) {
  uint32_t segment = add_segment(heap, EXTENT_FIRST + chunks * EXTENT_STRIDE);
  if (!segment) return 0;
  heap->live += chunks * EXTENT_CHUNK;
  for (uint32_t i = 0; i < chunks; i++) {
    uint32_t slot = EXTENT_FIRST + i * EXTENT_STRIDE;
    uint64_t number = shared.chunks++;
    shared.chunk[number] = make_span(segment, slot, EXTENT_CHUNK, shared.leaves, number * EXTENT_CHUNK);
    for (unsigned kind = EXTENT_PAGES; kind <= EXTENT_MEDIUMS; kind++)
      put_below(&leaf_of(shared.leaves, kind, number)->word, NULL, number % HINT_FANOUT);
    set_apart(segment, slot + EXTENT_CHUNK, slot + EXTENT_CHUNK, 1);
  }
  return segment;
}

// Whether the heap has taken the chunk.
static bool is_of(const struct heap *heap, size_t chunk) {
  const struct hint_word *group = RTM_READ_RELAXED(leaf_of(shared.leaves, EXTENT_PAGES, chunk)->word.parent);
  return group && group->parent >= heap->hints.top && group->parent < heap->hints.top + HINT_TOPS;
}

const struct span *extent_chunk_of(const struct heap *heap, uint64_t *at) {
  while (heap->extent.reserve == &shared && *at < shared.chunks) {
    uint64_t chunk = (*at)++;
    if (is_of(heap, chunk)) return shared.chunk[chunk];
  }
  return NULL;
}
