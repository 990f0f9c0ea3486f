// The structures of section V, and the arithmetic on them. Everything in this folder is above it.
//
//   heap (one a thread) -- queue of pages for each block size, pages_direct for up to 1024 bytes
//   segment, 4 MiB at a multiple of 4 MiB: this header with its pages' data, then the pages
//     small:  64 pages of 64 KiB (the first is shorter by the header), blocks of up to 8 KiB
//     medium: one page, blocks of up to 512 KiB
//     huge:   one page of one block, as long as it must be
//
// A page's blocks are: used (held by the program, or freed by another thread and not collected yet), in `free`, in
// `local_free`, or not linked yet: used + |free| + |local_free| = capacity <= reserved.
#ifndef RT_MIMALLOC_STRUCTURE_H
#define RT_MIMALLOC_STRUCTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "switches.h"

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
// Functions of the paper's Tables IV and VI keep their bodies, so that calls of each can be counted.
#define COUNTED __attribute__((noinline))

enum {
  SEGMENT_SHIFT = 22,
  SMALL_PAGE_SHIFT = 16,
  PAGES_MOST = 1 << (SEGMENT_SHIFT - SMALL_PAGE_SHIFT),
  SMALL_MOST = 8 << 10,  // bytes of a block in a small page
  MEDIUM_MOST = 512 << 10,
  DIRECT_MOST = 1024,  // bytes of a request that pages_direct serves
  DIRECT_ENTRIES_COUNT = DIRECT_MOST / 8 + 1,
  CLASSES = 128,        // up to 64 GiB; what is larger has no class
  MEDIUM_CLASSES = 60,  // of them up to MEDIUM_MOST
  RETIRE_ROUNDS = 16,   // collections of retired pages that an empty page lives through
};
#define SEGMENT_BYTES ((size_t)1 << SEGMENT_SHIFT)
_Static_assert(PAGES_MOST == 64, "unused is one word");

enum kind { SMALL, MEDIUM, HUGE };

struct block {
  struct block *next;
};

// What others' frees of a page do; the lowest two bits of thread_free. Only full pages are looked at by nobody, so that
// their owner must be told: by one block a page, put on its heap's delayed list.
enum thread_state {
  JOIN_LIST,  // put the block on the page's list
  TELL_HEAP,  // the page is full: put this one on the heap's list, then JOIN_LIST
  TELLING,    // one is doing so: the heap must stay, others join the list
  NO_HEAP,    // abandoned: join the list, there is nobody to tell
  STATE_BITS = 3,
};

struct page {
  struct block *free;                 // malloc takes from here
  struct block *local_free;           // the owner's frees go here
  _Atomic uintptr_t thread_free;      // other threads' frees, and enum thread_state
  uint32_t used, capacity, reserved;  // blocks
  uint8_t kind;                       // enum kind
  bool in_use;                        // of its segment
  _Atomic uint8_t flags;              // IN_FULL, HAS_ALIGNED; other threads read HAS_ALIGNED
  uint8_t retired;                    // rounds left, 0 if not retired
  bool zero;                          // huge: never used since mmap
  uint8_t class;                      // its queue; CLASSES if it has no class
  size_t block_bytes;
  char *start;  // of the first block
  struct page *next, *previous;
};
enum { IN_FULL = 1, HAS_ALIGNED = 2 };
_Static_assert(CLASSES < 256, "page.class");

struct segment {
  _Atomic(struct heap *) heap;  // NULL: abandoned
  unsigned shift;               // offset to page: 16, else at least SEGMENT_SHIFT
  enum kind kind;
  uint64_t unused;                            // bit i: page i is not in use; the bitmap of section VI.B
  unsigned count, used;                       // pages
  size_t bytes;                               // mapped
  struct segment *next, *previous;            // all of the heap; in the cache and the abandoned list, next only
  struct segment *next_free, *previous_free;  // those of the kind with an unused page
  bool in_free_list;
  struct page pages[PAGES_MOST];
};
enum { HEADER_BYTES = (sizeof(struct segment) + 63) & ~63 };

struct queue {
  struct page *first, *last;
};

struct peak {
  uint32_t now, most;
};

struct heap {
  // By words of 8 bytes. DIRECT_ENTRIES: the page itself, so many entries for one page. DIRECT_POINTER: the place of
  // the pointer to it in `available`, which is all that changes (section VI.D, Figure 8).
  void *direct[DIRECT_ENTRIES_COUNT];
  struct page *available[CLASSES];              // the first page of the queue; rtmi_empty_page if there is none
  struct queue queues[CLASSES];                 // pages that may have free blocks
  struct queue full;                            // pages that have none, huge ones included
  _Atomic(struct block *) delayed;              // blocks of full pages, freed by other threads
  int retired_low, retired_high;                // classes with retired pages lie between; low > high: none
  struct segment *segments, *free_segments[2];  // all; by kind, those with an unused page
  struct segment *cache;                        // empty and unused, at most CACHE_MOST
  unsigned cached;
  // What a profile holds.
  struct peak segment_peak[2], page_peak[CLASSES];
  struct heap *next;  // all heaps ever made
  atomic_bool taken;
};
enum { CACHE_MOST = 4 };

extern struct heap rtmi_empty_heap;      // of a thread that has none yet: it has no block to give
extern struct page rtmi_empty_page;      // has no free block
extern struct page *rtmi_empty_pointer;  // to rtmi_empty_page
extern __thread struct heap *rtmi_heap __attribute__((tls_model("initial-exec")));

// The paper's set B by index: 8, 16, 24 .. 64 bytes, then four to a doubling. Blocks of more than 8 bytes are at
// multiples of 16, as C wants it, so that 24, 40 and 56 are not used.
static inline unsigned class_of(size_t bytes) {
  size_t words = (bytes + 7) / 8;
  if (words <= 8) return words <= 1 ? 0 : (unsigned)((words + 1) & ~1UL) - 1;
  unsigned top = 63 - (unsigned)__builtin_clzl(--words);
  return (top << 2) + ((words >> (top - 2)) & 3) - 4;
}

static inline size_t class_bytes(unsigned class) {
  if (class < 8) return 8 * (class + 1);
  return (size_t)(5 + (class & 3)) << (class / 4 + 2);
}
#define CLASS_BYTES_MOST ((size_t)64 << 30)

static inline enum kind kind_of(size_t bytes) {
  return bytes <= SMALL_MOST ? SMALL : bytes <= MEDIUM_MOST ? MEDIUM : HUGE;
}

static inline struct segment *segment_of(const void *block) {
  return (struct segment *)((uintptr_t)block & ~(SEGMENT_BYTES - 1));
}

static inline struct page *page_of(struct segment *segment, const void *block) {
  return &segment->pages[((uintptr_t)block - (uintptr_t)segment) >> segment->shift];
}

static inline struct segment *segment_of_page(const struct page *page) { return segment_of(page); }

static inline void peak_add(struct peak *peak) {
  if (++peak->now > peak->most) peak->most = peak->now;
}

#endif
