// Bit arithmetic against the slow and obvious way.
#include "bits.h"

#include "test.h"

TEST(lowest_and_log2_of_every_bit) {
  for (unsigned i = 0; i < 64; i++) {
    CHECK_EQUAL(bits_lowest(UINT64_C(1) << i), i);
    CHECK_EQUAL(bits_lowest(~UINT64_C(0) << i), i);
  }
  for (unsigned i = 0; i < 32; i++) {
    CHECK_EQUAL(bits_log2(1u << i), i);
    CHECK_EQUAL(bits_log2((1u << i) | ((1u << i) - 1)), i);
  }
}

TEST(count_of_random_words) {
  struct random random = test_random(0);
  CHECK_EQUAL(bits_count(0), 0);
  CHECK_EQUAL(bits_count(~UINT64_C(0)), 64);
  for (unsigned i = 0; i < 100000; i++) {
    uint64_t word = random_next(&random) & random_next(&random);
    unsigned set = 0;
    for (unsigned bit = 0; bit < 64; bit++) set += word >> bit & 1;
    CHECK_EQUAL(bits_count(word), set);
  }
}

TEST(powers_of_two) {
  CHECK(!bits_is_power_of_two(0));
  for (unsigned i = 0; i < 64; i++) {
    size_t power = (size_t)1 << i;
    CHECK(bits_is_power_of_two(power));
    if (i > 0) CHECK(!bits_is_power_of_two(power + 1));
    if (i > 1) CHECK(!bits_is_power_of_two(power - 1));
  }
}

TEST(rounding_up) {
  for (size_t alignment = 1; alignment <= 4096; alignment *= 2)
    for (size_t value = 0; value < 10000; value++)
      CHECK_EQUAL(bits_round_up(value, alignment), (value + alignment - 1) / alignment * alignment);
}
