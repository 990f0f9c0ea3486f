// The paper's own examples, as printed (section 4), and what it says of pool and pointer.
#include <gtest/gtest.h>

#include <string>

#include "rtmalloc/memory_pool.hpp"

namespace {

using namespace rtm;

struct SomeType {
  int x = 0;
};

TEST(Paper, the_usage_of_section_4_1_compiles_as_printed) {
  // clang-format off
//usage
RtMemoryPool<SomeType> memPool
 (100, "MyPool");
RtSharedPtr<SomeType> sptr =
 memPool.sharedPtrAlloc();
  // clang-format on
  EXPECT_TRUE(sptr);
  EXPECT_EQ(memPool.name(), "MyPool");
  EXPECT_EQ(memPool.statistics().capacity, 100u);
}

TEST(Paper, the_constructor_of_section_3_5) {
  int size = 10;
  bool tLocal = true;
  const std::string name = "local";
  RtMemoryPool<SomeType> pool(size, tLocal, name);
  EXPECT_TRUE(pool.sharedPtrAlloc());
}

TEST(Paper, the_constructors_of_section_4_2) {
  RtMemoryPool<SomeType> pool(10, "MyPool");
  SomeType *p = pool.acquire();
  ReferenceCount *count = pool.count_of(p);
  RtSharedPtr<SomeType> real_time(p, count, &pool);
  RtSharedPtr<SomeType> normal(new SomeType);
  EXPECT_TRUE(real_time.pooled());
  EXPECT_FALSE(normal.pooled());
  real_time.reset();
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

// Figures 5 and 6: acquisition takes the head block, a returned block is the new head.
TEST(Paper, the_list_is_last_in_first_out) {
  RtMemoryPool<SomeType> pool(3, "MyPool");
  auto first = pool.sharedPtrAlloc(), second = pool.sharedPtrAlloc();
  const SomeType *was = first.get();
  first.reset();
  EXPECT_EQ(pool.sharedPtrAlloc().get(), was);
}

// Section 4.1: resources that an object holds are released when its block returns.
TEST(Paper, constructor_and_destructor_of_a_class_are_called) {
  static int alive = 0;
  struct Holder {
    std::string resource = "held";
    Holder() { ++alive; }
    ~Holder() { --alive; }
  };
  RtMemoryPool<Holder> pool(3, "MyPool");
  RtSharedPtr<Holder> holder = pool.sharedPtrAlloc();
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(holder->resource, "held");
  holder.reset();
  EXPECT_EQ(alive, 0);
}

}  // namespace
