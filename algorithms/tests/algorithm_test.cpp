// What every allocator must do, through the common interface.
#include "guarded_memory.h"

namespace {

using Random = std::mt19937_64;

class Algorithm : public ::testing::TestWithParam<const algorithm *> {
 protected:
  const algorithm &a = *GetParam();
  Memory memory{1 << 20};
  void *heap = a.init(memory.start(), memory.size());

  void SetUp() override { ASSERT_NE(heap, nullptr); }
  void TearDown() override {
    EXPECT_STREQ(a.check(heap), nullptr);
    EXPECT_TRUE(memory.guards_hold());
  }
  char *get(size_t size) { return static_cast<char *>(a.malloc(heap, size)); }

  // Bytes of the largest block that can be had now, by trying.
  size_t largest() {
    size_t low = 0, high = memory.size();
    while (low < high) {
      size_t middle = (low + high + 1) / 2;
      void *p = a.malloc(heap, middle);
      if (p)
        low = middle;
      else
        high = middle - 1;
      a.free(heap, p);
    }
    return low;
  }
};

TEST_P(Algorithm, is_found_by_its_name) { EXPECT_EQ(algorithms_find(a.name), &a); }

TEST_P(Algorithm, size_zero_and_one_are_blocks_of_their_own) {
  char *zero = get(0), *other = get(0), *one = get(1);
  ASSERT_TRUE(zero && other && one);
  EXPECT_TRUE(zero != other && other != one && zero != one);
  EXPECT_GE(a.usable_size(heap, one), 1u);
  EXPECT_TRUE(a.free(heap, zero) && a.free(heap, other) && a.free(heap, one));
}

TEST_P(Algorithm, null_is_ignored) {
  EXPECT_TRUE(a.free(heap, nullptr));
  EXPECT_EQ(a.usable_size(heap, nullptr), 0u);
  EXPECT_NE(a.realloc(heap, nullptr, 10), nullptr);
}

TEST_P(Algorithm, sizes_that_no_area_has_fail) {
  for (size_t size : {memory.size(), SIZE_MAX / 2, SIZE_MAX - 100, SIZE_MAX - 7, SIZE_MAX}) {
    EXPECT_EQ(a.malloc(heap, size), nullptr) << size;
    EXPECT_EQ(a.aligned_alloc(heap, 64, size), nullptr) << size;
    char *kept = get(50);
    ASSERT_NE(kept, nullptr);
    Held h{kept, 50, 3};
    fill(h);
    EXPECT_EQ(a.realloc(heap, kept, size), nullptr) << size;
    EXPECT_TRUE(intact(h, 50));
    a.free(heap, kept);
  }
}

TEST_P(Algorithm, alignments) {
  std::vector<void *> blocks;
  for (size_t alignment = 1; alignment <= 65536; alignment *= 2) {
    for (size_t size : {1, 24, 100, 1000}) {
      void *p = a.aligned_alloc(heap, alignment, size);
      ASSERT_NE(p, nullptr) << alignment;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % alignment, 0u);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % ALGORITHM_ALIGNMENT, 0u);
      ASSERT_GE(a.usable_size(heap, p), size);
      memset(p, 0x77, a.usable_size(heap, p));
      ASSERT_STREQ(a.check(heap), nullptr) << alignment << " " << size;
      if (alignment >= 16384) {  // the area is small
        EXPECT_TRUE(a.free(heap, p));
      } else {
        blocks.push_back(p);
      }
    }
  }
  for (void *p : blocks) EXPECT_TRUE(a.free(heap, p));
  EXPECT_EQ(a.aligned_alloc(heap, 0, 10), nullptr);
  EXPECT_EQ(a.aligned_alloc(heap, 48, 10), nullptr);
  EXPECT_EQ(a.aligned_alloc(heap, SIZE_MAX / 2 + 1, 10), nullptr);
}

