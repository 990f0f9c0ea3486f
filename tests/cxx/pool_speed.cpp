// How fast pools are beside others': nanoseconds for one acquisition and one return, by 1 to 8 threads. Not a test, as
// times depend on the machine; run by hand:
//
//   pool_speed [milliseconds for each figure, 200]
//
// Each thread holds up to 16 blocks of 64 bytes and replaces one at random. What is local to a thread (thread-local
// pools, unsynchronized resources) has one for each thread, as it would be used. Figures of one row are of interleaved
// runs, the median of five.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <vector>

#include "rtmalloc/memory_pool.hpp"

#if __has_include(<boost/lockfree/detail/freelist.hpp>) && __has_include(<boost/pool/pool_alloc.hpp>)
#include <boost/lockfree/detail/freelist.hpp>
#include <boost/pool/pool_alloc.hpp>
#define HAVE_BOOST 1
#endif

namespace {

struct Block {
  char content[64];
};
constexpr int held_by_each = 16;
constexpr int most_threads = 8;

// ---- sources: made for each run; local() gives what one thread uses ----

template <rtm::PoolMode mode>
struct OurPool {
  std::unique_ptr<rtm::RtMemoryPool<Block>> pool =
      std::make_unique<rtm::RtMemoryPool<Block>>(most_threads * held_by_each, mode);
  void start_thread() { pool->own(); }
  Block *acquire() { return pool->acquire(); }
  void give_back(Block *block) { pool->release(block); }
};

template <typename Resource>
struct PmrPool {
  std::unique_ptr<Resource> resource = std::make_unique<Resource>();
  void start_thread() {}
  Block *acquire() { return static_cast<Block *>(resource->allocate(sizeof(Block), 8)); }
  void give_back(Block *block) { resource->deallocate(block, sizeof(Block), 8); }
};

struct Malloc {
  void start_thread() {}
  Block *acquire() { return static_cast<Block *>(std::malloc(sizeof(Block))); }
  void give_back(Block *block) { std::free(block); }
};

#ifdef HAVE_BOOST
struct BoostFastPool {
  boost::fast_pool_allocator<Block> allocator;
  void start_thread() {}
  Block *acquire() { return allocator.allocate(); }
  void give_back(Block *block) { allocator.deallocate(block); }
};
struct BoostFreelist {
  using List = boost::lockfree::detail::freelist_stack<Block>;
  std::unique_ptr<List> list = std::make_unique<List>(std::allocator<Block>(), most_threads *held_by_each);
  void start_thread() {}
  Block *acquire() { return list->construct<true, true>(); }
  void give_back(Block *block) { list->destruct<true>(block); }
};
#endif

// Nanoseconds of an acquisition and a return, with `threads` at work for this long.
template <typename Source, bool one_for_each_thread>
double nanoseconds(int threads, std::chrono::milliseconds time) {
  std::vector<Source> sources(one_for_each_thread ? static_cast<std::size_t>(threads) : 1);
  std::atomic<bool> go{false}, done{false};
  std::atomic<long> pairs{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      Source &source = sources[one_for_each_thread ? static_cast<std::size_t>(t) : 0];
      if (one_for_each_thread) source.start_thread();
      Block *held[held_by_each];
      for (Block *&block : held) block = source.acquire();
      unsigned state = 1u + static_cast<unsigned>(t);
      long mine = 0;
      while (!go) std::this_thread::yield();
      while (!done.load(std::memory_order_relaxed)) {
        for (int i = 0; i < 100; ++i) {
          state = state * 1664525u + 1013904223u;
          Block *&block = held[state >> 28];
          source.give_back(block);
          block = source.acquire();
          block->content[0] = 1;
        }
        mine += 100;
      }
      for (Block *block : held) source.give_back(block);
      pairs += mine;
    });
  go = true;
  std::this_thread::sleep_for(time);
  done = true;
  for (auto &thread : all) thread.join();
  const int at_work = std::min(threads, static_cast<int>(std::thread::hardware_concurrency()));
  return 1e6 * static_cast<double>(time.count()) * at_work / static_cast<double>(pairs.load());
}

struct Row {
  const char *name;
  std::function<double(int, std::chrono::milliseconds)> measure;
};

}  // namespace

int main(int argc, char **argv) {
  const std::chrono::milliseconds time(argc > 1 ? std::atoi(argv[1]) : 200);
  const std::vector<Row> rows = {
      {"RtMemoryPool, thread-local", nanoseconds<OurPool<rtm::PoolMode::owner>, true>},
      {"RtMemoryPool, lock-free, shared", nanoseconds<OurPool<rtm::PoolMode::lock_free>, false>},
      {"RtMemoryPool, mutex, shared", nanoseconds<OurPool<rtm::PoolMode::mutex>, false>},
      {"std::pmr::unsynchronized_pool_resource, thread-local",
       nanoseconds<PmrPool<std::pmr::unsynchronized_pool_resource>, true>},
      {"std::pmr::synchronized_pool_resource, shared",
       nanoseconds<PmrPool<std::pmr::synchronized_pool_resource>, false>},
#ifdef HAVE_BOOST
      {"boost::lockfree free list, shared", nanoseconds<BoostFreelist, false>},
      {"boost::fast_pool_allocator, shared", nanoseconds<BoostFastPool, false>},
#endif
      {"malloc", nanoseconds<Malloc, false>},
  };
  constexpr int runs = 5;
  std::printf("nanoseconds of one acquisition and one return, per processor\n%-54s", "threads");
  for (int threads = 1; threads <= most_threads; threads *= 2) std::printf("%9d", threads);
  std::printf("\n");
  std::vector<std::vector<double>> medians(rows.size());
  for (int threads = 1; threads <= most_threads; threads *= 2) {
    std::vector<std::vector<double>> times(rows.size());
    for (int run = 0; run < runs; ++run)
      for (std::size_t i = 0; i < rows.size(); ++i) times[i].push_back(rows[i].measure(threads, time));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::sort(times[i].begin(), times[i].end());
      medians[i].push_back(times[i][runs / 2]);
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::printf("%-54s", rows[i].name);
    for (const double median : medians[i]) std::printf("%9.1f", median);
    std::printf("\n");
  }
}
