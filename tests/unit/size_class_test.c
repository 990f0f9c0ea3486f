// Size classes: every size, every alignment, every offset in a page (issue 2, point 2: proven by trying every size).
#include "size_class.h"

#include "rtmalloc.h"
#include "span.h"
#include "test.h"

static size_t block_of(size_t size) { return rtm_shape[size_class(size)].block_size; }

TEST(every_small_size_is_rounded_little) {
  size_class_init();
  for (size_t size = 0; size <= BLOCK_MAX; size++) {
    unsigned class = size_class(size);
    size_t block = block_of(size);
    CHECK(class >= 1 && class <= CLASSES);
    CHECK(block >= size);
    if (size > 128)
      CHECK((block - size) * 8 <= size);
    else if (size > 0)
      CHECK(block - size <= 15);
    // The smallest class that the size fits.
    if (class > 1) CHECK(rtm_shape[class - 1].block_size < size);
  }
  CHECK_EQUAL(block_of(0), BLOCK_ALIGNMENT);
  CHECK_EQUAL(block_of(BLOCK_MAX), BLOCK_MAX);
}

TEST(classes_rise_in_multiples_of_the_alignment) {
  size_class_init();
  for (unsigned class = 1; class <= CLASSES; class++) {
    CHECK_EQUAL(rtm_shape[class].block_size % BLOCK_ALIGNMENT, 0);
    if (class > 1) CHECK(rtm_shape[class].block_size > rtm_shape[class - 1].block_size);
    CHECK_EQUAL(size_class(rtm_shape[class].block_size), class);
  }
}

// What alloc_aligned relies on: pages begin at a granule, so a block is aligned if its class's size is.
TEST(a_size_rounded_to_an_alignment_has_an_aligned_class) {
  size_class_init();
  for (size_t alignment = BLOCK_ALIGNMENT; alignment <= GRANULE_SIZE; alignment *= 2)
    for (size_t size = 1; size <= BLOCK_MAX; size++)
      CHECK_EQUAL(block_of(bits_round_up(size, alignment)) % alignment, 0);
}

TEST(division_by_the_reciprocal_is_exact_in_every_page) {
  size_class_init();
  for (unsigned class = 1; class <= CLASSES; class++) {
    uint32_t size = rtm_shape[class].block_size, quotient = 0, rest = 0;
    for (uint32_t offset = 0; offset < PAGE_GRANULES_MAX * GRANULE_SIZE; offset++) {
      CHECK_EQUAL(((uint64_t)offset * rtm_shape[class].reciprocal) >> 32, quotient);
      if (++rest == size) rest = 0, quotient++;
    }
  }
}

TEST(pages_hold_blocks_and_no_more_than_they_have_bits_for) {
  size_class_init();
  for (unsigned class = 1; class <= CLASSES; class++) {
    const struct class_shape *shape = &rtm_shape[class];
    CHECK(shape->granules_first >= 1 && shape->granules_first <= shape->granules_most);
    CHECK(shape->granules_most <= PAGE_GRANULES_MAX);
    for (uint32_t length = shape->granules_first; length <= shape->granules_most; length++) {
      struct span page = {.length = length, .reciprocal = shape->reciprocal};
      uint32_t fit = (length << GRANULE_SHIFT) / shape->block_size;
      CHECK_EQUAL(page_blocks(&page), fit < PAGE_BLOCKS_MAX ? fit : PAGE_BLOCKS_MAX);
      CHECK(page_blocks(&page) >= 1);
    }
  }
}

TEST(a_full_grown_page_ends_with_a_block) {
  size_class_init();
  for (unsigned class = 1; class <= CLASSES; class++) {
    const struct class_shape *shape = &rtm_shape[class];
    struct span page = {.length = shape->granules_most, .reciprocal = shape->reciprocal};
    uint32_t bytes = page.length << GRANULE_SHIFT, blocks = page_blocks(&page);
    CHECK(blocks >= 2);
    CHECK((bytes - blocks * shape->block_size) * 128 <= bytes);
  }
}

static void check_usable(size_t size) {
  char *block = rtm_malloc(size);
  CHECK(block);
  size_t usable = rtm_usable_size(block);
  CHECK(usable >= size);
  CHECK_EQUAL((uintptr_t)block % BLOCK_ALIGNMENT, 0);
  if (size > BLOCK_MAX) CHECK(usable - size < GRANULE_SIZE);
  rtm_free(block);
}

TEST(usable_size_covers_every_request) {
  for (size_t size = 0; size <= 70000; size++) check_usable(size);
  struct random random = test_random(0);
  for (uint64_t i = test_operations(3000); i > 0; i--) check_usable(random_below(&random, 64 << 20));
  for (size_t around = SEGMENT_SIZE; around <= 64 << 20; around += SEGMENT_SIZE)
    for (size_t size = around - 2; size <= around + 2; size++) check_usable(size);
  CHECK_SOUND(rtm_check());
}
