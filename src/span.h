// The span: a run of granules, and the table that leads from any pointer to its span. Layer: above size_class.
// Used by every layer above; nothing here calls anything.
//
//   window   [base ............................................................ base + segments * 4 MiB)
//   segment   | 4 MiB | 4 MiB | ...          spans never cross a segment, except huge blocks
//   granule   4 KiB;  table[granule] = index of the span that starts, ends, or (pages) lies there; 0: none
//   span      descriptor of 128 bytes, apart from the blocks
//
// All memory that blocks live in lies in one window of addresses, of which only what is needed is mapped. Two arrays
// run beside it: the table (4 bytes a granule) and the descriptors (1024 of 128 bytes a segment). Once mapped, neither
// is ever unmapped or given another type: a thread that is late with a hint may write to it at any time (remote.h).
#ifndef RTM_SPAN_H
#define RTM_SPAN_H

#include <stdatomic.h>

#include "secure/variant.h"
#include "size_class.h"

enum {
  SEGMENT_SHIFT = 22,
  SEGMENT_GRANULES = 1 << (SEGMENT_SHIFT - GRANULE_SHIFT),  // 1024
  MEDIUM_GRANULES_MAX = SEGMENT_GRANULES / 2,               // two medium blocks fit in a segment
  HUGE_PAGE_GRANULES = SEGMENT_GRANULES / 2,                // of the system's huge pages, 2 MiB
  // Granules at the end of each segment, and behind each huge block, that are never mapped for it: a guard.
  SEGMENT_GUARD = SECURE_VARIANT,
  SEGMENT_USED = SEGMENT_GRANULES - SEGMENT_GUARD,  // the others
  SPAN_SHIFT = 7,
  SPAN_SIZE = 1 << SPAN_SHIFT,
  REMOTE_WORDS = PAGE_BLOCKS_MAX / 64,
};
#define SEGMENT_SIZE ((size_t)1 << SEGMENT_SHIFT)

enum span_flags {
  SPAN_WAITS = 1,      // page, medium: empty, in heap->waiting, and in no other list
  PAGE_COLLECTED = 2,  // `private` may have blocks (the secure variant looks there)
  PAGE_FRESH = 4,      // fresh < blocks
  MEDIUM_ZERO = 8,     // the contents were known to be zero when the block was handed out
};

// What a span is. Pages have their size class as kind.
enum span_kind {
  SPAN_NONE = 0,  // descriptor not in use
  SPAN_MEDIUM = CLASSES + 1,
  SPAN_HUGE,
  SPAN_FREE,
  SPAN_STORE,  // all blocks of one bin of a prepared heap (store.h)
};

// Values of `tag` that are no heap. A heap's address is a multiple of 64.
enum {
  TAG_NONE = 0,  // free or unused span: nothing to free here
  TAG_HUGE = 2,  // a huge block: belongs to the arena
  TAG_LAST_SPECIAL = 2,
  TAG_SLOW = 1,  // bit: this heap's, but a local free must take the slow path (full page, medium block)
};

