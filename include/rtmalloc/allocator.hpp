// rtm::allocator<T>: the standard allocator over rtmalloc's process heap, beside another malloc.
//
//   std::vector<int, rtm::allocator<int>> numbers;
//
// Layer: over rtmalloc.h; needs librtmalloc to be linked. Where librtmalloc.so replaces malloc, std::allocator does the
// same.
#ifndef RTMALLOC_ALLOCATOR_HPP
#define RTMALLOC_ALLOCATOR_HPP

#include <rtmalloc.h>

#include <cstddef>
#include <new>
#include <type_traits>

namespace rtm {

// All are equal: what one allocated, any other frees, in any thread. Costs are rtm_malloc's, or rtm_aligned_alloc's for
// alignments above 16.
template <typename T>
class allocator {
  static_assert((std::is_object_v<T> || std::is_void_v<T>)&&!std::is_const_v<T>,
                "rtm::allocator: T must be an object type and not const, or void to be rebound");

 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using is_always_equal = std::true_type;

  constexpr allocator() noexcept = default;
  template <typename U>
  constexpr allocator(const allocator<U> &) noexcept {}

  // Throws std::bad_array_new_length if the bytes overflow, std::bad_alloc without memory.
  [[nodiscard]] T *allocate(std::size_t count) {
    std::size_t bytes;
    if (__builtin_mul_overflow(count, sizeof(T), &bytes)) throw std::bad_array_new_length();
    void *block = alignof(T) <= alignof(std::max_align_t) ? rtm_malloc(bytes) : rtm_aligned_alloc(alignof(T), bytes);
    if (!block) throw std::bad_alloc();
    return static_cast<T *>(block);
  }
  void deallocate(T *object, std::size_t) noexcept { rtm_free(object); }
};

template <typename T, typename U>
constexpr bool operator==(const allocator<T> &, const allocator<U> &) noexcept {
  return true;
}
template <typename T, typename U>
constexpr bool operator!=(const allocator<T> &, const allocator<U> &) noexcept {
  return false;
}

}  // namespace rtm

#endif  // RTMALLOC_ALLOCATOR_HPP
