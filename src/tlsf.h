// Two-level segregated fit over free spans (TLSF, seeds/001, sections 4 and 5.3), lengths in whole units: granules in
// a heap, segments in the arena. Layer: above span. Called by segment and arena.
//
// Lists are numbered through: with shift = max(0, floor(log2(length)) - 4),
//     list(length) = 16 * shift + (length >> shift)
// so that lengths below 32 have a list each (the paper's special case for small blocks) and each doubling above has 16.
// A request is rounded up to the next list, so that whatever is in the list found will do: no search (good fit).
// Bit l % 64 of bits[l / 64] is set if and only if list l is not empty.
//
// A structure may hold several sets of spans side by side, each from a list that is a multiple of 64.
#ifndef RTM_TLSF_H
#define RTM_TLSF_H

#include "span.h"

enum {
  TLSF_SECOND_SHIFT = 4,
  TLSF_SECOND = 1 << TLSF_SECOND_SHIFT,
  TLSF_LENGTH_BITS = 22,  // lengths below 2^22
  TLSF_WORDS = (TLSF_SECOND * (TLSF_LENGTH_BITS - TLSF_SECOND_SHIFT + 1)) / 64 + 1,
  TLSF_LISTS = 64 * TLSF_WORDS,
};

struct tlsf {
  uint64_t bits[TLSF_WORDS];
  struct span *head[TLSF_LISTS];
};

// 7 instructions.
RTM_INLINE uint32_t tlsf_list_of(uint32_t length) {
  uint32_t shift = bits_log2(length | TLSF_SECOND) - TLSF_SECOND_SHIFT;
  return (shift << TLSF_SECOND_SHIFT) + (length >> shift);
}

// The first list of which every span has at least `length` units.
RTM_INLINE uint32_t tlsf_list_for(uint32_t length) {
  uint32_t shift = bits_log2(length | TLSF_SECOND) - TLSF_SECOND_SHIFT;
  return tlsf_list_of(length + (1u << shift) - 1);
}

// `list` is that of the span's length, counted from the first list of the set. 12 instructions at most.
RTM_INLINE void tlsf_insert(struct tlsf *tlsf, uint64_t list, struct span *span) {
  struct span **link = &tlsf->head[list], *next;
  RTM_KEEP(link);
  next = *link;
  span->list = (uint16_t)list;
  span->free_next = next;
  span->free_link = link;
  *link = span;
  if (RTM_UNLIKELY(next != NULL)) {
    next->free_link = &span->free_next;
    return;
  }
  uint64_t *word = &tlsf->bits[list / 64];
  *word = bits_set(*word, list);
}

// 14 instructions at most.
RTM_INLINE void tlsf_remove(struct tlsf *tlsf, struct span *span) {
  struct span **link = span->free_link, *next = span->free_next;
  *link = next;
  if (RTM_UNLIKELY(next != NULL)) {
    next->free_link = link;
    return;
  }
  uint64_t list = span->list;
  if (RTM_UNLIKELY(tlsf->head[list] != NULL)) return;
  uint64_t *word = &tlsf->bits[list / 64];
  *word = bits_clear(*word, list);
}

// Takes the first span of list `place` of this word, which is not empty. 10 instructions at most.
RTM_INLINE struct span *tlsf_take_at(struct tlsf *tlsf, uint32_t word, uint64_t place, uint64_t bit) {
  struct span **link = &tlsf->head[word * 64 + place];
  RTM_KEEP(link);
  struct span *span = *link, *next = span->free_next;
  *link = next;
  if (RTM_UNLIKELY(next != NULL))
    next->free_link = link;
  else
    tlsf->bits[word] ^= bit;
  return span;
}

// Of the first of the lists `bits` of this word, of which none is empty.
RTM_INLINE struct span *tlsf_take_from(struct tlsf *tlsf, uint32_t word, uint64_t bits) {
  return tlsf_take_at(tlsf, word, bits_lowest(bits), bits & -bits);
}

// Of the last of them: no other span is longer by more than 1 part in 16.
RTM_INLINE struct span *tlsf_take_longest(struct tlsf *tlsf, uint32_t word, uint64_t bits) {
  uint64_t place = bits_highest(bits);
  return tlsf_take_at(tlsf, word, place, UINT64_C(1) << place);
}

// Takes a span out of list `list` or a later one before list 64 * `end`; NULL if these are empty. O(end).
RTM_INLINE struct span *tlsf_take(struct tlsf *tlsf, uint32_t list, uint32_t end) {
  uint32_t word = list / 64;
  uint64_t bits = tlsf->bits[word] & (~UINT64_C(0) << (list % 64));
  while (!bits) {
    if (++word == end) return NULL;
    bits = tlsf->bits[word];
  }
  return tlsf_take_from(tlsf, word, bits);
}

#endif