// The equations of a page, when no other thread is inside remote_free:
//   blocks = min(256, length * 4096 / block_size)
//   blocks = held + |free list| + |private| + (blocks - fresh)
//   `held` blocks are those that the program has and those in `remote`, not yet collected; used = held, and one more in
//   the current page, so that the fast path of free sees no page become empty but one that can be released.
// A page is in one of four states:
//   current  heap->page[kind] == this    tag == heap
//   queued   in heap->queue[kind]        tag == heap, and it has a free, private or fresh block
//   full     in no list                  tag == heap | TAG_SLOW; free == NULL, private == 0, fresh == blocks
//   waiting  in heap->waiting            tag == TAG_NONE, flags == SPAN_WAITS; all its blocks are free
struct span {
  // First cache line. Written by the owner only; other threads read tag, start, reciprocal and the hint of spans in
  // which they hold a block, and these do not change as long as a block is held (of tag, only TAG_SLOW does).
  // Page: last-in first-out list through the first word of each free block; in the secure variant one block, not
  // linked (secure.h). Unused: next unused.
  void *free;
  uintptr_t tag;  // owner; accessed by span_tag and span_set_tag
  char *start;    // address of the first granule
  union {
    struct {
      struct hint_word *hint;  // page, medium: its leaf in the heap's hint tree, and its bit there (hint.h)
      uint64_t hint_bit;
    };
    struct record *record;  // huge: whose recording counts it; NULL: none
    struct {
      struct span *free_next;   // free span: next in its TLSF list
      struct span **free_link;  // what points to it there
    };
  };
  uint32_t used;        // page: see above; medium: 1; free span: granules [0, used) may hold contents; huge: guard_run
  uint32_t reciprocal;  // page: see class_shape; medium: 0; huge: granules that the caller may use
  uint32_t length;      // granules; runs of segments (huge or free in the arena): segments
  union {
    struct {
      uint32_t next, prev;  // span indices: queue of pages; next: stack of spans that wait to be released
    };
    struct {               // current page of the secure variant:
      uint32_t hand;       // the word of `private` that blocks are taken from: bytes from its start,
      uint32_t hand_size;  // and their size, bytes
    };
  };
  union {
    uint16_t fresh;  // page: blocks [fresh, blocks) have never been handed out or linked
    uint16_t list;   // free span: its TLSF list
  };
  uint8_t kind;   // enum span_kind, or the size class of a page
  uint8_t flags;  // enum span_flags
  // Second cache line. `remote` is written by any thread, the rest by the owner.
  union {
    struct {
      _Atomic uint64_t remote[REMOTE_WORDS];  // bit i of word w: block 64 * w + i was freed by another thread
      uint64_t private[REMOTE_WORDS];         // the same, collected by the owner; stale while the page waits
    };
    struct {                                 // free span of an extent (extent.h)
      uint64_t extent_remote[REMOTE_WORDS];  // 0
      struct span *extent_next;              // next in its list
      struct span **extent_link;             // what points to it there
    };
    struct {                             // a store
      _Atomic uint64_t *store_level[4];  // the tree of what other threads have freed
      uint64_t store_reciprocal;         // floor(2^64 / block size), or one more
      uint64_t store_size;               // of a block, bytes
      uint64_t store_found;              // bits of a word that the owner took, and has not handed out yet,
      uint32_t store_at;                 // and which word that was
      uint32_t store_blocks;
    };
    struct heap *owner;  // huge, and in the first descriptor of other segments NULL: what it was allocated from
  };
};
_Static_assert(sizeof(struct span) == SPAN_SIZE, "a span is two cache lines");
_Static_assert(offsetof(struct span, remote) == 64, "remote frees have a line of their own");
_Static_assert(PAGE_BLOCKS_MAX == 64 * REMOTE_WORDS, "a bit for each block");
_Static_assert(SPAN_STORE < 256, "kind is a byte");

// A segment's own record; it takes the place of the second span descriptor of each segment.
struct segment {
  struct heap *heap;              // owner; NULL: the arena
  struct span *unused;            // stack of released descriptors, linked by free
  uint16_t first_unused;          // descriptors [first_unused, 1024) have never been used
  uint16_t mapped;                // granules [0, mapped) of the segment are mapped
  uint16_t retained;              // and so many were when its heap got it
  uint32_t state;                 // enum segment_state (arena.c)
  uint32_t next;                  // segment index: stack of single free segments
  uint32_t run;                   // last segment of a free run: its first segment
  struct segment *older, *newer;  // list of free segments that are mapped
};
_Static_assert(sizeof(struct segment) <= SPAN_SIZE, "a segment's record takes a descriptor's place");

enum {
  RUN_SLOT = 0,      // descriptor of the run of segments that starts here; segment 0's is the null span
  SEGMENT_SLOT = 1,  // struct segment
  FIRST_SPAN_SLOT = 2,
};

