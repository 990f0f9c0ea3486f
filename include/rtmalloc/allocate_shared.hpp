// rtm::allocate_shared: std::shared_ptr itself on a pool, for code that cannot change its pointer type.
//
//   rtm::SharedPool<Message> pool(100, "messages");
//   std::shared_ptr<Message> message = rtm::allocate_shared(pool, 42);
//
// Layer: over block_pool.hpp. A block holds the standard library's control block with the object in it; its size is the
// library's secret, so it is found by letting the library ask for one.
#ifndef RTMALLOC_ALLOCATE_SHARED_HPP
#define RTMALLOC_ALLOCATE_SHARED_HPP

#include <memory>
#include <utility>

#include "block_pool.hpp"

namespace rtm {

namespace detail {

// Hands out the one block that it was made with. One pointer large, as ShapeProbe: the library stores a copy in the
// control block, so that both must make it equally large.
template <typename T>
class OneBlock {
 public:
  using value_type = T;
  explicit OneBlock(void *block) noexcept : block_(block) {}
  template <typename U>
  OneBlock(const OneBlock<U> &other) noexcept : block_(other.block_) {}

  T *allocate(std::size_t) noexcept { return static_cast<T *>(block_); }
  void deallocate(T *object, std::size_t) noexcept { BlockPool::give_back(object); }

  template <typename U>
  bool operator==(const OneBlock<U> &other) const noexcept {
    return block_ == other.block_;
  }
  template <typename U>
  bool operator!=(const OneBlock<U> &other) const noexcept {
    return block_ != other.block_;
  }

 private:
  template <typename U>
  friend class OneBlock;
  void *block_;
};

// Notes what is asked for, and serves it from the heap.
template <typename T>
class ShapeProbe {
 public:
  using value_type = T;
  explicit ShapeProbe(BlockShape *seen) noexcept : seen_(seen) {}
  template <typename U>
  ShapeProbe(const ShapeProbe<U> &other) noexcept : seen_(other.seen_) {}

  T *allocate(std::size_t count) {
    *seen_ = {count * sizeof(T), alignof(T)};
    return static_cast<T *>(::operator new(count * sizeof(T), std::align_val_t(alignof(T))));
  }
  void deallocate(T *object, std::size_t) noexcept { ::operator delete(object, std::align_val_t(alignof(T))); }

  template <typename U>
  bool operator==(const ShapeProbe<U> &other) const noexcept {
    return seen_ == other.seen_;
  }
  template <typename U>
  bool operator!=(const ShapeProbe<U> &other) const noexcept {
    return seen_ != other.seen_;
  }

 private:
  template <typename U>
  friend class ShapeProbe;
  BlockShape *seen_;
};
static_assert(sizeof(ShapeProbe<int>) == sizeof(OneBlock<int>), "the control block would have another size");

// Stands in for a T that might not be made from nothing.
template <std::size_t bytes, std::size_t alignment>
struct alignas(alignment) SameShape {
  std::byte content[bytes];
};

}  // namespace detail

// Blocks for std::shared_ptr<T>. Arguments, thread-safety, growth and reports as RtMemoryPool.
template <typename T>
class SharedPool : public BlockPool {
 public:
  explicit SharedPool(std::ptrdiff_t size, std::string_view name = "unnamed", PoolMode mode = PoolMode::lock_free,
                      OnEmpty on_empty = OnEmpty::return_empty)
      : BlockPool(size, control_block_shape(), mode, name, on_empty) {}

 private:
  static BlockShape control_block_shape() {
    using Same = detail::SameShape<sizeof(T), alignof(T)>;
    BlockShape shape{};
    std::allocate_shared<Same>(detail::ShapeProbe<Same>(&shape));
    return shape;
  }
};

// A T made of `args` whose block goes back to the pool with its last owner and weak pointer, from any thread; empty (or
// PoolExhausted, as chosen) if none is left. What the constructor throws is passed on, with the block back in the pool.
// O(1) plus the constructor.
template <typename T, typename... Args>
std::shared_ptr<T> allocate_shared(SharedPool<T> &pool, Args &&...args) {
  void *block = pool.allocate();
  if (!block) return nullptr;
  return std::allocate_shared<T>(detail::OneBlock<T>(block), std::forward<Args>(args)...);
}

}  // namespace rtm

#endif  // RTMALLOC_ALLOCATE_SHARED_HPP
