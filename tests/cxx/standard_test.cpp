// The standard interfaces: every standard container on rtm::allocator, on rtm::memory_resource over the process heap
// and over pools; bounded node-based containers; std::shared_ptr and std::unique_ptr on pools.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <stack>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "rtmalloc/allocate_shared.hpp"
#include "rtmalloc/allocator.hpp"
#include "rtmalloc/memory_resource.hpp"
#include "rtmalloc/node_pool.hpp"
#include "rtmalloc/unique_ptr.hpp"

namespace {

constexpr int many = 500;

// What is put in comes out: fills, copies, moves, erases.
template <typename Container, typename Insert, typename Value>
void exercise(Container container, Insert insert, Value value) {
  for (int i = 0; i < many; ++i) insert(container, i);
  long sum = 0;
  for (const auto &element : container) sum += value(element);
  EXPECT_EQ(sum, long{many} * (many - 1) / 2);
  Container copy(container, container.get_allocator());
  EXPECT_EQ(copy, container);
  Container moved(std::move(copy));
  EXPECT_EQ(moved, container);
  container.clear();
  for (int i = 0; i < many; ++i) insert(container, i);
  EXPECT_EQ(moved, container);
}

const auto push_back = [](auto &c, int i) { c.push_back(i); };
const auto push_front = [](auto &c, int i) { c.push_front(i); };
const auto insert_value = [](auto &c, int i) { c.insert(i); };
const auto insert_pair = [](auto &c, int i) { c.emplace(i, i); };
const auto itself = [](const auto &element) { return element; };
const auto second = [](const auto &element) { return element.second; };

template <typename T>
using A = rtm::allocator<T>;
template <typename T>
using P = std::pmr::polymorphic_allocator<T>;

// Every standard container with the allocator template; `get` makes one.
template <template <typename> class Allocator>
void every_container(Allocator<int> a) {
  using Pair = std::pair<const int, int>;
  exercise(std::vector<int, Allocator<int>>(a), push_back, itself);
  exercise(std::deque<int, Allocator<int>>(a), push_back, itself);
  exercise(std::list<int, Allocator<int>>(a), push_back, itself);
  exercise(std::forward_list<int, Allocator<int>>(a), push_front, itself);
  exercise(std::set<int, std::less<int>, Allocator<int>>(a), insert_value, itself);
  exercise(std::multiset<int, std::less<int>, Allocator<int>>(a), insert_value, itself);
  exercise(std::map<int, int, std::less<int>, Allocator<Pair>>(a), insert_pair, second);
  exercise(std::multimap<int, int, std::less<int>, Allocator<Pair>>(a), insert_pair, second);
  exercise(std::unordered_set<int, std::hash<int>, std::equal_to<int>, Allocator<int>>(a), insert_value, itself);
  exercise(std::unordered_multiset<int, std::hash<int>, std::equal_to<int>, Allocator<int>>(a), insert_value, itself);
  exercise(std::unordered_map<int, int, std::hash<int>, std::equal_to<int>, Allocator<Pair>>(a), insert_pair, second);
  exercise(std::unordered_multimap<int, int, std::hash<int>, std::equal_to<int>, Allocator<Pair>>(a), insert_pair,
           second);

  std::vector<bool, Allocator<bool>> bits(many, true, a);
  EXPECT_EQ(std::count(bits.begin(), bits.end(), true), many);
  std::basic_string<char, std::char_traits<char>, Allocator<char>> text(a);
  for (int i = 0; i < many; ++i) text += "text ";
  EXPECT_EQ(text.size(), 5u * many);
  std::stack<int, std::deque<int, Allocator<int>>> stack(a);
  std::queue<int, std::list<int, Allocator<int>>> queue(a);
  std::priority_queue<int, std::vector<int, Allocator<int>>> ordered(std::less<int>(), a);
  for (int i = 0; i < many; ++i) {
    stack.push(i);
    queue.push(i);
    ordered.push(i);
  }
  EXPECT_EQ(stack.top(), many - 1);
  EXPECT_EQ(queue.front(), 0);
  EXPECT_EQ(ordered.top(), many - 1);
}

TEST(Allocator, serves_every_standard_container) { every_container<A>(A<int>()); }

TEST(MemoryResource, over_the_process_heap_serves_every_standard_container) {
  rtm::memory_resource heap;
  every_container<P>(P<int>(&heap));
  every_container<P>(P<int>(rtm::process_resource()));
}

TEST(MemoryResource, over_a_pool_with_an_upstream_serves_every_standard_container) {
  rtm::BlockPool blocks(4 * many, {64, 16}, rtm::PoolMode::owner, "nodes");
  rtm::memory_resource nodes(blocks, std::pmr::new_delete_resource());
  every_container<P>(P<int>(&nodes));
  EXPECT_EQ(blocks.statistics().in_use, 0u);
  EXPECT_GE(blocks.statistics().peak_use, 2u * many);
}

// Notes what is out, so that a leak or a wrong size shows.
struct CountingSource {
  long bytes_out = 0;
  void *allocate(std::size_t bytes, std::size_t alignment) {
    bytes_out += static_cast<long>(bytes);
    return ::operator new(bytes, std::align_val_t(alignment));
  }
  void deallocate(void *block, std::size_t bytes, std::size_t alignment) {
    bytes_out -= static_cast<long>(bytes);
    ::operator delete(block, std::align_val_t(alignment));
  }
};

TEST(MemoryResource, over_any_source_serves_every_standard_container) {
  CountingSource source;
  {
    rtm::memory_resource resource(source);
    every_container<P>(P<int>(&resource));
    void *block = resource.allocate(100, 8);
    EXPECT_EQ(source.bytes_out, 100);
    resource.deallocate(block, 100, 8);
  }
  EXPECT_EQ(source.bytes_out, 0);
}

TEST(MemoryResource, is_equal_to_those_on_the_same_source_only) {
  rtm::BlockPool a(1, {16, 16}), b(1, {16, 16});
  rtm::memory_resource on_a(a), on_a_too(a), on_b(b), heap, heap_too;
  EXPECT_TRUE(on_a.is_equal(on_a_too));
  EXPECT_FALSE(on_a.is_equal(on_b));
  EXPECT_FALSE(on_a.is_equal(heap));
  EXPECT_TRUE(heap.is_equal(heap_too));
  EXPECT_FALSE(heap.is_equal(*std::pmr::new_delete_resource()));
}

TEST(MemoryResource, keeps_alignments) {
  rtm::memory_resource heap;
  for (std::size_t alignment = 1; alignment <= 8192; alignment *= 2) {
    void *block = heap.allocate(10, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u);
    heap.deallocate(block, 10, alignment);
  }
}

TEST(MemoryResource, over_a_pool_says_why_it_refuses) {
  rtm::BlockPool blocks(1, {32, 16}, rtm::PoolMode::lock_free, "small");
  rtm::memory_resource resource(blocks);
  try {
    static_cast<void>(resource.allocate(33, 8));
    FAIL();
  } catch (const rtm::BlockTooSmall &error) {
    EXPECT_NE(
        std::string(error.what()).find("\"small\" has blocks of 32 bytes aligned to 16; 33 bytes aligned to 8 were"),
        std::string::npos)
        << error.what();
  }
  EXPECT_THROW(static_cast<void>(resource.allocate(8, 64)), rtm::BlockTooSmall);
  void *only = resource.allocate(32, 16);
  EXPECT_THROW(static_cast<void>(resource.allocate(1, 1)), rtm::PoolExhausted);
  resource.deallocate(only, 32, 16);
  EXPECT_THROW(rtm::BlockPool(1, {32, 24}), std::invalid_argument);
  EXPECT_THROW(rtm::BlockPool(1, {32, 0}), std::invalid_argument);
}

TEST(Allocator, of_void_is_for_rebinding) {
  rtm::allocator<void> any;
  std::allocator_traits<rtm::allocator<void>>::rebind_alloc<int> ints(any);
  EXPECT_EQ(std::vector<int>(3, 1).size(), (std::vector<int, rtm::allocator<int>>(3, 1, ints).size()));
}

TEST(Allocator, refuses_what_cannot_be) {
  rtm::allocator<double> allocator;
  EXPECT_THROW(static_cast<void>(allocator.allocate(SIZE_MAX / 4)), std::bad_array_new_length);
  EXPECT_THROW(static_cast<void>(allocator.allocate(SIZE_MAX / 16)), std::bad_alloc);
  struct alignas(256) Aligned {
    char c[256];
  };
  std::vector<Aligned, rtm::allocator<Aligned>> aligned(3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned.data()) % 256, 0u);
}

