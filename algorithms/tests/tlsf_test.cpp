// TLSF by itself: the worked examples of the paper, its bounds, and what only tlsf.h has.
#include "tlsf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace {

const size_t H = TLSF_HEADER, A = TLSF_ALIGNMENT;
const size_t kSmallest = (2 * H + 2 * sizeof(void *) + A - 1) / A * A;

#ifdef TLSF_SECOND_LEVEL
const bool kFixed = true;
#else
const bool kFixed = false;
#endif

size_t align_up(size_t n) { return (n + A - 1) / A * A; }

struct Heap {
  std::vector<char> store;
  tlsf *t;
  explicit Heap(size_t bytes = 1 << 20, unsigned bits = 5, tlsf_split split = TLSF_ROUND_UP, size_t largest = 0)
      : store(bytes) {
    tlsf_config config = {bits, split, largest};
    t = tlsf_init(store.data(), bytes, &config);
  }
  // A block of `size` bytes, header included.
  char *whole(size_t size) { return static_cast<char *>(tlsf_malloc(t, size - H)); }
  static size_t whole_size(const void *p) { return tlsf_usable_size(p) + H; }
};

TEST(Mapping, size_74_is_in_list_6_1_and_searched_from_6_2) {  // section 5
  tlsf_list insert = tlsf_mapping_insert(3, 74);
  EXPECT_EQ(insert.first, 6u);
  EXPECT_EQ(insert.second, 1u);
  size_t rounded;
  tlsf_list search = tlsf_mapping_search(3, 74, &rounded);
  EXPECT_EQ(search.first, 6u);
  EXPECT_EQ(search.second, 2u);
  EXPECT_EQ(rounded, 80u);
  for (size_t size = 72; size <= 79; size++) EXPECT_EQ(tlsf_mapping_insert(3, size).second, 1u);
  EXPECT_EQ(tlsf_mapping_insert(3, 71).second, 0u);
  EXPECT_EQ(tlsf_mapping_insert(3, 80).second, 2u);
}

TEST(Mapping, size_1512_is_searched_from_10_4) {  // section 4.3, Figure 4
  for (size_t size : {1408, 1512, 1524, 1535}) {
    EXPECT_EQ(tlsf_mapping_insert(3, size).first, 10u);
    EXPECT_EQ(tlsf_mapping_insert(3, size).second, 3u);
  }
  size_t rounded;
  tlsf_list search = tlsf_mapping_search(3, 1512, &rounded);
  EXPECT_EQ(search.first, 10u);
  EXPECT_EQ(search.second, 4u);
  EXPECT_EQ(rounded, 1536u);
  EXPECT_EQ(tlsf_mapping_search(3, 1536, &rounded).second, 4u);
}

TEST(Mapping, follows_the_formulas_of_section_4_2) {
  for (unsigned bits = 1; bits <= 5; bits++) {
    for (size_t r = 1u << bits; r < 70000; r++) {
      unsigned i = 0;
      while (size_t(2) << i <= r) i++;
      ASSERT_EQ(tlsf_mapping_insert(bits, r).first, i);
      ASSERT_EQ(tlsf_mapping_insert(bits, r).second, (r - (size_t(1) << i)) / (size_t(1) << (i - bits)));
      size_t rounded;
      tlsf_list search = tlsf_mapping_search(bits, r, &rounded);
      tlsf_list of_sum = tlsf_mapping_insert(bits, r + (size_t(1) << (i - bits)) - 1);
      ASSERT_EQ(search.first, of_sum.first);
      ASSERT_EQ(search.second, of_sum.second);
      ASSERT_GE(rounded, r);
      // The list's shortest block is the rounded size: one less is in another list.
      ASSERT_TRUE(rounded == size_t(1) << bits || tlsf_mapping_insert(bits, rounded - 1).second != search.second);
    }
  }
}

// The blocks of Figure 5 that matter: a block of 104 to 111 bytes is the smallest free one that list (6, 2) leads to.
TEST(Malloc, of_74_is_served_from_list_6_5) {
  if (A != 8 || kFixed) GTEST_SKIP() << "blocks of 104 bytes need an alignment of 8";
  Heap heap(1 << 16, 3);
  char *too_small = heap.whole(72);
  heap.whole(64);
  char *list_6_5 = heap.whole(104);
  heap.whole(64);
  char *larger = heap.whole(128);
  heap.whole(64);
  for (char *p : {larger, list_6_5, too_small}) ASSERT_TRUE(tlsf_free(heap.t, p));
  EXPECT_EQ(heap.whole(74), list_6_5);
  EXPECT_STREQ(tlsf_check(heap.t), nullptr);
}

TEST(Malloc, of_1512_with_round_up_and_exact_split) {  // Figure 4
  if (kFixed) GTEST_SKIP() << "J is fixed";
  for (tlsf_split split : {TLSF_ROUND_UP, TLSF_EXACT}) {
    Heap heap(1 << 16, 3, split);
    char *block = heap.whole(1512), *rest = heap.whole(64);
    EXPECT_EQ(Heap::whole_size(block), split == TLSF_ROUND_UP ? 1536 : align_up(1512));
    EXPECT_EQ(rest, block + Heap::whole_size(block));
    tlsf_free(heap.t, block);
    // The third request of the figure: only the rounded block is found again.
    EXPECT_EQ(heap.whole(1512) == block, split == TLSF_ROUND_UP);
    EXPECT_STREQ(tlsf_check(heap.t), nullptr);
  }
}

