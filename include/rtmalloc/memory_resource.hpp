// rtm::memory_resource: std::pmr containers on rtmalloc's process heap, on a pool, or on any source of memory.
//
//   rtm::memory_resource heap;                       // rtm_malloc
//   rtm::BlockPool blocks(1000, {64, 16});
//   rtm::memory_resource nodes(blocks);              // blocks of at most 64 bytes; nothing else
//   std::pmr::list<int> list(&nodes);
//
// Layer: over block_pool.hpp and rtmalloc.h; the process heap needs librtmalloc to be linked, the others do not.
#ifndef RTMALLOC_MEMORY_RESOURCE_HPP
#define RTMALLOC_MEMORY_RESOURCE_HPP

#include <rtmalloc.h>

#include <memory_resource>
#include <new>

#include "block_pool.hpp"

namespace rtm {

// Points to its source, which must outlive it. Thread-safe if the source is; cost as the source's, plus one virtual and
// one indirect call. Two are equal if their sources are the same.
class memory_resource final : public std::pmr::memory_resource {
 public:
  // The process heap: rtm_malloc, and rtm_aligned_alloc for alignments above 16. Throws std::bad_alloc without memory.
  memory_resource() noexcept : allocate_(heap_allocate), deallocate_(heap_deallocate) {}

  // A pool: what fits into a block gets a block; PoolExhausted if none is left, so that use stays bounded. What does
  // not fit (bucket arrays of hash tables, maps of deques) goes to `upstream`, or is BlockTooSmall without one.
  explicit memory_resource(BlockPool &pool, std::pmr::memory_resource *upstream = nullptr) noexcept
      : source_(&pool), upstream_(upstream), allocate_(pool_allocate), deallocate_(pool_deallocate) {}

  // Anything with `void *allocate(bytes, alignment)`, which throws std::bad_alloc or gives null without memory, and
  // `void deallocate(void *, bytes, alignment)`: a wrapper of a C heap, of a TLSF area, of a device's memory.
  template <typename Source, typename = decltype(std::declval<Source &>().allocate(std::size_t(), std::size_t()))>
  explicit memory_resource(Source &source) noexcept
      : source_(&source), allocate_(source_allocate<Source>), deallocate_(source_deallocate<Source>) {}

 private:
  using Allocate = void *(*)(const memory_resource &, std::size_t bytes, std::size_t alignment);
  using Deallocate = void (*)(const memory_resource &, void *block, std::size_t bytes, std::size_t alignment);

  void *do_allocate(std::size_t bytes, std::size_t alignment) override {
    void *block = allocate_(*this, bytes, alignment);
    if (__builtin_expect(!block, 0)) throw std::bad_alloc();
    return block;
  }
  void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override {
    deallocate_(*this, block, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
    const auto *same = dynamic_cast<const memory_resource *>(&other);
    return same && same->source_ == source_ && same->upstream_ == upstream_ && same->allocate_ == allocate_;
  }

  static void *heap_allocate(const memory_resource &, std::size_t bytes, std::size_t alignment) {
    return alignment <= alignof(std::max_align_t) ? rtm_malloc(bytes) : rtm_aligned_alloc(alignment, bytes);
  }
  static void heap_deallocate(const memory_resource &, void *block, std::size_t, std::size_t) { rtm_free(block); }

  BlockPool &pool() const noexcept { return *static_cast<BlockPool *>(source_); }
  bool fits(std::size_t bytes, std::size_t alignment) const noexcept {
    return bytes <= pool().shape().bytes && alignment <= pool().shape().alignment;
  }
  static void *pool_allocate(const memory_resource &self, std::size_t bytes, std::size_t alignment) {
    if (!self.fits(bytes, alignment)) {
      if (self.upstream_) return self.upstream_->allocate(bytes, alignment);
      throw BlockTooSmall(self.pool().name(), self.pool().shape(), {bytes, alignment});
    }
    void *block = self.pool().try_allocate();
    if (__builtin_expect(!block, 0)) throw PoolExhausted(self.pool().name());
    return block;
  }
  static void pool_deallocate(const memory_resource &self, void *block, std::size_t bytes, std::size_t alignment) {
    if (self.fits(bytes, alignment))
      self.pool().deallocate(block);
    else if (self.upstream_)
      self.upstream_->deallocate(block, bytes, alignment);
  }

  template <typename Source>
  static void *source_allocate(const memory_resource &self, std::size_t bytes, std::size_t alignment) {
    return static_cast<Source *>(self.source_)->allocate(bytes, alignment);
  }
  template <typename Source>
  static void source_deallocate(const memory_resource &self, void *block, std::size_t bytes, std::size_t alignment) {
    static_cast<Source *>(self.source_)->deallocate(block, bytes, alignment);
  }

  void *source_ = nullptr;
  std::pmr::memory_resource *upstream_ = nullptr;
  Allocate allocate_;
  Deallocate deallocate_;
};

// One for the process, made at first use; for std::pmr::set_default_resource.
inline memory_resource *process_resource() noexcept {
  static memory_resource resource;
  return &resource;
}

}  // namespace rtm

#endif  // RTMALLOC_MEMORY_RESOURCE_HPP
