// rtm::unique_ptr<T>: a std::unique_ptr whose object goes back to its pool. rtm::heap_unique_ptr<T>: to rtmalloc's
// heap.
//
//   rtm::unique_ptr<Sample> sample = rtm::make_unique(pool, 1.5);
//   rtm::RtSharedPtr<Sample> shared = std::move(sample);         // no heap: takes the preallocated count
//
// Layer: over memory_pool.hpp; the heap's part over rtmalloc.h, which needs librtmalloc to be linked.
#ifndef RTMALLOC_UNIQUE_PTR_HPP
#define RTMALLOC_UNIQUE_PTR_HPP

#include <rtmalloc.h>

#include <memory>

#include "memory_pool.hpp"

namespace rtm {

// The object's header knows its pool, so the deleter is empty and the pointer one word. For this reason it holds
// objects of exactly the type T: a pointer to a base class may not be where the object starts. For those: RtSharedPtr.
template <typename T>
struct PoolDelete {
  // Destroys the object and returns it to its pool. O(1) plus the destructor. Any thread.
  void operator()(T *object) const noexcept {
    detail::BlockHeader *block = header_of(object);
    detail::PoolCore *core = block->core;
    if (!core->may_return(block)) return core->refuse(object);
    object->~T();
    core->put(block);
  }
  // For RtSharedPtr: the count that was preallocated with the object.
  static ReferenceCount *count_of(T *object) noexcept { return header_of(object); }

 private:
  static detail::BlockHeader *header_of(T *object) noexcept {
    return reinterpret_cast<detail::BlockHeader *>(object) - 1;
  }
};

template <typename T>
using unique_ptr = std::unique_ptr<T, PoolDelete<T>>;

// An object of the pool made of `args`; empty, or an exception, as pool.acquire. O(1) plus the constructor.
template <typename T, typename... Args>
unique_ptr<T> make_unique(RtMemoryPool<T> &pool, Args &&...args) {
  return unique_ptr<T>(pool.acquire(std::forward<Args>(args)...));
}

// For objects in memory of rtm_malloc and rtm_aligned_alloc.
template <typename T>
struct HeapDelete {
  void operator()(T *object) const noexcept {
    object->~T();
    rtm_free(object);
  }
};

template <typename T>
using heap_unique_ptr = std::unique_ptr<T, HeapDelete<T>>;

// An object on rtmalloc's process heap. Throws std::bad_alloc, and what the constructor throws. O(1) plus the
// constructor.
template <typename T, typename... Args>
heap_unique_ptr<T> make_heap_unique(Args &&...args) {
  static_assert(std::is_object_v<T> && !std::is_array_v<T>,
                "rtm::make_heap_unique: T must be an object type, no array");
  void *place = rtm_aligned_alloc(alignof(T), sizeof(T));
  if (!place) throw std::bad_alloc();
  try {
    return heap_unique_ptr<T>(detail::construct<T>(place, std::forward<Args>(args)...));
  } catch (...) {
    rtm_free(place);
    throw;
  }
}

}  // namespace rtm

#endif  // RTMALLOC_UNIQUE_PTR_HPP
