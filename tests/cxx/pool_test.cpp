// rtm::RtMemoryPool by one thread: what it gives, in every mode, what it does when it is exhausted or grows.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "rtmalloc/memory_pool.hpp"

namespace {

using rtm::OnEmpty;
using rtm::PoolMode;
using rtm::RtMemoryPool;

// Counts its constructions and destructions.
struct Counted {
  static inline int made = 0, ended = 0;
  int value;
  explicit Counted(int given = 7) : value(given) { ++made; }
  ~Counted() { ++ended; }
};

class PoolModes : public testing::TestWithParam<PoolMode> {
 protected:
  void SetUp() override { Counted::made = Counted::ended = 0; }
};
std::string mode_name(const testing::TestParamInfo<PoolMode> &info) {
  const char *const names[] = {"owner", "lock_free", "mutex"};
  return names[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(all, PoolModes, testing::Values(PoolMode::owner, PoolMode::lock_free, PoolMode::mutex),
                         mode_name);

TEST_P(PoolModes, constructors_run_on_acquire_and_destructors_on_release) {
  RtMemoryPool<Counted> pool(3, GetParam());
  EXPECT_EQ(Counted::made, 0);
  Counted *a = pool.acquire(), *b = pool.acquire(42);
  EXPECT_EQ(a->value, 7);
  EXPECT_EQ(b->value, 42);
  EXPECT_EQ(Counted::made, 2);
  pool.release(a);
  EXPECT_EQ(Counted::ended, 1);
  pool.release(b);
  EXPECT_EQ(Counted::ended, 2);
}

TEST_P(PoolModes, blocks_are_last_in_first_out) {
  RtMemoryPool<int> pool(4, GetParam());
  int *a = pool.acquire(), *b = pool.acquire(), *c = pool.acquire();
  pool.release(a);
  pool.release(c);
  pool.release(b);
  EXPECT_EQ(pool.acquire(), b);
  EXPECT_EQ(pool.acquire(), c);
  EXPECT_EQ(pool.acquire(), a);
  for (int *p : {a, b, c}) pool.release(p);
}

TEST_P(PoolModes, fresh_blocks_come_in_order_of_address) {
  RtMemoryPool<int> pool(100, GetParam());
  std::vector<int *> all;
  for (int i = 0; i < 100; ++i) all.push_back(pool.acquire());
  for (int i = 1; i < 100; ++i) EXPECT_LT(all[i - 1], all[i]);
  for (int *p : all) pool.release(p);
}

TEST_P(PoolModes, an_exhausted_pool_gives_null_and_counts_it_and_serves_again_after_a_return) {
  RtMemoryPool<int> pool(2, GetParam());
  int *a = pool.acquire(1), *b = pool.acquire(2);
  EXPECT_EQ(pool.acquire(), nullptr);
  EXPECT_FALSE(pool.sharedPtrAlloc());
  EXPECT_EQ(pool.statistics().failures, 2u);
  pool.release(a);
  EXPECT_EQ(pool.acquire(3), a);
  EXPECT_EQ(*b, 2);
  pool.release(a);
  pool.release(b);
}

TEST_P(PoolModes, an_exhausted_pool_throws_if_told_so_and_names_itself) {
  RtMemoryPool<int> pool(1, GetParam(), "samples", OnEmpty::throw_exception);
  int *a = pool.acquire();
  try {
    pool.acquire();
    FAIL() << "no exception";
  } catch (const std::bad_alloc &error) {
    EXPECT_NE(std::string(error.what()).find("\"samples\" is exhausted"), std::string::npos) << error.what();
  }
  EXPECT_THROW(pool.sharedPtrAlloc(), rtm::PoolExhausted);
  pool.release(a);
  pool.release(pool.acquire());
}

TEST_P(PoolModes, growth_adds_exactly_what_was_asked_for_and_keeps_objects_in_place) {
  RtMemoryPool<int> pool(2, GetParam());
  std::vector<int *> all = {pool.acquire(0), pool.acquire(1)};
  EXPECT_EQ(pool.acquire(), nullptr);
  pool.grow(3);
  for (int i = 2; i < 5; ++i) all.push_back(pool.acquire(i));
  EXPECT_EQ(pool.acquire(), nullptr);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(*all[i], i);
  EXPECT_EQ(pool.statistics().capacity, 5u);
  for (int *p : all) pool.release(p);
}

TEST_P(PoolModes, statistics_hold_before_and_after_growth) {
  RtMemoryPool<double> pool(10, GetParam());
  std::vector<double *> out;
  for (int i = 0; i < 6; ++i) out.push_back(pool.acquire());
  for (int i = 0; i < 4; ++i) {
    pool.release(out.back());
    out.pop_back();
  }
  auto now = pool.statistics();
  EXPECT_EQ(now.capacity, 10u);
  EXPECT_EQ(now.in_use, 2u);
  EXPECT_EQ(now.peak_use, 6u);
  EXPECT_EQ(now.failures, 0u);
  EXPECT_EQ(now.block_bytes, 48u);
  EXPECT_GE(now.memory_bytes, 480u);
  pool.grow(10);
  for (int i = 0; i < 4; ++i) out.push_back(pool.acquire());
  EXPECT_EQ(pool.statistics().peak_use, 6u);
  for (int i = 0; i < 5; ++i) out.push_back(pool.acquire());
  EXPECT_EQ(pool.statistics().peak_use, 11u);
  EXPECT_EQ(pool.statistics().in_use, 11u);
  for (double *p : out) pool.release(p);
  EXPECT_EQ(pool.statistics().in_use, 0u);
  EXPECT_EQ(pool.statistics().peak_use, 11u);
}

TEST_P(PoolModes, a_constructor_that_throws_gives_the_block_back) {
  struct Throws {
    explicit Throws(bool now) {
      if (now) throw std::runtime_error("now");
    }
  };
  RtMemoryPool<Throws> pool(1, GetParam());
  for (int i = 0; i < 3; ++i) EXPECT_THROW(pool.acquire(true), std::runtime_error);
  EXPECT_THROW(pool.sharedPtrAlloc(true), std::runtime_error);
  EXPECT_EQ(pool.statistics().in_use, 0u);
  Throws *object = pool.acquire(false);
  ASSERT_NE(object, nullptr);
  pool.release(object);
}

template <typename T>
void expect_aligned(PoolMode mode) {
  RtMemoryPool<T> pool(5, mode);
  std::vector<T *> all;
  for (int i = 0; i < 5; ++i) {
    all.push_back(pool.acquire());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all.back()) % alignof(T), 0u);
    std::memset(static_cast<void *>(all.back()), 0xA5, sizeof(T));  // a sanitizer sees if it is not all ours
  }
  pool.grow(2);
  for (int i = 0; i < 2; ++i) {
    all.push_back(pool.acquire());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all.back()) % alignof(T), 0u);
  }
  for (T *p : all) pool.release(p);
  EXPECT_EQ(pool.statistics().in_use, 0u);
}
struct alignas(32) By32 {
  char c[40];
};
struct alignas(64) By64 {
  char c;
};
struct alignas(4096) ByPage {
  char c[5000];
};
struct alignas(16384) AbovePage {
  char c;
};

