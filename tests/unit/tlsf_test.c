// TLSF: the mapping for every length, and the lists against a model that searches everything.
#include "tlsf.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

// The shortest length that a list holds, as the comment in tlsf.h says.
static uint32_t shortest(uint32_t list) {
  if (list < 2 * TLSF_SECOND) return list;
  uint32_t shift = list / TLSF_SECOND - 1;
  return (TLSF_SECOND + list % TLSF_SECOND) << shift;
}

TEST(every_length_is_in_the_list_whose_bounds_hold_it) {
  uint32_t before = 0;
  for (uint32_t length = 1; length < 1u << TLSF_LENGTH_BITS; length++) {
    uint32_t list = tlsf_list_of(length);
    CHECK(list < TLSF_LISTS);
    CHECK(shortest(list) <= length && length < shortest(list + 1));
    CHECK(list == before || list == before + 1);
    before = list;
  }
}

TEST(a_request_goes_to_the_first_list_of_which_all_fit) {
  for (uint32_t length = 1; length < 1u << TLSF_LENGTH_BITS; length++) {
    uint32_t list = tlsf_list_for(length), own = tlsf_list_of(length);
    CHECK(list < TLSF_LISTS);
    CHECK(shortest(list) >= length);
    CHECK_EQUAL(list, own + (shortest(own) != length));
  }
}

// ---- lists against a model: an array of flags ----

enum { SPANS = 2000 };
static struct tlsf tlsf;
static bool is_free[SPANS + 1];

static void make_spans(void) {
  rtm_window_spans = aligned_alloc(SPAN_SIZE, (SPANS + 1) * SPAN_SIZE);
  memset(rtm_window_spans, 0, (SPANS + 1) * SPAN_SIZE);
}

static void check_lists(void) {
  uint32_t listed = 0, free = 0;
  for (uint32_t list = 0; list < TLSF_LISTS; list++) {
    CHECK_EQUAL(tlsf.bits[list / 64] >> list % 64 & 1, tlsf.head[list] != NULL);
    struct span **link = &tlsf.head[list];
    for (struct span *span = *link; span; link = &span->free_next, span = *link) {
      CHECK(is_free[span_index(span)]);
      CHECK_EQUAL(tlsf_list_of(span->length), list);
      CHECK(span->free_link == link);
      CHECK(++listed <= SPANS);
    }
  }
  for (uint32_t i = 1; i <= SPANS; i++) free += is_free[i];
  CHECK_EQUAL(listed, free);
}

// Good fit: the span comes from the lowest list that has any among those that certainly fit.
static void check_taken(const struct span *taken, uint32_t length) {
  uint32_t from = tlsf_list_for(length), best = UINT32_MAX;
  for (uint32_t i = 1; i <= SPANS; i++) {
    uint32_t list = tlsf_list_of(span_at(i)->length);
    if (is_free[i] && list >= from && list < best) best = list;
  }
  if (!taken) {
    CHECK_EQUAL(best, UINT32_MAX);
    return;
  }
  CHECK(is_free[span_index(taken)]);
  CHECK(taken->length >= length);
  CHECK_EQUAL(tlsf_list_of(taken->length), best);
}

TEST(take_insert_and_remove_as_a_search_over_all_spans_would) {
  make_spans();
  struct random random = test_random(0);
  uint64_t operations = test_operations(40000);
  for (uint64_t step = 0; step < operations; step++) {
    uint32_t i = 1 + (uint32_t)random_below(&random, SPANS);
    // Phases in which the lists fill, and others in which they run empty.
    bool filling = step / 4000 % 2 == 0;
    if (!is_free[i] && (filling || random_below(&random, 4) == 0)) {
      span_at(i)->length = 1 + (uint32_t)random_size(&random, (1u << TLSF_LENGTH_BITS) - 2);
      tlsf_insert(&tlsf, tlsf_list_of(span_at(i)->length), span_at(i));
      is_free[i] = true;
    } else if (is_free[i] && random_below(&random, 2)) {
      tlsf_remove(&tlsf, span_at(i));
      is_free[i] = false;
    } else {
      uint32_t length = 1 + (uint32_t)random_size(&random, (1u << TLSF_LENGTH_BITS) - 2);
      struct span *taken = tlsf_take(&tlsf, tlsf_list_for(length), TLSF_WORDS);
      check_taken(taken, length);
      if (taken) is_free[span_index(taken)] = false;
      uint32_t word = (uint32_t)random_below(&random, TLSF_WORDS);
      if (!tlsf.bits[word]) continue;
      struct span *longest = tlsf_take_longest(&tlsf, word, tlsf.bits[word]);
      uint32_t list = tlsf_list_of(longest->length);
      CHECK_EQUAL(list / 64, word);
      for (uint32_t j = 1; j <= SPANS; j++)
        if (is_free[j] && tlsf_list_of(span_at(j)->length) / 64 == word)
          CHECK(tlsf_list_of(span_at(j)->length) <= list);
      is_free[span_index(longest)] = false;
    }
    if (step % 100 == 0) check_lists();
  }
  for (uint32_t i = 1; i <= SPANS; i++)
    if (is_free[i]) tlsf_remove(&tlsf, span_at(i)), is_free[i] = false;
  check_lists();
  CHECK(!tlsf_take(&tlsf, tlsf_list_for(1), TLSF_WORDS));
}
