// The extent of a heap that was prepared in mode `seg`: granules of its own from which all its pages and medium blocks
// come, in place of general mode's (segment.h). Layer: above page_parts.h and hint. Called by alloc, page, medium,
// prepare. docs/bounded-work.md has the argument.
//
// All is there when the heap is made, mapped, touched and for good, so that nothing is counted, mapped or given back,
// and no path has a loop. A span's descriptor is the one with the number of its first granule; a granule's address and
// its place in the hint tree are written into it once.
//
//     segment     0, 1  | 2 ....................... 1021 | 1022, 1023     one whole piece,
//     or          ... part of A's | nobody's | part of B's | nobody's | chunk ...
//
// An extent is whole pieces and one part of one, where other heaps' may lie beside it (prepare.c). The granules before
// and behind a piece are in use or nobody's, so that no span has to ask whether it is the first or the last.
//
// Free spans are in a segregated fit of at most 64 lists, so that one word says which have any:
//     1 to 17 granules     a list for each length: what pages have
//     up to 479            each list begins 1 part in 14 above the last
//     480 and more         one list: any of them is long enough for any request
//
// Chunks: threads that race need more in one run and less in another, and which of them is chance. What they need
// beyond the least of each lies in a reserve that they share, in chunks of 64 granules, which is one leaf of each tree.
// A heap whose own extent has no span takes the next chunk, by one addition, and keeps it for good: it becomes a part
// of the extent, of which nobody has to ask where it came from.
#ifndef RTM_EXTENT_H
#define RTM_EXTENT_H

#include "span.h"

struct heap;

enum {
  EXTENT_LISTS = 64,
  EXTENT_FIRST = 2,                   // granules of a segment before it have no descriptor: arena.c uses theirs
  EXTENT_END = SEGMENT_GRANULES - 2,  // and those from here on are the end
  EXTENT_GRANULES = EXTENT_END - EXTENT_FIRST,
  EXTENT_WAITING = 2,
  EXTENT_ENOUGH = 3 * PAGE_GRANULES_MAX,
  EXTENT_LEAF = 1024,
  EXTENT_GROUPS = 1024,   // of each tree; half of hint.h's HINT_GROUPS_MOST
  EXTENT_SPAN_MAX = 480,  // granules: two of the largest blocks fit in a segment; larger ones have stores
  EXTENT_CHUNK = 64,      // granules
  EXTENT_ALIGNMENT = 2 * EXTENT_LEAF,  // of the trees
  EXTENT_PAGES = 0,  // the two trees
  EXTENT_MEDIUMS = 1,
};
#define EXTENT_MOST ((uint64_t)EXTENT_GROUPS << 12)  // granules: 16 GiB
#define EXTENT_MAX ((size_t)EXTENT_SPAN_MAX << GRANULE_SHIFT)

struct extent_list {
  struct span *first;
  uint64_t bit;
};
struct hint_word;
struct hint_group;
struct hint_leaf;

// What was taken of a tree of hints, and is still to be looked at: a group's word, then a leaf's; and where the next
// is.
struct extent_tree {
  uint64_t bits, leaves;
  struct hint_leaf *leaf;
  struct hint_group *group;
  uint64_t later;  // groups of the word at the top that have not had their turn
  struct hint_word *top, *top_first, *top_last;
  uint32_t word;  // of a page's remote words
};

// Chunks by number, each one span. Who shares them has a place for each in its trees from the start, 64 to a group; who
// takes one only writes which groups its two leaves are below. Written at load, but for `next`.
struct extent_reserve {
  _Alignas(64) _Atomic uint64_t next;  // the chunk that is taken next; beyond `chunks`: asked for in vain
  _Alignas(64) uint64_t chunks;
  struct span **chunk;
  char *leaves;  // two for each, as in struct extent
};
RTM_HIDDEN extern struct extent_reserve rtm_no_reserve;  // has none

