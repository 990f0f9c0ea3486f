// rtm::Heap: a heap as an object, over the system's memory or over memory that the program gives, and a source for
// rtm::memory_resource, so that containers live in it.
//
//   alignas(rtm::Heap::alignment) static std::byte memory[1 << 20];
//   rtm::Heap heap(memory, sizeof memory);           // never calls the system
//   rtm::memory_resource resource(heap);
//   std::pmr::map<int, std::pmr::string> names(&resource);
//
// Layer: over rtmalloc.h and misuse.hpp; needs librtmalloc to be linked. docs/heaps.md has the rules.
#ifndef RTMALLOC_HEAP_HPP
#define RTMALLOC_HEAP_HPP

#include <rtmalloc.h>

#include <cerrno>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <utility>

#include "misuse.hpp"

namespace rtm {

// One thread at a time, but for rtm_free of its blocks, which any thread may call. Costs as the rtm_heap_ functions.
class Heap {
 public:
  static constexpr std::size_t alignment = RTM_HEAP_ALIGNMENT;

  // Over the system's memory. Throws std::bad_alloc without memory.
  Heap() : heap_(rtm_heap_new()) {
    if (!heap_) throw std::bad_alloc();
  }
  // Over `bytes` at `memory`. Throws std::invalid_argument if they are too few, misaligned or another heap's; stderr
  // has a line that says which.
  Heap(void *memory, std::size_t bytes) : heap_(rtm_heap_new_in(memory, bytes)) {
    if (!heap_) throw std::invalid_argument("rtm::Heap: this memory cannot be a heap; the line on stderr says why");
  }
  Heap(Heap &&other) noexcept : heap_(std::exchange(other.heap_, nullptr)), out_(std::exchange(other.out_, 0)) {}
  Heap(const Heap &) = delete;
  Heap &operator=(const Heap &) = delete;
  Heap &operator=(Heap &&) = delete;

  // Frees all blocks. What allocate() gave must have come back: containers would be left without their memory.
  // (Misuse::ended_in_use; call destroy() where that is meant.)
  ~Heap() {
    if (!heap_) return;
    if (out_ != 0)
      detail::report_misuse(Misuse::ended_in_use, "heap", heap_,
                            "blocks of it are out: end containers and objects before their heap, or call destroy()");
    rtm_heap_destroy(heap_);
  }
  // Frees all blocks at once, whoever holds them: nobody may use them any more. The heap has ended.
  void destroy() noexcept { rtm_heap_destroy(std::exchange(heap_, nullptr)); }

  // For rtm::memory_resource. allocate throws std::bad_alloc without memory, or over a limit.
  [[nodiscard]] void *allocate(std::size_t bytes, std::size_t align = alignof(std::max_align_t)) {
    void *block = rtm_heap_aligned_alloc(heap_, align, bytes);
    if (__builtin_expect(!block, 0)) throw std::bad_alloc();
    ++out_;
    return block;
  }
  void deallocate(void *block, std::size_t = 0, std::size_t = 0) noexcept {
    rtm_heap_free(heap_, block);
    --out_;
  }

  // Throws std::invalid_argument for limits that are impossible.
  void set_limits(const rtm_limits &limits) {
    if (rtm_heap_set_limits(heap_, &limits) != 0)
      throw std::invalid_argument("rtm::Heap: these limits are impossible; the line on stderr says why");
  }
  rtm_usage usage() const noexcept {
    rtm_usage usage;
    rtm_heap_usage(heap_, &usage);
    return usage;
  }
  bool contains(const void *block) const noexcept { return rtm_heap_contains(heap_, block); }

  // For the C functions. The heap stays its own.
  rtm_heap *get() const noexcept { return heap_; }

 private:
  rtm_heap *heap_;
  std::size_t out_ = 0;  // blocks that allocate() gave and that have not come back
};

}  // namespace rtm

#endif  // RTMALLOC_HEAP_HPP