TEST(Malloc, wastes_at_most_1_of_1_and_2_to_the_J_by_rounding) {  // section 5.3
  for (unsigned bits = kFixed ? 5 : 1; bits <= 5; bits++) {
    Heap heap(1 << 20, bits);
    double worst = 0;
    for (size_t wanted = kSmallest; wanted < 1 << 18; wanted += wanted < 8192 ? A : 13 * A) {
      char *p = heap.whole(wanted);
      ASSERT_NE(p, nullptr);
      size_t got = Heap::whole_size(p);
      ASSERT_GE(got, wanted);
      worst = std::max(worst, double(got - wanted) / double(got));
      ASSERT_LE(worst, 1.0 / (1 + (1 << bits))) << wanted << " J " << bits;
      tlsf_free(heap.t, p);
    }
    EXPECT_GT(worst, 0.7 / (1 + (1 << bits)));  // the bound is nearly reached
  }
}

TEST(Malloc, below_128_bytes_each_size_has_its_list) {  // section 5.1
  Heap heap;
  std::vector<char *> blocks;
  for (size_t size = kSmallest; size < 128; size += A) {
    blocks.push_back(heap.whole(size));
    EXPECT_EQ(Heap::whole_size(blocks.back()), size);
    heap.whole(64);
  }
  for (char *p : blocks) tlsf_free(heap.t, p);
  size_t i = 0;
  for (size_t size = kSmallest; size < 128; size += A) EXPECT_EQ(heap.whole(size), blocks[i++]);
}

TEST(Bits, of_appendix_a_equal_the_processors) {
  EXPECT_EQ(tlsf_generic_ffs(0), 0);
  EXPECT_EQ(tlsf_generic_fls(0), 0);
  std::mt19937 random(1);
  auto equal = [](uint32_t x) {
    return !x || (tlsf_generic_ffs(x) == __builtin_ffs(int(x)) && tlsf_generic_fls(x) == 32 - __builtin_clz(x));
  };
  for (unsigned i = 0; i < 32; i++) {
    for (unsigned j = 0; j < 32; j++) {
      uint32_t x = (1u << i) | (1u << j);
      ASSERT_TRUE(equal(x) && equal(x - 1) && equal(x + 1) && equal(~x)) << x;
    }
  }
  for (int i = 0; i < 1000000; i++) ASSERT_TRUE(equal(random() >> (i % 32)));
}

TEST(Init, refuses_what_cannot_work) {
  std::vector<char> store(1 << 16);
  tlsf_config config = {0, TLSF_ROUND_UP, 0};
  EXPECT_EQ(tlsf_init(store.data(), store.size(), &config), nullptr);
  config.second_level_bits = 6;
  EXPECT_EQ(tlsf_init(store.data(), store.size(), &config), nullptr);
  config = tlsf_config_default();
  config.largest_area = SIZE_MAX;
  EXPECT_EQ(tlsf_init(store.data(), store.size(), &config), nullptr);
  EXPECT_EQ(tlsf_init(store.data(), 100, nullptr), nullptr);
  EXPECT_EQ(tlsf_init(nullptr, store.size(), nullptr), nullptr);
  EXPECT_NE(tlsf_init(store.data(), store.size(), nullptr), nullptr);
}

TEST(Init, blocks_of_the_whole_area_are_found) {
  for (size_t bytes = 12000; bytes < 300000; bytes += 7919) {
    Heap heap(bytes);
    ASSERT_NE(heap.t, nullptr);
    size_t largest = tlsf_usage(heap.t).largest;
    // What rounds up to no more than the one free block must be served.
    size_t fits = largest - largest / 33 - 1 - A - H;
    char *p = static_cast<char *>(tlsf_malloc(heap.t, fits));
    ASSERT_NE(p, nullptr) << bytes;
    tlsf_free(heap.t, p);
    EXPECT_EQ(tlsf_malloc(heap.t, largest), nullptr);
    EXPECT_STREQ(tlsf_check(heap.t), nullptr);
  }
}

TEST(AddArea, gives_its_memory_and_keeps_areas_apart) {
  Heap heap(1 << 16, 5, TLSF_ROUND_UP, 1 << 18);
  std::vector<char> more(1 << 18);
  EXPECT_EQ(tlsf_malloc(heap.t, 1 << 17), nullptr);
  ASSERT_TRUE(tlsf_add_area(heap.t, more.data() + 3, more.size() - 3));
  char *p = static_cast<char *>(tlsf_malloc(heap.t, 1 << 17));
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(p > more.data() && p < more.data() + more.size());
  memset(p, 1, 1 << 17);
  std::vector<void *> blocks;
  while (void *q = tlsf_malloc(heap.t, 500)) blocks.push_back(q);
  EXPECT_GT(blocks.size(), ((1u << 16) + (1u << 17)) / 560);
  EXPECT_STREQ(tlsf_check(heap.t), nullptr);
  for (void *q : blocks) EXPECT_TRUE(tlsf_free(heap.t, q));
  EXPECT_TRUE(tlsf_free(heap.t, p));
  EXPECT_STREQ(tlsf_check(heap.t), nullptr);
  EXPECT_EQ(tlsf_usage(heap.t).live, 0u);
  EXPECT_GT(tlsf_usage(heap.t).area, (1u << 18) + (1u << 15));
}

