// The arithmetic of the core, tried for every input: size classes, reciprocal division, TLSF's mapping, span and
// segment numbers. What has 2^64 inputs is in bits_z3.py.
//   proofs_arithmetic         what takes seconds
//   proofs_arithmetic --long  the loops of 2^31 and 2^32 in steps of one; a minute
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment.h"
#include "size_class.h"
#include "span.h"
#include "tlsf.h"

#define HOLDS(condition, input)                                                                                  \
  do {                                                                                                           \
    if (!(condition)) {                                                                                          \
      fprintf(stderr, "%s:%d: not for %llu: %s\n", __FILE__, __LINE__, (unsigned long long)(input), #condition); \
      exit(1);                                                                                                   \
    }                                                                                                            \
  } while (0)

static uint64_t stride = 251;  // of the long loops; 1: every input

static void log2_of_every_number(void) {
  for (uint64_t value = 1; value < UINT64_C(1) << 32; value += stride) {
    unsigned log = bits_log2((uint32_t)value);
    HOLDS(value >> log == 1, value);
  }
  for (unsigned shift = 0; shift < 32; shift++)  // where it changes
    for (int64_t value = (INT64_C(1) << shift) - 2; value <= (INT64_C(1) << shift) + 2; value++)
      if (value > 0) HOLDS((uint64_t)value >> bits_log2((uint32_t)value) == 1, value);
}

// Every word is its lowest bit, what is above, and nothing below: the position is all that matters. The same for the
// highest. With all bits above, or below, in several patterns.
static void lowest_and_highest_of_every_position(void) {
  static const uint64_t patterns[] = {0, ~UINT64_C(0), 0x5555555555555555u, 0xaaaaaaaaaaaaaaaau, 0x123456789abcdef1u};
  for (unsigned at = 0; at < 64; at++)
    for (unsigned p = 0; p < sizeof patterns / sizeof *patterns; p++) {
      uint64_t bit = UINT64_C(1) << at;
      HOLDS(bits_lowest(bit | (patterns[p] & ~(bit - 1))) == at, at);
      HOLDS(bits_highest(bit | (patterns[p] & (bit - 1))) == at, at);
    }
}

static uint32_t size_by_equation(unsigned class) {
  if (class <= 8) return 16 * class;
  unsigned i = class - 9;
  return (9 + i % 8) << (4 + i / 8);
}

static void every_size_has_the_smallest_class_that_fits(void) {
  for (unsigned class = 1; class <= CLASSES; class ++)
    HOLDS(rtm_shape[class].block_size == size_by_equation(class), class);
  for (size_t size = 0; size <= BLOCK_MAX; size++) {
    unsigned class = size_class(size);
    HOLDS(class >= 1 && class <= CLASSES, size);
    HOLDS(rtm_shape[class].block_size >= size, size);
    HOLDS(class == 1 || rtm_shape[class - 1].block_size < size, size);
    size_t lost = rtm_shape[class].block_size - size;
    HOLDS(size == 0 || lost <= 15 || 9 * lost <= rtm_shape[class].block_size, size);
  }
}

// What alloc_aligned relies on.
static void every_size_and_alignment_has_an_aligned_class(void) {
  for (size_t alignment = BLOCK_ALIGNMENT; alignment <= GRANULE_SIZE; alignment *= 2)
    for (size_t size = 1; size <= BLOCK_MAX; size++) {
      size_t rounded = bits_round_up(size, alignment);
      HOLDS(rounded <= BLOCK_MAX && rounded >= size, size);
      HOLDS(rtm_shape[size_class(rounded)].block_size % alignment == 0, size);
    }
}

// For every block size that a class might have, not only for those that classes have, and every offset in the longest
// page.
static void division_by_every_reciprocal(void) {
  enum { PAGE_MAX = PAGE_GRANULES_MAX * GRANULE_SIZE };
  for (uint32_t size = BLOCK_ALIGNMENT; size <= BLOCK_MAX; size += BLOCK_ALIGNMENT) {
    uint64_t reciprocal = (UINT64_C(1) << 32) / size + 1;
    HOLDS(reciprocal <= UINT32_MAX, size);
    uint32_t quotient = 0, rest = 0;
    for (uint32_t offset = 0; offset <= PAGE_MAX; offset++) {  // PAGE_MAX itself: page_blocks
      HOLDS((offset * reciprocal) >> 32 == quotient, offset);
      // Where no page has so many blocks, it need not hold.
      if (quotient < PAGE_BLOCKS_MAX) HOLDS(((uint32_t)(offset * reciprocal) < reciprocal) == (rest == 0), offset);
      if (++rest == size) rest = 0, quotient++;
    }
  }
  for (unsigned class = 1; class <= CLASSES; class ++)
    HOLDS(rtm_shape[class].reciprocal == (UINT64_C(1) << 32) / rtm_shape[class].block_size + 1, class);
}

// Each block of each page has a bit of its own, in a word that exists, and lies in the page.
static void every_block_of_every_page_has_its_bit(void) {
  for (unsigned class = 1; class <= CLASSES; class ++)
    for (uint32_t length = 1; length <= PAGE_GRANULES_KEPT; length++) {
      struct span page = {.length = length, .reciprocal = rtm_shape[class].reciprocal};
      uint32_t size = rtm_shape[class].block_size, blocks = page_blocks(&page);
      uint32_t fit = (length << GRANULE_SHIFT) / size;
      HOLDS(blocks == (fit < PAGE_BLOCKS_MAX ? fit : PAGE_BLOCKS_MAX), class);
      for (uint32_t block = 0; block < blocks; block++) {
        uint64_t number = ((uint64_t)block * size * page.reciprocal) >> 32;
        HOLDS(number == block && number / 64 < REMOTE_WORDS, block);
        HOLDS((block + 1) * size <= length << GRANULE_SHIFT, block);
      }
    }
}

static uint32_t shortest_of(uint32_t list) {
  if (list < 2 * TLSF_SECOND) return list;
  uint32_t shift = list / TLSF_SECOND - 1;
  return (TLSF_SECOND + list % TLSF_SECOND) << shift;
}

static void every_length_and_request_has_its_list(void) {
  for (uint32_t length = 1; length < 1u << TLSF_LENGTH_BITS; length++) {
    uint32_t list = tlsf_list_of(length), first = tlsf_list_for(length);
    HOLDS(list < TLSF_LISTS && first < TLSF_LISTS, length);
    HOLDS(shortest_of(list) <= length && length < shortest_of(list + 1), length);
    HOLDS(shortest_of(first) >= length, length);                                     // whatever is in it will do
    HOLDS(first == 0 || shortest_of(first - 1) < length, length);                    // and no earlier list is so
    HOLDS(16 * (uint64_t)shortest_of(first) <= 17 * (uint64_t)length + 16, length);  // good fit
  }
  for (uint32_t length = 1; length <= SEGMENT_GRANULES; length++) {
    HOLDS(rtm_segment_lists[length].of == tlsf_list_of(length), length);
    HOLDS(rtm_segment_lists[length].for_request == tlsf_list_for(length), length);
    HOLDS(rtm_segment_lists[length].for_request < 64 * SPANS_WORDS, length);
  }
}

// 8 TiB of window: 2^31 granules, as many descriptors. Only addresses are computed.
static void every_descriptor_has_its_number_and_segment(void) {
  rtm_window_spans = (char *)(uintptr_t)UINT64_C(0x700000000000);
  for (uint64_t index = 0; index < UINT64_C(1) << 31; index += stride) {
    struct span *span = span_at((uint32_t)index);
    HOLDS(span_index(span) == index, index);
    HOLDS(segment_of(span) == segment_at((uint32_t)index / SEGMENT_GRANULES), index);
    HOLDS(segment_number(segment_of(span)) == index / SEGMENT_GRANULES, index);
  }
  rtm_window_base = (uintptr_t)UINT64_C(0x100000000000);
  for (uint64_t granule = 0; granule < UINT64_C(1) << 31; granule += stride) {
    char *address = granule_address((uint32_t)granule);
    HOLDS(window_granule(address) == granule && window_granule(address + GRANULE_SIZE - 1) == granule, granule);
    HOLDS(segment_of_granule((uint32_t)granule) == granule / SEGMENT_GRANULES, granule);
  }
  // What is outside is never taken for a granule: NULL, just below, just above.
  HOLDS(window_granule(NULL) >= UINT64_C(1) << 31, 0);
  HOLDS(window_granule((char *)rtm_window_base - 1) >= UINT64_C(1) << 31, 0);
  HOLDS(window_granule((char *)rtm_window_base + (UINT64_C(1) << 43)) >= UINT64_C(1) << 31, 0);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--long") == 0) {
    stride = 1;
  } else if (argc > 1) {
    fprintf(stderr, "usage: %s [--long]\n", argv[0]);
    return 2;
  }
  size_class_init();
  segment_init();
  static const struct proof {
    const char *name;
    void (*run)(void);
  } proofs[] = {
      {"log2_of_every_number", log2_of_every_number},
      {"lowest_and_highest_of_every_position", lowest_and_highest_of_every_position},
      {"every_size_has_the_smallest_class_that_fits", every_size_has_the_smallest_class_that_fits},
      {"every_size_and_alignment_has_an_aligned_class", every_size_and_alignment_has_an_aligned_class},
      {"division_by_every_reciprocal", division_by_every_reciprocal},
      {"every_block_of_every_page_has_its_bit", every_block_of_every_page_has_its_bit},
      {"every_length_and_request_has_its_list", every_length_and_request_has_its_list},
      {"every_descriptor_has_its_number_and_segment", every_descriptor_has_its_number_and_segment},
  };
  for (unsigned i = 0; i < sizeof proofs / sizeof *proofs; i++) {
    proofs[i].run();
    printf("holds: %s\n", proofs[i].name);
  }
  return 0;
}
