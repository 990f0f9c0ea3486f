// rtm::BlockPool: preallocated blocks of one size, without a type: what memory resources and allocators stand on.
//
// Layer: over pool_core.hpp. Used by memory_resource.hpp, node_pool.hpp and allocate_shared.hpp.
#ifndef RTMALLOC_BLOCK_POOL_HPP
#define RTMALLOC_BLOCK_POOL_HPP

#include <string>

#include "pool_core.hpp"

namespace rtm {

// What a request for memory looks like.
struct BlockShape {
  std::size_t bytes;
  std::size_t alignment;
};

// Asked for more bytes, or a larger alignment, than a pool's blocks have.
class BlockTooSmall : public std::bad_alloc {
 public:
  BlockTooSmall(std::string_view pool, BlockShape block, BlockShape asked)
      : text_("rtmalloc: pool \"" + std::string(pool) + "\" has blocks of " + text(block) + "; " + text(asked) +
              " were asked for: make the pool for this shape, or give it an upstream resource") {}
  const char *what() const noexcept override { return text_.what(); }

 private:
  static std::string text(BlockShape shape) {
    return std::to_string(shape.bytes) + " bytes aligned to " + std::to_string(shape.alignment);
  }
  std::runtime_error text_;
};

// Modes, thread-safety, growth, reports and costs are RtMemoryPool's.
class BlockPool {
 public:
  // `count` blocks of a shape, whose alignment is a power of two, else std::invalid_argument; else as RtMemoryPool.
  BlockPool(std::ptrdiff_t count, BlockShape shape, PoolMode mode = PoolMode::lock_free,
            std::string_view name = "unnamed", OnEmpty on_empty = OnEmpty::return_empty)
      : shape_(checked(shape, name)),
        core_(new detail::PoolCore(count, shape.bytes, shape.alignment, RawCount::make, mode, on_empty, name)) {}
  ~BlockPool() { core_->end(); }
  BlockPool(const BlockPool &) = delete;
  BlockPool &operator=(const BlockPool &) = delete;

  // ---- real-time ----

  // A block, or null (or PoolExhausted, as chosen) if none is left. O(1).
  void *allocate() {
    void *block = try_allocate();
    if (__builtin_expect(!block, 0) && core_->throws_when_empty()) throw PoolExhausted(core_->name());
    return block;
  }
  // The same, null in any case.
  void *try_allocate() noexcept {
    detail::BlockHeader *block = core_->take();
    if (!block) block = core_->take_otherwise();
    return block ? block->object() : nullptr;
  }

  // Takes back a block of this pool; null does nothing; else reported. O(1). Any thread.
  void deallocate(void *object) noexcept {
    if (!object) return;
    detail::BlockHeader *block = static_cast<detail::BlockHeader *>(object) - 1;
    if (!core_->may_return(block)) return core_->refuse(object);
    core_->put(block);
  }

  // Takes back a block of the pool that it is from, which may have ended: that is reported then. O(1). Any thread.
  static void give_back(void *object) noexcept {
    detail::BlockHeader *block = static_cast<detail::BlockHeader *>(object) - 1;
    if (!block->core->may_return(block)) return block->core->refuse(object);
    block->core->put(block);
  }

  // ---- not real-time: as RtMemoryPool ----

  void grow(std::ptrdiff_t count) { core_->grow(count); }
  void own() noexcept { core_->own(); }
  PoolStatistics statistics() const { return core_->statistics(); }
  const std::string &name() const noexcept { return core_->name(); }
  bool throws_when_empty() const noexcept { return core_->throws_when_empty(); }
  BlockShape shape() const noexcept { return shape_; }

 private:
  // Never shared, so the count stays 0 and nobody calls these.
  struct RawCount final : detail::BlockHeader {
    using BlockHeader::BlockHeader;
    void destroy_object() noexcept override {}
    void give_back() noexcept override {}
    static void make(void *place, detail::PoolCore *core, std::uint32_t index) { ::new (place) RawCount(core, index); }
  };

  static BlockShape checked(BlockShape shape, std::string_view name) {
    if (shape.alignment != 0 && (shape.alignment & (shape.alignment - 1)) == 0) return shape;
    throw std::invalid_argument("rtmalloc: pool \"" + std::string(name) + "\": alignment " +
                                std::to_string(shape.alignment) + "; expected a power of two");
  }

  const BlockShape shape_;
  detail::PoolCore *const core_;
};

}  // namespace rtm

#endif  // RTMALLOC_BLOCK_POOL_HPP
