// TLSF, two-level segregated fit: malloc and free in constant time over memory that the caller gives. Source: Masmano,
// Ripoll, Real, Crespo, Wellings, 'Implementation of a constant-time dynamic storage allocator', Softw. Pract. Exper.
// 38 (2008), called 'the paper' here. This file and tlsf.c need nothing else but a C11 compiler and memcpy. Not
// thread-safe: one heap, one thread at a time; different heaps are independent.
//
// Choices of a heap, at tlsf_init: bits of the second level, split policy, largest area. Choices of a build, by
// macros:
//   TLSF_HEADER        bytes of a block's header, 4 (as in the paper; blocks below 4 GiB) or 8. Default: a pointer's.
//   TLSF_ALIGNMENT     bytes, 8 or 16: every block starts at a multiple. Default: twice a pointer's.
//   TLSF_GENERIC_BITS  1: the loop-free bit functions of Appendix A in place of the processor's. Default 0.
//   TLSF_SECOND_LEVEL  fixes the bits of the second level for all heaps: some instructions less, and below 5 a smaller
//                      heap structure (8 bytes a list). Default: not fixed.
#ifndef ALGORITHMS_TLSF_H
#define ALGORITHMS_TLSF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TLSF_HEADER
#define TLSF_HEADER (UINTPTR_MAX > UINT32_MAX ? 8 : 4)
#endif
#ifndef TLSF_ALIGNMENT
#define TLSF_ALIGNMENT (UINTPTR_MAX > UINT32_MAX ? 16 : 8)
#endif

struct tlsf;  // a heap; lies at the start of its first area

enum tlsf_split {
  TLSF_ROUND_UP,  // a block is as long as its list's shortest, so that its list serves the request again (section 4.3)
  TLSF_EXACT,     // a block is as long as the request: for comparison, it leaves free blocks that cannot be reused
};

struct tlsf_config {
  unsigned second_level_bits;  // the paper's J: 2^J lists for each power of two; 1 to 5
  enum tlsf_split split;
  size_t largest_area;  // bytes of the largest area that will ever be added; 0: the first one is
};
// J = 5, round-up split, no larger area.
struct tlsf_config tlsf_config_default(void);

// Makes a heap in `memory`, which need not be aligned and is the heap's until the end. `config` may be NULL: the
// default. NULL if `bytes` do not hold the heap and one block, or if the configuration is impossible. O(lists).
struct tlsf *tlsf_init(void *memory, size_t bytes, const struct tlsf_config *config);

// Of an area of `bytes` at a multiple of TLSF_ALIGNMENT, given to tlsf_init with the default configuration: how many
// are not for blocks; SIZE_MAX if it is too small. O(1).
size_t tlsf_overhead(size_t bytes);

// Adds memory that does not overlap what the heap has. Areas never coalesce with each other. False, and nothing
// changed, if it is too small for one block or larger than `largest_area`. O(1).
bool tlsf_add_area(struct tlsf *heap, void *memory, size_t bytes);

// A block of at least `size` bytes at a multiple of TLSF_ALIGNMENT; size 0 gives a block of its own. NULL if no list
// that certainly fits has a block. O(1), no loop.
void *tlsf_malloc(struct tlsf *heap, size_t size);

// Gives back a block, and joins it with free neighbours at once. NULL is ignored. False, and nothing changed, if
// `block` is seen to be no live block: a block freed before whose memory has not been handed out since, or a
// misaligned pointer; other wrong pointers are not seen. O(1), no loop.
bool tlsf_free(struct tlsf *heap, void *block);

// A block of at least `size` bytes with the contents of `block`, which is in place where its memory or the free block
// behind it suffices. NULL, and `block` unchanged, if there is no memory. block NULL: tlsf_malloc. size 0: a smallest
// block. O(1) in place, else linear in the contents.
void *tlsf_realloc(struct tlsf *heap, void *block, size_t size);

// As tlsf_malloc, at a multiple of `alignment`, a power of two; NULL if it is none. Any of the functions here takes
// the block. It looks for a block of size + alignment and gives back what lies before and behind. O(1).
void *tlsf_aligned_alloc(struct tlsf *heap, size_t alignment, size_t size);

// Bytes of a live block that its holder may use: at least the size asked for. O(1).
size_t tlsf_usable_size(const void *block);

struct tlsf_usage {
  size_t control;  // bytes of the heap's own structure and of the areas' ends
  size_t area;     // bytes for blocks, headers included, of all areas
  size_t live;     // bytes in live blocks, headers and rounding included
  size_t largest;  // bytes of the largest free block, header included
  size_t reached;  // bytes from the first block to the highest end of any block so far (areas: the sum up to there)
};
// O(blocks).
struct tlsf_usage tlsf_usage(const struct tlsf *heap);

// Calls `visit` for each live block, in the order of addresses of each area, until it returns false; false then.
// `visit` must not call this heap. O(blocks).
bool tlsf_visit(const struct tlsf *heap, bool (*visit)(void *block, size_t usable, void *argument), void *argument);

// All invariants of blocks, lists and bitmaps: NULL if they hold, else a sentence. O(blocks + lists).
const char *tlsf_check(const struct tlsf *heap);

// Bytes of one area in which no request ever fails, in any order of requests, if the live requests, each rounded up to
// a multiple of TLSF_ALIGNMENT and at least that, never sum to more than `live`, and none is larger than `largest`.
// SIZE_MAX: more than can be expressed. With A = TLSF_ALIGNMENT, S the smallest block, L = live, the largest over m <=
// largest of
//   (1 + 2^-J) * ((L - m) + k S + (k + 1) (m + S - A) + A) + control, where k = (L - m) / A
// Why: a request of m fails only if every free block is shorter than m's rounded block (that is what its list
// guarantees); coalescing is immediate, so that the k live blocks part at most k + 1 free ones; a block takes at most
// S more than its request, and rounding up to a list at most 2^-J of that. It is of the order of Robson's bound for
// best fit, live * (largest - 2) units (1977; section 5.3 of the paper): what an adversary may force; programs stay
// far below it. For tlsf_malloc, tlsf_free and shrinking; an aligned request counts as one of size + alignment + S.
size_t tlsf_area_size(size_t live, size_t largest, const struct tlsf_config *config);

// The paper's functions by themselves, for tests and teaching. Sizes are of whole blocks, header included.
struct tlsf_list {
  unsigned first, second;
};
// Section 4.2: the list that holds blocks of `size`, which is at least 2^second_level_bits.
struct tlsf_list tlsf_mapping_insert(unsigned second_level_bits, size_t size);
// The first list of which every block suffices for `size`; *rounded is its shortest block: the round-up split's size.
struct tlsf_list tlsf_mapping_search(unsigned second_level_bits, size_t size, size_t *rounded);
// Appendix A: positions from 1, and 0 for no bit. ffs: the lowest bit set; fls: the highest.
int tlsf_generic_ffs(uint32_t word);
int tlsf_generic_fls(uint32_t word);

#ifdef __cplusplus
}
#endif
#endif