// ---- bounded containers ----

// Exactly `nodes` elements fit, again and again, and no request beyond the buckets goes elsewhere.
template <typename Container, typename Insert>
void expect_bounded(Insert insert) {
  constexpr int nodes = 50;
  CountingSource elsewhere;
  rtm::memory_resource upstream(elsewhere);
  {
    rtm::NodePool<Container> pool(nodes, "bounded", rtm::PoolMode::owner, &upstream);
    Container container = pool.make_container();
    const long after_making = elsewhere.bytes_out;
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < nodes; ++i) insert(container, i);
      EXPECT_EQ(pool.pool().statistics().in_use, static_cast<std::size_t>(nodes));
      EXPECT_THROW(insert(container, nodes), rtm::PoolExhausted);
      EXPECT_EQ(std::distance(container.begin(), container.end()), nodes);
      container.clear();
      EXPECT_EQ(pool.pool().statistics().in_use, 0u);
    }
    EXPECT_EQ(elsewhere.bytes_out, after_making);
  }
  EXPECT_EQ(elsewhere.bytes_out, 0);
}

TEST(NodePool, bounds_every_node_based_container) {
  expect_bounded<std::pmr::list<int>>(push_back);
  expect_bounded<std::pmr::forward_list<std::string>>([](auto &c, int i) { c.push_front(std::to_string(i)); });
  expect_bounded<std::pmr::set<int>>(insert_value);
  expect_bounded<std::pmr::multiset<int>>(insert_value);
  expect_bounded<std::pmr::map<int, std::string>>([](auto &c, int i) { c.emplace(i, "value"); });
  expect_bounded<std::pmr::multimap<int, double>>(insert_pair);
  expect_bounded<std::pmr::unordered_set<std::string>>([](auto &c, int i) { c.insert(std::to_string(i)); });
  expect_bounded<std::pmr::unordered_multiset<int>>(insert_value);
  expect_bounded<std::pmr::unordered_map<int, int>>(insert_pair);
  expect_bounded<std::pmr::unordered_multimap<std::string, int>>(
      [](auto &c, int i) { c.emplace(std::to_string(i), i); });
}

