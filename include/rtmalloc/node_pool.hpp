// rtm::NodePool<Container>: node-based containers whose nodes all come from a pool of exactly N nodes.
//
//   using Sensors = std::pmr::map<int, double>;
//   rtm::NodePool<Sensors> nodes(1000, "sensors");
//   Sensors sensors = nodes.make_container();      // at most 1000 elements; inserting calls no heap
//
// Layer: over memory_resource.hpp. For std::pmr::list, forward_list, map, set, unordered_map, unordered_set and their
// multi-forms. The size of a node is the standard library's secret; it is found by letting a container ask for one.
#ifndef RTMALLOC_NODE_POOL_HPP
#define RTMALLOC_NODE_POOL_HPP

#include <algorithm>
#include <memory_resource>
#include <type_traits>

#include "block_pool.hpp"
#include "memory_resource.hpp"

namespace rtm {

namespace detail {

// Notes the largest request since the last call of forget, and serves it from the heap.
class ShapeRecorder final : public std::pmr::memory_resource {
 public:
  BlockShape seen() const noexcept { return seen_; }
  void forget() noexcept { seen_ = {0, 1}; }

 private:
  void *do_allocate(std::size_t bytes, std::size_t alignment) override {
    seen_ = {std::max(seen_.bytes, bytes), std::max(seen_.alignment, alignment)};
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(block, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

  BlockShape seen_{0, 1};
};

// Inserts one element that is made from nothing.
struct InsertDefault {
  template <typename Container>
  auto operator()(Container &container) const -> decltype(container.emplace_front(), void()) {
    container.emplace_front();
  }
  template <typename Container>
  auto operator()(Container &container) const -> decltype(container.emplace_hint(container.end()), void()) {
    container.emplace_hint(container.end());
  }
};

template <typename Container, typename = void>
inline constexpr bool has_reserve = false;
template <typename Container>
inline constexpr bool has_reserve<Container, std::void_t<decltype(std::declval<Container &>().reserve(1))>> = true;

}  // namespace detail

// The shape of a container's nodes. `insert(container)` inserts one element; without it, an element is made from
// nothing. Elements that allocate from the same resource themselves (std::pmr::string) count only if that element does.
template <typename Container, typename Insert = detail::InsertDefault>
BlockShape node_shape(Insert insert = Insert()) {
  static_assert(std::is_convertible_v<std::pmr::memory_resource *, typename Container::allocator_type>,
                "rtm::NodePool: the container must be one of std::pmr");
  detail::ShapeRecorder recorder;
  Container container(&recorder);
  insert(container);
  container.clear();  // gives the nodes back but keeps a hash table's buckets:
  recorder.forget();  // so the second insertion asks for a node and nothing else
  insert(container);
  return recorder.seen();
}

// N nodes for containers of this type; several containers may share them. Modes and thread-safety as BlockPool: the
// pool may be used by several threads, each container by one at a time. Outlives its containers.
template <typename Container>
class NodePool {
 public:
  // As RtMemoryPool, and for elements that cannot be made from nothing a function that inserts one. What is no node
  // (buckets) comes from `upstream`, when make_container reserves it.
  explicit NodePool(std::ptrdiff_t nodes, std::string_view name = "unnamed", PoolMode mode = PoolMode::lock_free,
                    std::pmr::memory_resource *upstream = std::pmr::new_delete_resource())
      : NodePool(nodes, detail::InsertDefault(), name, mode, upstream) {}

  template <typename Insert, typename = std::enable_if_t<std::is_invocable_v<Insert, Container &>>>
  NodePool(std::ptrdiff_t nodes, Insert insert, std::string_view name = "unnamed", PoolMode mode = PoolMode::lock_free,
           std::pmr::memory_resource *upstream = std::pmr::new_delete_resource())
      : pool_(nodes, node_shape<Container>(insert), mode, name),
        resource_(pool_, detail::has_reserve<Container> ? upstream : nullptr) {}

  // An empty container on this pool; `args` go before the resource. Hash tables get buckets for all nodes now, so that
  // they never rehash. Inserting beyond the nodes throws PoolExhausted and leaves the container as it was.
  template <typename... Args>
  Container make_container(Args &&...args) {
    Container container(std::forward<Args>(args)..., &resource_);
    if constexpr (detail::has_reserve<Container>) container.reserve(pool_.statistics().capacity);
    return container;
  }

  std::pmr::memory_resource *resource() noexcept { return &resource_; }
  BlockPool &pool() noexcept { return pool_; }

 private:
  BlockPool pool_;
  memory_resource resource_;
};

}  // namespace rtm

#endif  // RTMALLOC_NODE_POOL_HPP