// The window. Four words rather than a structure: free reads each of them straight from its address. All but
// window_granules are set before the first heap exists and never change after that.
RTM_HIDDEN extern uintptr_t rtm_window_base;
RTM_HIDDEN extern size_t
    rtm_window_granules;  // of all segments known so far, whether mapped or not; grows, never shrinks
RTM_HIDDEN extern uint32_t *rtm_window_table;
RTM_HIDDEN extern char *rtm_window_spans;

RTM_INLINE size_t window_granule(const void *address) {
  return ((uintptr_t)address - RTM_READ_RELAXED(rtm_window_base)) >> GRANULE_SHIFT;
}
RTM_INLINE struct span *span_at(uint32_t index) {
  return (struct span *)(rtm_window_spans + ((size_t)index << SPAN_SHIFT));
}
RTM_INLINE uint32_t span_index(const struct span *span) {
  return (uint32_t)((size_t)((const char *)span - rtm_window_spans) >> SPAN_SHIFT);
}
RTM_INLINE char *granule_address(uint32_t granule) {
  return (char *)(rtm_window_base + ((uintptr_t)granule << GRANULE_SHIFT));
}
RTM_INLINE uint32_t span_granule(const struct span *span) { return (uint32_t)window_granule(span->start); }

RTM_INLINE uint32_t segment_of_granule(uint32_t granule) { return granule >> (SEGMENT_SHIFT - GRANULE_SHIFT); }
RTM_INLINE struct span *segment_slot(uint32_t segment, uint32_t slot) {
  return span_at(segment * SEGMENT_GRANULES + slot);
}
RTM_INLINE struct segment *segment_at(uint32_t segment) {
  return (struct segment *)segment_slot(segment, SEGMENT_SLOT);
}
RTM_INLINE uint32_t segment_number(const struct segment *segment) {
  return (uint32_t)((size_t)((const char *)segment - rtm_window_spans) >> SPAN_SHIFT) / SEGMENT_GRANULES;
}
// The segment that the span lies in: its descriptors are aligned to their whole size. 2 instructions.
RTM_INLINE struct segment *segment_of(const struct span *span) {
  enum { MASK = (SEGMENT_GRANULES << SPAN_SHIFT) - 1 };
  return (struct segment *)(((uintptr_t)span & ~(uintptr_t)MASK) + ((uintptr_t)SEGMENT_SLOT << SPAN_SHIFT));
}

// The span that `address` lies in (pages) or starts or ends; the null span (kind SPAN_NONE, tag TAG_NONE) if there is
// none. The address is in the window: window_granule(address) < rtm_window_granules. 6 instructions.
RTM_INLINE struct span *span_of(size_t granule) { return span_at(rtm_window_table[granule]); }

RTM_INLINE uintptr_t span_tag(const struct span *span) {
  // Relaxed: whoever frees a block has got it from its owner, and only the TAG_SLOW bit may change meanwhile.
  return RTM_READ_RELAXED(span->tag);
}
RTM_INLINE void span_set_tag(struct span *span, uintptr_t tag) { __atomic_store_n(&span->tag, tag, __ATOMIC_RELAXED); }
RTM_INLINE bool span_is_page(const struct span *span) { return span->kind - 1u < CLASSES; }

// Granules at the end of each page and medium block that are a guard: 0, but in the secure variant.
RTM_HIDDEN extern uint32_t rtm_span_guard;
RTM_INLINE uint32_t span_guard(void) { return SECURE_VARIANT ? rtm_span_guard : 0; }

// What follows a block in its page's list of free ones, which begins with page->free.
RTM_INLINE void *page_linked_after(void *block) { return SECURE_VARIANT ? NULL : *(void **)block; }

RTM_INLINE uint32_t page_blocks(const struct span *page) {
  uint32_t fit = (uint32_t)((((uint64_t)(page->length - span_guard()) << GRANULE_SHIFT) * page->reciprocal) >> 32);
  return fit < PAGE_BLOCKS_MAX ? fit : PAGE_BLOCKS_MAX;
}

#endif