TEST_P(Algorithm, areas_of_every_size_and_skew_are_used_or_refused) {
  size_t used = 0;
  for (size_t bytes = 0; bytes < 20000; bytes += bytes < 600 ? 1 : 37) {
    for (size_t skew : {0, 1, 8, 13}) {
      Memory small(bytes, skew);
      void *h = a.init(small.start(), bytes);
      if (!h) continue;
      used++;
      ASSERT_STREQ(a.check(h), nullptr) << bytes;
      std::vector<char *> blocks;
      while (void *p = a.malloc(h, 20)) {
        ASSERT_TRUE(small.has(p, a.usable_size(h, p))) << bytes;
        memset(p, 0x5a, a.usable_size(h, p));
        blocks.push_back(static_cast<char *>(p));
      }
      ASSERT_STREQ(a.check(h), nullptr) << bytes;
      ASSERT_TRUE(small.guards_hold()) << bytes << " " << skew;
      algorithm_usage usage = a.usage(h);
      EXPECT_LE(usage.control + usage.area, bytes);
      EXPECT_LE(usage.live, usage.reached);
      EXPECT_LE(usage.reached, usage.area);
    }
  }
  EXPECT_GT(used, 100u);
  EXPECT_EQ(a.init(nullptr, 1 << 20), nullptr);
}

TEST_P(Algorithm, exhaustion_ends_with_null_and_frees_give_all_back) {
  size_t before = largest();
  std::vector<void *> blocks;
  while (void *p = a.malloc(heap, 1000)) blocks.push_back(p);
  EXPECT_GT(blocks.size(), 450u);  // binary buddy takes 1024 for the 1008 or 1016
  EXPECT_EQ(a.malloc(heap, 1000), nullptr);
  for (void *p : blocks) EXPECT_TRUE(a.free(heap, p));
  EXPECT_EQ(largest(), before);
  EXPECT_EQ(a.usage(heap).live, 0u);
}

TEST_P(Algorithm, second_free_and_wrong_addresses_are_seen) {
  char *p = get(200), *q = get(200), *r = get(30), *s = get(30);
  EXPECT_FALSE(a.free(heap, p + 4));
  EXPECT_TRUE(a.free(heap, p));
  EXPECT_FALSE(a.free(heap, p));
  EXPECT_TRUE(a.free(heap, q));  // joined with p
  EXPECT_FALSE(a.free(heap, q));
  EXPECT_TRUE(a.free(heap, r));
  EXPECT_FALSE(a.free(heap, r));
  EXPECT_TRUE(a.free(heap, s));
  EXPECT_FALSE(a.free(heap, s));
  EXPECT_FALSE(a.free(heap, r));
  char *t = static_cast<char *>(a.aligned_alloc(heap, 512, 100));
  EXPECT_TRUE(a.free(heap, t));
  EXPECT_FALSE(a.free(heap, t));
  EXPECT_STREQ(a.check(heap), nullptr);
}

TEST_P(Algorithm, realloc_keeps_contents_and_gives_memory_back) {
  size_t before = largest();
  Held h{get(100), 100, 9};
  fill(h);
  for (size_t size : {101, 5000, 300, 299, 1, 60000, 40}) {
    char *moved = static_cast<char *>(a.realloc(heap, h.address, size));
    ASSERT_NE(moved, nullptr);
    h.address = moved;
    EXPECT_TRUE(intact(h, std::min(size, h.size))) << size;
    ASSERT_STREQ(a.check(heap), nullptr) << size;
    h.size = size;
    fill(h);
  }
  EXPECT_LT(a.usage(heap).live, 200u);
  void *zero = a.realloc(heap, h.address, 0);
  ASSERT_NE(zero, nullptr);
  EXPECT_TRUE(a.free(heap, zero));
  EXPECT_EQ(largest(), before);
}

TEST_P(Algorithm, check_sees_overwritten_headers) {
  char *p = get(100), *q = get(100), *r = get(100);
  a.free(heap, q);
  for (char *block : {p, r}) {
    char saved[ALGORITHM_HEADER];
    memcpy(saved, block - ALGORITHM_HEADER, sizeof saved);
    memset(block - ALGORITHM_HEADER, 0x7e, sizeof saved);
    EXPECT_NE(a.check(heap), nullptr);
    memcpy(block - ALGORITHM_HEADER, saved, sizeof saved);
    EXPECT_STREQ(a.check(heap), nullptr);
  }
}

TEST_P(Algorithm, check_sees_overwritten_links) {
  std::vector<char *> blocks;
  for (int i = 0; i < 6; i++) blocks.push_back(get(3000));
  a.free(heap, blocks[1]);
  a.free(heap, blocks[3]);
  void *saved[2];
  memcpy(saved, blocks[3], sizeof saved);
  void *wrong[2] = {blocks[5], blocks[5]};
  memcpy(blocks[3], wrong, sizeof wrong);
  EXPECT_NE(a.check(heap), nullptr);
  memcpy(blocks[3], saved, sizeof saved);
  EXPECT_STREQ(a.check(heap), nullptr);
}