TEST_P(PoolModes, alignments_above_16_and_above_a_page_are_kept) {
  expect_aligned<char>(GetParam());
  expect_aligned<By32>(GetParam());
  expect_aligned<By64>(GetParam());
  expect_aligned<ByPage>(GetParam());
  expect_aligned<AbovePage>(GetParam());
}

TEST_P(PoolModes, more_objects_than_a_chunk_has) {
  const long count = (1L << 20) + 5;
  RtMemoryPool<char> pool(count, GetParam());
  std::vector<char *> all;
  for (long i = 0; i < count; ++i) all.push_back(pool.acquire(static_cast<char>(i)));
  EXPECT_EQ(pool.acquire(), nullptr);
  for (long i = 0; i < count; i += 1001) EXPECT_EQ(*all[i], static_cast<char>(i));
  for (char *p : all) pool.release(p);
  pool.grow(3);
  EXPECT_EQ(pool.statistics().capacity, static_cast<std::size_t>(count) + 3);
}

TEST(Pool, sizes_that_make_no_sense_are_refused_with_a_message) {
  const auto message = [](long size) -> std::string {
    try {
      RtMemoryPool<int> pool(size, "odd");
    } catch (const std::exception &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(0).find("pool \"odd\": size 0 is too small; expected at least 1"), std::string::npos) << message(0);
  EXPECT_NE(message(-5).find("size -5 is too small"), std::string::npos);
  EXPECT_NE(message(1L << 40).find("is too large"), std::string::npos);
  EXPECT_THROW(RtMemoryPool<int>(0), std::invalid_argument);
  EXPECT_THROW(RtMemoryPool<int>(1L << 27), std::length_error);
}

TEST(Pool, growth_that_fails_changes_nothing) {
  RtMemoryPool<int> pool(1);
  EXPECT_THROW(pool.grow(0), std::invalid_argument);
  EXPECT_THROW(pool.grow(-1), std::invalid_argument);
  EXPECT_THROW(pool.grow(1L << 40), std::length_error);
  EXPECT_EQ(pool.statistics().capacity, 1u);
  for (int i = 0; i < 62; ++i) pool.grow(1);
  EXPECT_THROW(pool.grow(1), std::length_error);
  EXPECT_EQ(pool.statistics().capacity, 63u);
  std::vector<int *> all;
  for (int i = 0; i < 63; ++i) all.push_back(pool.acquire(i));
  EXPECT_EQ(pool.acquire(), nullptr);
  for (int i = 0; i < 63; ++i) EXPECT_EQ(*all[i], i);
  for (int *p : all) pool.release(p);
}

TEST(Pool, every_constructor_says_what_it_says) {
  RtMemoryPool<int> a(1), b(1, "name"), c(1, true, "local"), d(1, false, std::string("shared")),
      e(1, PoolMode::mutex, "mutex"), f(1, OnEmpty::throw_exception, "throws"), g(1, true);
  EXPECT_EQ(a.name(), "unnamed");
  EXPECT_EQ(b.name(), "name");
  EXPECT_EQ(c.name(), "local");
  EXPECT_EQ(d.name(), "shared");
  EXPECT_EQ(e.name(), "mutex");
  int *only = f.acquire();
  EXPECT_THROW(f.acquire(), rtm::PoolExhausted);
  f.release(only);
}

TEST(Pool, aggregates_are_made_of_their_members) {
  struct Point {
    int x, y;
  };
  RtMemoryPool<Point> pool(1);
  Point *point = pool.acquire(3, 4);
  EXPECT_EQ(point->x, 3);
  EXPECT_EQ(point->y, 4);
  pool.release(point);
}

TEST(Pool, releasing_null_does_nothing) {
  RtMemoryPool<int> pool(1);
  pool.release(nullptr);
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

}  // namespace