struct extent {
  struct extent_tree tree[2];  // of pages, of medium blocks
  char *leaves;                // of both trees: a granule's is in pairs, EXTENT_LEAF apart, by which one bit tells them
  size_t chunk_group;          // of each tree, the first one for chunks
  struct extent_reserve *reserve;
  uint32_t waiting;            // empty pages in heap->waiting: EXTENT_WAITING at most
  uint32_t waiting_length;     // of the first of them; 0: none
  uint64_t lists;              // the bits of those that are not empty
  uint64_t enough;             // the bit of the first list of which every span is enough (extent_start)
  struct extent_list list[EXTENT_LISTS];
  // By length: where its list is, in bytes from list[0]; and the first list of which every span is at least as long.
  uint16_t list_of[EXTENT_GRANULES + 1];
  uint8_t list_for[EXTENT_GRANULES + 1];
  uint8_t wanting;  // a class that wants one page more, as its queued ones have few blocks free; 0: none
  uint32_t part, part_length;  // granules; 0: it has no part of a piece
  uint32_t whole, wholes;      // the first granule of the first whole piece; the others follow, one in each segment
};

// ---- at load, in this order ----

// There will be so many chunks.
void extent_share(uint64_t chunks);
// Bytes for the list of the chunks and their leaves; and for an extent's trees of so many granules, at most
// EXTENT_MOST. `shares`: it may take chunks (with one leaf each, beside its own, at most what EXTENT_MOST is).
size_t extent_share_bytes(uint64_t chunks);
size_t extent_bytes(uint64_t granules, bool shares);
// These in so many bytes of memory, at a multiple of EXTENT_ALIGNMENT, that are zero. O(granules). `longest`: granules
// of the heap's longest span. Where no free span has these and a page's (EXTENT_ENOUGH at least, and where it shares;
// EXTENT_SPAN_MAX at most), memory is scarce: as much as can comes back, while there is still one for it.
void extent_share_at(char *memory);
void extent_start(struct heap *heap, uint64_t granules, uint32_t longest, bool shares, char *memory);
// A further piece: `granules` free ones from granule `at` of the window on, which is number `number` of the extent.
// They are EXTENT_GRANULES from EXTENT_FIRST of a segment on, which follows that of the last such piece; or, once,
// fewer and anywhere in [EXTENT_FIRST, EXTENT_END). The granule in front is nobody's from now on, and that behind is no
// free span's. O(granules).
void extent_add(struct heap *heap, uint32_t at, uint64_t number, uint32_t granules);
// Chunk number `number`, in the same way.
void extent_add_chunk(uint32_t at, uint64_t number);
// The first granule and the length of the heap's next piece or chunk, from `*turn`, at first 0, on; 0: no more. For
// walk.c and check.c. O(chunks).
uint32_t extent_piece(const struct heap *heap, uint64_t *turn, uint32_t *length);

// A block of at most BLOCK_MAX; `page` is the current one of its class and has none linked. If the extent has none:
// what alloc_miss returns. O(1), as all that follows; only the heap's thread.
void *extent_malloc(struct heap *heap, struct span *page, size_t size);
// The same, whatever that page has.
void *extent_malloc_any(struct heap *heap, size_t size);
// A block that another thread has freed serves a request of `length` granules as it is: it may be longer by an eighth.
RTM_INLINE bool extent_fits(uint32_t freed, uint32_t length) { return freed - length <= freed / 8; }
// A block of `size` bytes, BLOCK_MAX < size <= EXTENT_MAX; and at a multiple of `alignment`, a power of two above a
// granule, for any size: NULL if the extent has none.
void *extent_large(struct heap *heap, size_t size);
void *extent_aligned(struct heap *heap, size_t size, size_t alignment);
// In alloc.c: the heap has no such block. A call at the end, as every path would pay for a result to look at.
void *alloc_miss(size_t size);

// The last block in use of a page was freed, which is queued; and a medium block.
void extent_page_emptied(struct heap *heap, struct span *page);
void extent_give_medium(struct heap *heap, struct span *span);
// Collects all that other threads have freed. O(spans with remote frees). And then a block of at most EXTENT_MAX, or
// NULL, for alloc_miss.
void extent_collect(struct heap *heap);
void *extent_late(struct heap *heap, size_t size);
// For rehearse.c: whether it has a span for `size` bytes; whether the class has no page (what is collected meanwhile
// might bring a full one of the program's back, with blocks in use), and there is a span for one; and back with that
// page, of which no block is in use.
bool extent_has_span(const struct heap *heap, size_t size);
bool extent_may_open(const struct heap *heap, unsigned class);
void extent_close(struct heap *heap, unsigned class);
// As medium_resize (medium.h): `size` is one that an extent serves.
void *extent_resize(struct heap *heap, struct span *span, size_t size, size_t had);

// For the checker: what does not hold, or NULL. `free_spans`: how many its segments have.
const char *extent_check(const struct extent *extent, uint32_t free_spans);

#endif