TEST_P(Algorithm, reached_is_the_highest_end_so_far) {
  EXPECT_EQ(a.usage(heap).reached, 0u);
  char *first = get(100);
  size_t one = a.usage(heap).reached;
  EXPECT_GE(one, 100u);
  EXPECT_LE(one, 256u);
  char *second = get(1000);
  size_t two = a.usage(heap).reached;
  EXPECT_GE(two, 1100u);
  EXPECT_LE(two, 3 * 1024u);
  a.free(heap, second);
  a.free(heap, first);
  EXPECT_EQ(a.usage(heap).reached, two);
  get(100);
  EXPECT_EQ(a.usage(heap).reached, two);
}

// Random operations against a model; `check` at first after each, then after every 64th.
TEST_P(Algorithm, random_operations_against_a_model) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    Random random(seed);
    Memory area(seed % 2 ? 1 << 18 : 3 << 20, seed);
    void *h = a.init(area.start(), area.size());
    ASSERT_NE(h, nullptr);
    std::vector<Held> held;
    size_t most = seed % 3 == 0 ? 200 : seed % 3 == 1 ? 3000 : 30000, failed = 0;
    auto size = [&] { return size_t(random() % 4 ? random() % (most / 8) : random() % most); };
    for (int step = 0; step < 30000; step++) {
      unsigned what = unsigned(random() % 100), target = 50 + 3 * unsigned(step / 3000 % 10);
      if (held.empty() || (what < 45 && held.size() < target * 8)) {
        Held n{nullptr, size(), uint8_t(random())};
        if (what < 5) {
          size_t alignment = size_t(1) << (random() % 11);
          n.address = static_cast<char *>(a.aligned_alloc(h, alignment, n.size));
          ASSERT_EQ(reinterpret_cast<uintptr_t>(n.address) % alignment, 0u);
        } else {
          n.address = static_cast<char *>(a.malloc(h, n.size));
        }
        if (!n.address) {
          failed++;
        } else {
          ASSERT_TRUE(area.has(n.address, n.size));
          ASSERT_GE(a.usable_size(h, n.address), n.size);
          fill(n);
          held.push_back(n);
        }
      } else {
        size_t i = random() % held.size();
        ASSERT_TRUE(intact(held[i], held[i].size)) << "seed " << seed << " step " << step;
        if (what < 60) {
          size_t wanted = size();
          char *moved = static_cast<char *>(a.realloc(h, held[i].address, wanted));
          if (moved) {
            Held old = held[i];
            held[i] = {moved, wanted, uint8_t(random())};
            ASSERT_TRUE(intact({moved, old.size, old.seed}, std::min(old.size, wanted)));
            ASSERT_GE(a.usable_size(h, moved), wanted);
            fill(held[i]);
          }
        } else {
          ASSERT_TRUE(a.free(h, held[i].address));
          held[i] = held.back();
          held.pop_back();
        }
      }
      if (step < 1000 || step % 64 == 0) ASSERT_STREQ(a.check(h), nullptr) << "seed " << seed << " step " << step;
    }
    ASSERT_TRUE(area.guards_hold());
    if (most == 30000 && seed % 2) EXPECT_GT(failed, 0u) << "the small area was meant to be exhausted at times";
    for (const Held &b : held) {
      ASSERT_TRUE(intact(b, b.size));
      ASSERT_TRUE(a.free(h, b.address));
    }
    ASSERT_STREQ(a.check(h), nullptr);
    EXPECT_EQ(a.usage(h).live, 0u);
  }
}

TEST_P(Algorithm, random_frees_coalesce_to_what_a_new_heap_has) {
  Random random(7);
  size_t before = a.usage(heap).free_largest;
  std::vector<void *> blocks;
  while (void *p = a.malloc(heap, random() % 500)) blocks.push_back(p);
  EXPECT_LT(a.usage(heap).free_largest, before);
  std::shuffle(blocks.begin(), blocks.end(), random);
  for (void *p : blocks) ASSERT_TRUE(a.free(heap, p));
  // Deferred coalescing happens when a request cannot be served: the largest one that a new heap can.
  Memory other(memory.size());
  void *fresh = a.init(other.start(), other.size());
  size_t low = 0, high = memory.size();
  while (low < high) {
    size_t middle = (low + high + 1) / 2;
    void *p = a.malloc(fresh, middle);
    if (p)
      low = middle;
    else
      high = middle - 1;
    a.free(fresh, p);
  }
  void *whole = a.malloc(heap, low);
  ASSERT_NE(whole, nullptr) << low;
  a.free(heap, whole);
  EXPECT_EQ(a.usage(heap).free_largest, before);
}

