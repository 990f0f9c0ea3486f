// What pools and pointers say to wrong use, and that nothing is lost or handed out twice after it.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "misuse_recorder.hpp"
#include "rtmalloc/allocate_shared.hpp"
#include "rtmalloc/memory_pool.hpp"
#include "rtmalloc/unique_ptr.hpp"

namespace {

using rtm::Misuse;
using rtm::RtMemoryPool;
using rtm::RtSharedPtr;

// The same pointer, but the compiler does not know whose: it warns of the wrong ones that it sees.
template <typename T>
T *unknown(T *pointer) {
  asm volatile("" : "+r"(pointer));
  return pointer;
}

// All objects of a pool, each once: acquired, counted, released.
template <typename T>
void expect_whole(RtMemoryPool<T> &pool, std::size_t free_objects) {
  std::set<T *> all;
  while (T *object = pool.acquire()) EXPECT_TRUE(all.insert(object).second) << "handed out twice";
  EXPECT_EQ(all.size(), free_objects);
  for (T *object : all) pool.release(object);
}

TEST(Misuse, a_block_of_another_pool_is_refused) {
  MisuseRecorder recorder;
  RtMemoryPool<int> mine(3, "mine"), other(3, "other");
  int *object = other.acquire(5);
  mine.release(object);
  EXPECT_EQ(recorder.kinds(), Kinds{Misuse::wrong_pool});
  EXPECT_EQ(recorder.last_pool(), "mine");
  EXPECT_EQ(*object, 5);
  EXPECT_EQ(mine.count_of(object), nullptr);
  other.release(object);
  expect_whole(mine, 3);
  expect_whole(other, 3);
}

TEST(Misuse, a_block_of_the_heap_or_the_stack_is_refused) {
  MisuseRecorder recorder;
  RtMemoryPool<long> pool(3, "mine");
  long frame[16] = {};
  pool.release(unknown(&frame[8]));
  auto heap = std::make_unique<long[]>(16);
  pool.release(unknown(&heap[8]));
  auto one = std::make_unique<long>(1);
  pool.release(unknown(one.get()));
  EXPECT_EQ(recorder.kinds(), (Kinds{Misuse::wrong_pool, Misuse::wrong_pool, Misuse::wrong_pool}));
  expect_whole(pool, 3);
}

TEST(Misuse, a_pointer_into_an_object_is_refused) {
  MisuseRecorder recorder;
  struct Two {
    long padding[8];
  };
  RtMemoryPool<Two> pool(3, "mine");
  Two *object = pool.acquire();
  pool.release(reinterpret_cast<Two *>(&object->padding[5]));
  EXPECT_EQ(recorder.kinds(), Kinds{Misuse::wrong_pool});
  pool.release(object);
  expect_whole(pool, 3);
}

TEST(Misuse, a_double_return_is_refused_in_every_mode) {
  for (const auto mode : {rtm::PoolMode::owner, rtm::PoolMode::lock_free, rtm::PoolMode::mutex}) {
    MisuseRecorder recorder;
    RtMemoryPool<int> pool(3, mode, "twice");
    int *a = pool.acquire(), *b = pool.acquire();
    pool.release(a);
    pool.release(a);
    pool.release(b);
    pool.release(a);
    EXPECT_EQ(recorder.kinds(), (Kinds{Misuse::double_return, Misuse::double_return}));
    expect_whole(pool, 3);
  }
}

TEST(Misuse, the_destructor_does_not_run_for_a_refused_return) {
  struct Counted {
    int *ended;
    ~Counted() { ++*ended; }
  };
  MisuseRecorder recorder;
  int ended = 0;
  RtMemoryPool<Counted> pool(1), other(1);
  Counted *object = pool.acquire(&ended);
  other.release(object);
  EXPECT_EQ(ended, 0);
  pool.release(object);
  pool.release(object);
  EXPECT_EQ(ended, 1);
}

TEST(Misuse, an_object_with_shared_owners_is_not_returned_by_hand) {
  MisuseRecorder recorder;
  RtMemoryPool<int> pool(2, "shared");
  {
    RtSharedPtr<int> owner = pool.sharedPtrAlloc(9);
    pool.release(owner.get());
    EXPECT_EQ(recorder.kinds(), Kinds{Misuse::returned_while_shared});
    EXPECT_EQ(*owner, 9);
  }
  expect_whole(pool, 2);
}

TEST(Misuse, a_second_independent_owner_is_refused_and_empty) {
  MisuseRecorder recorder;
  RtMemoryPool<int> pool(2, "shared");
  int *object = pool.acquire(1);
  RtSharedPtr<int> first(object, pool.count_of(object), &pool);
  RtSharedPtr<int> second(object, pool.count_of(object), &pool);
  EXPECT_EQ(recorder.kinds(), Kinds{Misuse::shared_twice});
  EXPECT_EQ(first.use_count(), 1);
  EXPECT_FALSE(second);
}

TEST(Misuse, a_count_of_another_object_or_pool_is_refused) {
  MisuseRecorder recorder;
  RtMemoryPool<int> pool(2, "mine"), other(2, "other");
  int *a = pool.acquire(), *b = pool.acquire(), *foreign = other.acquire();
  EXPECT_FALSE(RtSharedPtr<int>(a, pool.count_of(b), &pool));
  EXPECT_FALSE(RtSharedPtr<int>(a, nullptr, &pool));
  EXPECT_FALSE(RtSharedPtr<int>(foreign, other.count_of(foreign), &pool));
  EXPECT_EQ(recorder.kinds(), (Kinds{Misuse::wrong_pool, Misuse::wrong_pool, Misuse::wrong_pool}));
  pool.release(a);
  pool.release(b);
  other.release(foreign);
  expect_whole(pool, 2);
  expect_whole(other, 2);
}

TEST(Misuse, only_the_owner_acquires_from_a_thread_local_pool) {
  MisuseRecorder recorder;
  RtMemoryPool<int> pool(2, true, "local");
  std::thread([&] {
    EXPECT_EQ(pool.acquire(), nullptr);
    EXPECT_EQ(recorder.kinds(), Kinds{Misuse::wrong_thread});
  }).join();
  expect_whole(pool, 2);
}

// ---- the pool's end ----

struct Flagged {
  bool *ended;
  ~Flagged() { *ended = true; }
};

TEST(Misuse, a_pool_that_ends_in_use_says_so_and_keeps_what_is_out_until_it_returns) {
  for (const auto mode : {rtm::PoolMode::owner, rtm::PoolMode::lock_free, rtm::PoolMode::mutex}) {
    MisuseRecorder recorder;
    bool first_ended = false, second_ended = false;
    std::optional<RtMemoryPool<Flagged>> pool(std::in_place, 3, mode, "short-lived");
    auto first = pool->sharedPtrAlloc(&first_ended);
    auto second = pool->sharedPtrAlloc(&second_ended);
    pool.reset();
    EXPECT_EQ(recorder.kinds(), Kinds{Misuse::ended_in_use});
    EXPECT_EQ(recorder.last_pool(), "short-lived");
    EXPECT_FALSE(first_ended);
    EXPECT_EQ(first->ended, &first_ended);
    first.reset();
    EXPECT_TRUE(first_ended);
    std::thread([&] { second.reset(); }).join();
    EXPECT_TRUE(second_ended);
    EXPECT_EQ(recorder.kinds(), (Kinds{Misuse::ended_in_use, Misuse::returned_after_end, Misuse::returned_after_end}));
    EXPECT_EQ(recorder.last_pool(), "short-lived");
  }
}

TEST(Misuse, unique_standard_and_weak_pointers_after_the_pools_end) {
  MisuseRecorder recorder;
  std::optional<RtMemoryPool<int>> pool(std::in_place, 3, "a");
  std::optional<rtm::SharedPool<int>> shared(std::in_place, 3, "b");
  auto unique = rtm::make_unique(*pool, 1);
  rtm::RtWeakPtr<int> weak = pool->sharedPtrAlloc(2);
  auto standard = rtm::allocate_shared(*shared, 3);
  pool.reset();
  shared.reset();
  EXPECT_EQ(recorder.kinds(), (Kinds{Misuse::ended_in_use, Misuse::ended_in_use}));
  EXPECT_EQ(*unique, 1);
  EXPECT_TRUE(weak.expired());
  EXPECT_EQ(*standard, 3);
  unique.reset();
  weak.reset();
  standard.reset();
  EXPECT_EQ(recorder.kinds().size(), 5u);
  EXPECT_EQ(recorder.kinds().back(), Misuse::returned_after_end);
}

TEST(Misuse, a_pool_whose_construction_fails_leaves_nothing) {
#ifdef UNDER_SANITIZERS
  GTEST_SKIP() << "a sanitizer's operator new ends the program instead of throwing";
#endif
  struct alignas(64) Large {
    char c[1 << 20];
  };
  // 2^25 blocks of 1 MiB are more than an address space has.
  EXPECT_THROW(RtMemoryPool<Large>(1L << 25, "large"), std::bad_alloc);
}

// ---- without a handler: one line, then the end ----

using MisuseDeathTest = testing::Test;

TEST(MisuseDeathTest, says_what_was_given_what_was_expected_and_what_to_do) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  RtMemoryPool<int> pool(2, "samples"), other(2, "others");
  int *object = pool.acquire();
  EXPECT_DEATH(
      other.release(object),
      "^rtmalloc: error: wrong pool: pool \"others\": 0x[0-9a-f]+: expected an object of this pool; return it to "
      "the pool it is from");
  pool.release(object);
  EXPECT_DEATH(pool.release(object), "error: double return: pool \"samples\": 0x[0-9a-f]+: .*return each object once");
  EXPECT_DEATH(
      {
        RtSharedPtr<int> survivor;
        RtMemoryPool<int> short_lived(1, "short");
        survivor = short_lived.sharedPtrAlloc();
      },
      "error: pool ended in use: pool \"short\": .*let it live longer");
}

}  // namespace
