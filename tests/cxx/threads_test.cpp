// Pools and pointers used by several threads at once: every block is with one holder at a time, none is lost. Run under
// ThreadSanitizer and AddressSanitizer too.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "rtmalloc/allocate_shared.hpp"
#include "rtmalloc/atomic_shared_ptr.hpp"
#include "rtmalloc/memory_pool.hpp"
#include "rtmalloc/unique_ptr.hpp"

namespace {

using rtm::PoolMode;
using rtm::RtMemoryPool;
using rtm::RtSharedPtr;
using rtm::RtWeakPtr;

#ifdef UNDER_SANITIZERS
constexpr int rounds = 5000;
#else
constexpr int rounds = 50000;
#endif
constexpr int threads = 4;

void run_in_threads(int count, const std::function<void(int)> &body) {
  std::vector<std::thread> all;
  for (int i = 0; i < count; ++i) all.emplace_back(body, i);
  for (auto &thread : all) thread.join();
}

// Notices if two hold it at once.
struct Exclusive {
  int holder;
  long words[3];
  explicit Exclusive(int its_holder) : holder(its_holder), words{its_holder, its_holder, its_holder} {}
  bool is_of(int thread) const {
    return holder == thread && words[0] == thread && words[1] == thread && words[2] == thread;
  }
};

class SharedModes : public testing::TestWithParam<PoolMode> {};
INSTANTIATE_TEST_SUITE_P(all, SharedModes, testing::Values(PoolMode::lock_free, PoolMode::mutex),
                         [](const auto &instance) {
                           return instance.param == PoolMode::mutex ? "mutex" : "lock_free";
                         });

// Fewer blocks than the threads want, so that the list runs empty again and again: where ABA would show.
TEST_P(SharedModes, no_block_is_with_two_holders_or_lost) {
  RtMemoryPool<Exclusive> pool(6, GetParam(), "contended");
  std::atomic<int> wrong{0};
  run_in_threads(threads, [&](int me) {
    Exclusive *mine[3] = {};
    for (int i = 0; i < rounds; ++i) {
      Exclusive *&slot = mine[i % 3];
      if (slot && !slot->is_of(me)) ++wrong;
      pool.release(slot);
      slot = pool.acquire(me);
    }
    for (Exclusive *object : mine) pool.release(object);
  });
  EXPECT_EQ(wrong, 0);
  const auto after = pool.statistics();
  EXPECT_EQ(after.in_use, 0u);
  EXPECT_LE(after.peak_use, 6u);
  std::vector<Exclusive *> all;
  while (Exclusive *object = pool.acquire(0)) all.push_back(object);
  EXPECT_EQ(all.size(), 6u);
  for (Exclusive *object : all) pool.release(object);
}

TEST_P(SharedModes, growth_while_others_use_the_pool) {
  RtMemoryPool<Exclusive> pool(2, GetParam(), "growing");
  std::atomic<int> wrong{0};
  run_in_threads(threads, [&](int me) {
    if (me == 0) {
      for (int i = 0; i < 20; ++i) {
        pool.grow(3);
        EXPECT_EQ(pool.statistics().capacity, 2u + 3u * (i + 1));
      }
      return;
    }
    for (int i = 0; i < rounds; ++i) {
      Exclusive *object = pool.acquire(me);
      if (object && !object->is_of(me)) ++wrong;
      pool.release(object);
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

// The owner acquires, others return.
TEST(ThreadLocalPool, others_return_to_the_owner) {
  RtMemoryPool<Exclusive> pool(50, true, "owned");
  std::mutex mutex;
  std::deque<Exclusive *> handed;
  std::atomic<bool> done{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i)
    others.emplace_back([&] {
      for (;;) {
        const bool last = done.load();
        Exclusive *object = nullptr;
        {
          const std::lock_guard<std::mutex> lock(mutex);
          if (!handed.empty()) {
            object = handed.front();
            handed.pop_front();
          }
        }
        if (!object && last) return;
        pool.release(object);
      }
    });
  for (int i = 0; i < rounds / 4; ++i) {
    Exclusive *object = pool.acquire(i);
    if (!object) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_TRUE(object->is_of(i));
    if (i % 3 == 0) {
      pool.release(object);
    } else {
      const std::lock_guard<std::mutex> lock(mutex);
      handed.push_back(object);
    }
  }
  done = true;
  for (auto &other : others) other.join();
  EXPECT_EQ(pool.statistics().in_use, 0u);
  std::vector<Exclusive *> all;
  while (Exclusive *object = pool.acquire(0)) all.push_back(object);
  EXPECT_EQ(all.size(), 50u);
  for (Exclusive *object : all) pool.release(object);
}

TEST(ThreadLocalPool, can_be_made_here_and_owned_there) {
  RtMemoryPool<int> pool(1, true, "moved");
  std::thread([&] {
    pool.own();
    RtSharedPtr<int> object = pool.sharedPtrAlloc(3);
    EXPECT_EQ(*object, 3);
  }).join();
  pool.own();
  EXPECT_TRUE(pool.sharedPtrAlloc(4));
}

TEST(SharedPtrThreads, the_last_owner_returns_the_object_from_any_thread) {
  for (const PoolMode mode : {PoolMode::owner, PoolMode::lock_free, PoolMode::mutex}) {
    RtMemoryPool<Exclusive> pool(8, mode, "handed over");
    for (int i = 0; i < 50; ++i) {
      RtSharedPtr<Exclusive> first = pool.sharedPtrAlloc(i);
      ASSERT_TRUE(first);
      std::vector<std::thread> all;
      for (int t = 0; t < 2; ++t) all.emplace_back([copy = first, i] { EXPECT_TRUE(copy->is_of(i)); });
      first.reset();
      for (auto &thread : all) thread.join();
    }
    EXPECT_EQ(pool.statistics().in_use, 0u);
  }
}

TEST(SharedPtrThreads, copies_and_weak_locks_of_one_object) {
  RtMemoryPool<Exclusive> pool(1, "one");
  RtSharedPtr<Exclusive> owner = pool.sharedPtrAlloc(1);
  const RtWeakPtr<Exclusive> weak = owner;
  run_in_threads(threads, [&, owner](int) {
    for (int i = 0; i < rounds / 4; ++i) {
      RtSharedPtr<Exclusive> copy = owner;
      RtWeakPtr<Exclusive> observer = copy;
      if (auto locked = weak.lock()) {
        EXPECT_TRUE(locked->is_of(1));
      }
      EXPECT_TRUE(observer.lock());
    }
  });
  EXPECT_EQ(owner.use_count(), 1);
  owner.reset();
  EXPECT_TRUE(weak.expired());
}

// Locking races with the last owner's end: each lock gives the whole object or nothing.
TEST(SharedPtrThreads, weak_locks_race_with_the_end) {
  RtMemoryPool<Exclusive> pool(4, "racing");
  for (int i = 0; i < 200; ++i) {
    RtSharedPtr<Exclusive> owner = pool.sharedPtrAlloc(i);
    ASSERT_TRUE(owner);
    RtWeakPtr<Exclusive> weak = owner;
    std::thread observer([weak, i] {
      while (auto locked = weak.lock()) EXPECT_TRUE(locked->is_of(i));
    });
    owner.reset();
    observer.join();
  }
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

TEST(SharedPtrThreads, one_pointer_through_atomic_functions) {
  RtMemoryPool<Exclusive> pool(16, "atomic");
  std::atomic<RtSharedPtr<Exclusive>> place(pool.sharedPtrAlloc(0));
  run_in_threads(threads, [&](int me) {
    for (int i = 0; i < rounds / 10; ++i) {
      RtSharedPtr<Exclusive> seen = place.load();
      if (seen) {
        EXPECT_TRUE(seen->is_of(seen->holder));
      }
      if (i % 2) {
        place.store(pool.sharedPtrAlloc(me));
      } else {
        place.compare_exchange_weak(seen, pool.sharedPtrAlloc(me));
      }
    }
  });
  place.store(nullptr);
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

TEST(StandardPointers, shared_and_unique_ones_return_from_any_thread) {
  rtm::SharedPool<Exclusive> shared_pool(8, "standard");
  RtMemoryPool<Exclusive> unique_pool(8, "unique");
  run_in_threads(threads, [&](int me) {
    for (int i = 0; i < rounds / 20; ++i) {
      auto shared = rtm::allocate_shared(shared_pool, me);
      auto unique = rtm::make_unique(unique_pool, me);
      std::weak_ptr<Exclusive> weak = shared;
      if (shared) {
        EXPECT_TRUE(shared->is_of(me));
      }
      if (unique) {
        EXPECT_TRUE(unique->is_of(me));
      }
      if (i % 100 == 0)
        std::thread([shared = std::move(shared), unique = std::move(unique), me] {
          if (shared) {
            EXPECT_TRUE(shared->is_of(me));
          }
          if (unique) {
            EXPECT_TRUE(unique->is_of(me));
          }
        }).join();
    }
  });
  EXPECT_EQ(shared_pool.statistics().in_use, 0u);
  EXPECT_EQ(unique_pool.statistics().in_use, 0u);
}

}  // namespace