std::vector<const algorithm *> all() {
  std::vector<const algorithm *> list;
  for (const algorithm *const *a = algorithms_all(); *a; a++) list.push_back(*a);
  return list;
}

INSTANTIATE_TEST_SUITE_P(all, Algorithm, ::testing::ValuesIn(all()), [](const auto &info) {
  std::string name = info.param->name;
  for (char &c : name) {
    if (!isalnum(c)) c = '_';
  }
  return name;
});

TEST(Registry, has_the_allocators_of_the_papers) {
  EXPECT_EQ(all().size(), 8u);
  EXPECT_EQ(algorithms_find("worst-fit"), nullptr);
  EXPECT_EQ(algorithms_find(""), nullptr);
}

// The policies themselves: holes of 400, 200 and 300 bytes, freed in this order; a request of 190.
class Policy : public ::testing::Test {
 protected:
  // Which hole the request number `after` + 1 takes; 0: none of them.
  int hole_taken(const char *name, int after = 0) {
    const algorithm *a = algorithms_find(name);
    Memory memory(1 << 16);
    void *h = a->init(memory.start(), memory.size());
    char *hole[3];
    size_t sizes[3] = {400, 200, 300};
    for (int i = 0; i < 3; i++) {
      hole[i] = static_cast<char *>(a->malloc(h, sizes[i]));
      a->malloc(h, 100);
    }
    for (char *p : hole) a->free(h, p);
    for (int i = 0; i < after; i++) a->malloc(h, 190);
    void *p = a->malloc(h, 190);
    for (int i = 0; i < 3; i++) {
      if (p == hole[i]) return int(sizes[i]);
    }
    return 0;  // from the end of the area
  }
};

TEST_F(Policy, first_fit_takes_the_last_freed) { EXPECT_EQ(hole_taken("first-fit"), 300); }
TEST_F(Policy, best_fit_takes_the_smallest) { EXPECT_EQ(hole_taken("best-fit"), 200); }
TEST_F(Policy, next_fit_goes_on_behind_the_last) {
  EXPECT_EQ(hole_taken("next-fit"), 0);  // where it stopped: at the area's end
  EXPECT_EQ(hole_taken("next-fit", 1), 400);
  EXPECT_EQ(hole_taken("next-fit", 2), 200);
  EXPECT_EQ(hole_taken("next-fit", 3), 300);
}
TEST_F(Policy, half_fit_takes_none_that_might_not_suffice) { EXPECT_EQ(hole_taken("half-fit"), 300); }
TEST_F(Policy, dlmallocs_take_the_smallest) {
  EXPECT_EQ(hole_taken("dlmalloc-2.7.2"), 200);
  EXPECT_EQ(hole_taken("dlmalloc-2.8.3"), 200);
}
TEST_F(Policy, tlsf_takes_a_good_one) { EXPECT_EQ(hole_taken("tlsf"), 200); }

TEST_F(Policy, binary_buddy_hands_out_powers_of_two) {
  const algorithm *a = algorithms_find("binary-buddy");
  Memory memory(1 << 16);
  void *h = a->init(memory.start(), memory.size());
  for (size_t size : {1, 24, 25, 56, 57, 1000, 1016, 1017}) {
    size_t power = 32;
    while (power < size + ALGORITHM_HEADER) power *= 2;
    EXPECT_EQ(a->usable_size(h, a->malloc(h, size)) + ALGORITHM_HEADER, power) << size;
  }
}

// Small blocks are freed and stay apart until a large request needs their place.
TEST_F(Policy, dlmalloc_272_defers_coalescing) {
  const algorithm *a = algorithms_find("dlmalloc-2.7.2");
  Memory memory(1 << 14);
  void *h = a->init(memory.start(), memory.size());
  std::vector<void *> blocks;
  while (void *p = a->malloc(h, 60)) blocks.push_back(p);
  for (void *p : blocks) a->free(h, p);
  EXPECT_LT(a->usage(h).free_largest, 200u);
  EXPECT_NE(a->malloc(h, 5000), nullptr);
}

}  // namespace
