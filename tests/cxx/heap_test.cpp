// rtm::Heap: containers in heaps of their own, over the system's memory and over a static array.
#include <gtest/gtest.h>

#include <cstdint>
#include <list>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "misuse_recorder.hpp"
#include "rtmalloc/heap.hpp"
#include "rtmalloc/memory_resource.hpp"

namespace {

alignas(rtm::Heap::alignment) std::byte memory[1 << 20];

template <typename Make>
void fill_containers(Make make) {
  rtm::Heap heap = make();
  {
    rtm::memory_resource resource(heap);
    std::pmr::vector<int> numbers(&resource);
    std::pmr::list<std::pmr::string> names(&resource);
    std::pmr::map<int, std::pmr::vector<double>> rows(&resource);
    std::pmr::unordered_map<int, int> table(&resource);
    for (int i = 0; i < 500; ++i) {
      numbers.push_back(i);
      names.emplace_back(100, static_cast<char>('a' + i % 26));
      rows[i % 50].push_back(i);
      table[i] = i;
    }
    EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), 0), 499 * 250);
    EXPECT_EQ(names.back(), std::pmr::string(100, static_cast<char>('a' + 499 % 26)));
    EXPECT_EQ(rows[7].size(), 10u);
    EXPECT_EQ(table.at(499), 499);
    EXPECT_TRUE(heap.contains(numbers.data()) && heap.contains(&names.front()) && heap.contains(rows[3].data()));
    EXPECT_GT(heap.usage().blocks, 1000u);
    EXPECT_EQ(rtm_heap_check(heap.get()), nullptr);
  }
  EXPECT_EQ(heap.usage().blocks, 0u);
}

TEST(Heap, containers_live_in_it) {
  fill_containers([] { return rtm::Heap(); });
}
TEST(Heap, containers_live_in_a_static_array) {
  fill_containers([] { return rtm::Heap(memory, sizeof memory); });
}

TEST(Heap, a_full_array_throws_and_goes_on) {
  rtm::Heap heap(memory, 65536);
  rtm::memory_resource resource(heap);
  std::pmr::list<long> list(&resource);
  EXPECT_THROW(for (;;) list.push_back(1), std::bad_alloc);
  const auto full = list.size();
  EXPECT_GT(full, 1000u);
  list.pop_back();
  EXPECT_NO_THROW(list.push_back(2));
  EXPECT_EQ(list.size(), full);
}

TEST(Heap, limits_throw) {
  rtm::Heap heap;
  rtm_limits limits = {};
  limits.most_held = 10000;
  heap.set_limits(limits);
  rtm::memory_resource resource(heap);
  std::pmr::vector<char> bytes(&resource);
  EXPECT_THROW(bytes.resize(20000), std::bad_alloc);
  EXPECT_EQ(heap.usage().refused, 1u);
  bytes.resize(5000);
  limits = {};
  limits.burst = 1;
  EXPECT_THROW(heap.set_limits(limits), std::invalid_argument);
}

TEST(Heap, alignments_are_kept) {
  rtm::Heap of_system, of_array(memory, sizeof memory);
  for (rtm::Heap *heap : {&of_system, &of_array})
    for (std::size_t alignment = 1; alignment <= 65536; alignment *= 2) {
      void *block = heap->allocate(100, alignment);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u);
      heap->deallocate(block, 100, alignment);
    }
}

TEST(Heap, memory_that_cannot_be_a_heap_throws) {
  EXPECT_THROW(rtm::Heap(memory + 8, 100000), std::invalid_argument);
  EXPECT_THROW(rtm::Heap(memory, 64), std::invalid_argument);
  rtm::Heap heap(memory, 65536);
  EXPECT_THROW(rtm::Heap(memory, sizeof memory), std::invalid_argument);
}

TEST(Heap, ending_in_use_is_reported_and_destroying_is_not) {
  MisuseRecorder recorder;
  {
    rtm::Heap heap(memory, sizeof memory);
    (void)heap.allocate(10);
  }
  EXPECT_EQ(recorder.kinds(), Kinds{rtm::Misuse::ended_in_use});
  rtm::Heap heap(memory, sizeof memory);
  (void)heap.allocate(10);
  heap.destroy();
  EXPECT_EQ(recorder.kinds().size(), 1u);
}

TEST(Heap, a_moved_heap_is_the_same_heap) {
  rtm::Heap from(memory, sizeof memory);
  void *block = from.allocate(10);
  rtm::Heap to(std::move(from));
  EXPECT_TRUE(to.contains(block));
  to.deallocate(block);
}

TEST(Heap, other_threads_free_by_rtm_free) {
  rtm::Heap heap(memory, sizeof memory);
  std::vector<void *> blocks(1000);
  for (void *&block : blocks) block = rtm_heap_malloc(heap.get(), 100);
  std::thread([&] {
    for (void *block : blocks) rtm_free(block);
  }).join();
  rtm_heap_collect(heap.get(), false);
  EXPECT_EQ(heap.usage().blocks, 0u);
}

}  // namespace