TEST(NodePool, elements_that_cannot_be_made_from_nothing_bring_a_function) {
  struct Sensor {
    explicit Sensor(int its_channel) : channel(its_channel) {}
    int channel;
    double calibration[20] = {};
  };
  using Sensors = std::pmr::list<Sensor>;
  rtm::NodePool<Sensors> pool(
      3, [](Sensors &c) { c.emplace_back(0); }, "sensors");
  Sensors sensors = pool.make_container();
  for (int i = 0; i < 3; ++i) sensors.emplace_back(i);
  EXPECT_THROW(sensors.emplace_back(3), rtm::PoolExhausted);
  EXPECT_GE(pool.pool().shape().bytes, sizeof(Sensor));
}

TEST(NodePool, containers_may_share_the_nodes) {
  using List = std::pmr::list<int>;
  rtm::NodePool<List> pool(10);
  List a = pool.make_container(), b = pool.make_container();
  for (int i = 0; i < 7; ++i) a.push_back(i);
  for (int i = 0; i < 3; ++i) b.push_back(i);
  EXPECT_THROW(b.push_back(3), rtm::PoolExhausted);
  b.splice(b.end(), a);  // same resource: moves the nodes
  EXPECT_EQ(b.size(), 10u);
}

// ---- std::shared_ptr and std::unique_ptr on pools ----

struct alignas(64) Message {
  int value;
  explicit Message(int given) : value(given) {
    if (given < 0) throw std::runtime_error("negative");
  }
};

TEST(AllocateShared, gives_standard_pointers_whose_blocks_return) {
  rtm::SharedPool<Message> pool(2, "messages");
  for (int i = 0; i < 3; ++i) {
    std::shared_ptr<Message> a = rtm::allocate_shared(pool, i), b = rtm::allocate_shared(pool, i + 1);
    EXPECT_EQ(a->value + b->value, 2 * i + 1);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.get()) % 64, 0u);
    EXPECT_EQ(rtm::allocate_shared(pool, 0), nullptr);
    EXPECT_EQ(pool.statistics().in_use, 2u);
    std::weak_ptr<Message> weak = a;
    a.reset();
    EXPECT_TRUE(weak.expired());
    EXPECT_EQ(pool.statistics().in_use, 2u);  // the weak pointer keeps the block
  }
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

TEST(AllocateShared, a_constructor_that_throws_gives_the_block_back) {
  rtm::SharedPool<Message> pool(1);
  for (int i = 0; i < 3; ++i) EXPECT_THROW(rtm::allocate_shared(pool, -1), std::runtime_error);
  EXPECT_NE(rtm::allocate_shared(pool, 1), nullptr);
}

TEST(AllocateShared, throws_when_exhausted_if_told_so) {
  rtm::SharedPool<Message> pool(1, "one", rtm::PoolMode::owner, rtm::OnEmpty::throw_exception);
  auto only = rtm::allocate_shared(pool, 1);
  EXPECT_THROW(rtm::allocate_shared(pool, 2), rtm::PoolExhausted);
}

TEST(AllocateShared, enable_shared_from_this_of_the_standard_works) {
  struct Self : std::enable_shared_from_this<Self> {};
  rtm::SharedPool<Self> pool(1);
  auto owner = rtm::allocate_shared(pool);
  EXPECT_EQ(owner->shared_from_this(), owner);
}

TEST(UniquePtr, returns_its_object_to_the_pool) {
  rtm::RtMemoryPool<std::string> pool(1, "strings");
  {
    rtm::unique_ptr<std::string> text = rtm::make_unique(pool, "text");
    EXPECT_EQ(*text, "text");
    EXPECT_FALSE(rtm::make_unique(pool, "none left"));
    EXPECT_EQ(sizeof text, sizeof(void *));
  }
  EXPECT_EQ(pool.statistics().in_use, 0u);
  rtm::RtMemoryPool<Message> messages(1);
  EXPECT_THROW(rtm::make_unique(messages, -1), std::runtime_error);
  EXPECT_TRUE(rtm::make_unique(messages, 1));
}

TEST(UniquePtr, of_the_heap_keeps_alignment_and_frees_after_an_exception) {
  rtm::heap_unique_ptr<Message> message = rtm::make_heap_unique<Message>(3);
  EXPECT_EQ(message->value, 3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(message.get()) % 64, 0u);
  EXPECT_THROW(rtm::make_heap_unique<Message>(-1), std::runtime_error);
}

}  // namespace
