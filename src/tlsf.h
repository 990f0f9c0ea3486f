// Two-level segregated fit over free spans (TLSF, seeds/001, sections 4 and 5.3), sizes in whole units: granules in a
// heap, segments in the arena. Layer: above span. Called by segment and arena.
//
// First level: powers of two; second level: 16 linear lists each. Sizes below 16 have a list each (the paper's special
// case for small blocks). List (f, s) holds the lengths
//     f == 0: s          f > 0: [(16 + s) << (f - 1), (17 + s) << (f - 1))
// A request is rounded up to the next list, so that whatever is in the list found will do: no search (good fit).
// Bit f of `first` is set if and only if second[f] != 0; bit s of second[f] if and only if list (f, s) is not empty.
#ifndef RTM_TLSF_H
#define RTM_TLSF_H

#include "span.h"

enum {
  TLSF_SECOND_SHIFT = 4,
  TLSF_SECOND = 1 << TLSF_SECOND_SHIFT,
  TLSF_LENGTH_BITS = 22,  // lengths below 2^22
  TLSF_FIRST = TLSF_LENGTH_BITS - TLSF_SECOND_SHIFT + 1,
};

struct tlsf {
  uint32_t first;
  uint16_t second[TLSF_FIRST];
  uint32_t head[TLSF_FIRST][TLSF_SECOND];  // span index; 0: empty
};

struct tlsf_list {
  uint32_t f, s;
};

// 6 instructions for each branch.
RTM_INLINE struct tlsf_list tlsf_list_of(uint32_t length) {
  if (length < TLSF_SECOND) return (struct tlsf_list){0, length};
  uint32_t shift = bits_log2(length) - TLSF_SECOND_SHIFT;
  return (struct tlsf_list){shift + 1, (length >> shift) - TLSF_SECOND};
}

// The first list of which every span has at least `length` units.
RTM_INLINE struct tlsf_list tlsf_list_for(uint32_t length) {
  if (length >= TLSF_SECOND) length += (1u << (bits_log2(length) - TLSF_SECOND_SHIFT)) - 1;
  return tlsf_list_of(length);
}

RTM_INLINE void tlsf_insert(struct tlsf *tlsf, struct span *span) {
  struct tlsf_list l = tlsf_list_of(span->length);
  uint32_t head = tlsf->head[l.f][l.s], index = span_index(span);
  span->next = head;
  span->prev = 0;
  if (head) span_at(head)->prev = index;
  tlsf->head[l.f][l.s] = index;
  tlsf->second[l.f] |= (uint16_t)(1u << l.s);
  tlsf->first |= 1u << l.f;
}

RTM_INLINE void tlsf_remove(struct tlsf *tlsf, struct span *span) {
  if (span->next) span_at(span->next)->prev = span->prev;
  if (span->prev) {
    span_at(span->prev)->next = span->next;
    return;
  }
  struct tlsf_list l = tlsf_list_of(span->length);
  tlsf->head[l.f][l.s] = span->next;
  if (span->next) return;
  tlsf->second[l.f] &= (uint16_t) ~(1u << l.s);
  if (!tlsf->second[l.f]) tlsf->first &= ~(1u << l.f);
}

// Takes out a span of at least `length` units (1 <= length < 2^22); NULL if there is none to be found. O(1).
RTM_INLINE struct span *tlsf_take(struct tlsf *tlsf, uint32_t length) {
  struct tlsf_list l = tlsf_list_for(length);
  if (l.f >= TLSF_FIRST) return NULL;
  uint32_t second = tlsf->second[l.f] & (~0u << l.s);
  if (!second) {
    uint32_t first = tlsf->first & (~1u << l.f);
    if (!first) return NULL;
    l.f = bits_lowest(first);
    second = tlsf->second[l.f];
  }
  l.s = bits_lowest(second);
  uint32_t head = tlsf->head[l.f][l.s];
  struct span *span = span_at(head);
  tlsf->head[l.f][l.s] = span->next;
  if (span->next) {
    span_at(span->next)->prev = 0;
  } else {
    tlsf->second[l.f] &= (uint16_t) ~(1u << l.s);
    if (!tlsf->second[l.f]) tlsf->first &= ~(1u << l.f);
  }
  return span;
}

#endif