TEST(AddArea, refuses_too_large_and_too_small) {
  Heap heap(1 << 16);
  std::vector<char> more(1 << 18);
  size_t area = tlsf_usage(heap.t).area;
  EXPECT_FALSE(tlsf_add_area(heap.t, more.data(), more.size()));
  for (size_t bytes = 0; bytes < kSmallest + H; bytes++) EXPECT_FALSE(tlsf_add_area(heap.t, more.data(), bytes));
  EXPECT_FALSE(tlsf_add_area(heap.t, nullptr, 4096));
  EXPECT_EQ(tlsf_usage(heap.t).area, area);
  EXPECT_TRUE(tlsf_add_area(heap.t, more.data(), 1 << 16));
}

TEST(Realloc, is_in_place_where_the_free_block_behind_suffices) {
  Heap heap;
  char *p = heap.whole(1024);
  memset(p, 7, 1024 - H);
  EXPECT_EQ(tlsf_realloc(heap.t, p, 4096), p);
  EXPECT_EQ(tlsf_realloc(heap.t, p, 100), p);
  for (int i = 0; i < 100; i++) EXPECT_EQ(p[i], 7);
  EXPECT_LE(Heap::whole_size(p), 100 + H + A);
  char *behind = heap.whole(64);
  char *moved = static_cast<char *>(tlsf_realloc(heap.t, p, 5000));
  EXPECT_NE(moved, p);
  for (int i = 0; i < 100; i++) EXPECT_EQ(moved[i], 7);
  EXPECT_FALSE(tlsf_free(heap.t, p));
  EXPECT_TRUE(tlsf_free(heap.t, moved) && tlsf_free(heap.t, behind));
  EXPECT_STREQ(tlsf_check(heap.t), nullptr);
}

TEST(Check, sees_each_broken_structure) {
  Heap heap;
  std::vector<char *> p;
  for (int i = 0; i < 8; i++) p.push_back(heap.whole(512));
  tlsf_free(heap.t, p[1]);
  tlsf_free(heap.t, p[3]);
  auto broken_by = [&](void *at, const void *value, size_t bytes) {
    std::vector<char> saved(static_cast<char *>(at), static_cast<char *>(at) + bytes);
    memcpy(at, value, bytes);
    bool seen = tlsf_check(heap.t) != nullptr;
    memcpy(at, saved.data(), bytes);
    return seen && tlsf_check(heap.t) == nullptr;
  };
  char zero[16] = {};
  void *live = p[5];
  EXPECT_TRUE(broken_by(p[2] - H, zero, H)) << "header of a live block";
  EXPECT_TRUE(broken_by(p[3] - H, zero, H)) << "header of a free block";
  EXPECT_TRUE(broken_by(p[4] - 2 * H, zero, H)) << "footer";
  EXPECT_TRUE(broken_by(p[3], &live, sizeof live)) << "next";
  EXPECT_TRUE(broken_by(p[1] + sizeof live, &live, sizeof live)) << "prev";
  EXPECT_TRUE(broken_by(heap.t, zero, 4)) << "first-level bitmap";
  EXPECT_TRUE(broken_by(p[1] + 512 - H, zero, H)) << "header that knows of the free block before it";
}

TEST(AreaSize, suffices_for_every_split_and_second_level) {
  for (unsigned bits = kFixed ? 5 : 1; bits <= 5; bits++) {
    for (tlsf_split split : {TLSF_ROUND_UP, TLSF_EXACT}) {
      tlsf_config config = {bits, split, 0};
      size_t live_most = 20000, largest = 700;
      std::vector<char> store(tlsf_area_size(live_most, largest, &config));
      tlsf *t = tlsf_init(store.data(), store.size(), &config);
      ASSERT_NE(t, nullptr);
      std::mt19937 random(bits);
      std::vector<std::pair<void *, size_t>> held;
      size_t live = 0;
      for (int i = 0; i < 20000; i++) {
        size_t size = random() % 5 ? random() % 60 : random() % (largest + 1), counted = size ? align_up(size) : A;
        while (live + counted > live_most) {
          size_t victim = random() % held.size();
          live -= held[victim].second;
          tlsf_free(t, held[victim].first);
          held[victim] = held.back();
          held.pop_back();
        }
        void *p = tlsf_malloc(t, size);
        ASSERT_NE(p, nullptr) << i;
        held.push_back({p, counted});
        live += counted;
      }
      EXPECT_STREQ(tlsf_check(t), nullptr);
    }
  }
}

}  // namespace
