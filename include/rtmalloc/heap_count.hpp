// The reference counts of the normal mode: on the heap, as std::shared_ptr's are.
//
// Layer: over reference_count.hpp. Used by shared_ptr.hpp only. Nothing here is for real-time code: each count is
// allocated when the first shared pointer is made, and freed with the last weak one.
#ifndef RTMALLOC_HEAP_COUNT_HPP
#define RTMALLOC_HEAP_COUNT_HPP

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "reference_count.hpp"

namespace rtm::detail {

// What `delete` and `delete[]` do; T as in RtSharedPtr<T>, Y the type that was given.
template <typename Y, bool is_array>
struct DefaultDelete {
  void operator()(Y *pointer) const noexcept {
    static_assert(sizeof(Y) > 0, "rtm::RtSharedPtr: the type is incomplete here, so it cannot be deleted");
    if constexpr (is_array)
      delete[] pointer;
    else
      delete pointer;
  }
};

// For an object that came by pointer, with what ends it. The count itself comes from the allocator.
template <typename Pointer, typename Deleter, typename Allocator>
class DeletingCount final : public ReferenceCount {
  using Rebound = typename std::allocator_traits<Allocator>::template rebind_alloc<DeletingCount>;

 public:
  DeletingCount(Pointer pointer, Deleter &&deleter, const Allocator &allocator) noexcept
      : pointer_(pointer), deleter_(std::move(deleter)), allocator_(allocator) {}

  // With one owner. Calls the deleter and passes the exception on if there is no memory.
  static ReferenceCount *make(Pointer pointer, Deleter deleter, const Allocator &allocator) {
    Rebound rebound(allocator);
    DeletingCount *count;
    try {
      count = std::allocator_traits<Rebound>::allocate(rebound, 1);
    } catch (...) {
      deleter(pointer);
      throw;
    }
    ::new (static_cast<void *>(count)) DeletingCount(pointer, std::move(deleter), allocator);
    count->start_sharing();
    return count;
  }

  void *deleter(const std::type_info &type) noexcept override {
    return type == typeid(Deleter) ? const_cast<std::remove_cv_t<Deleter> *>(std::addressof(deleter_)) : nullptr;
  }

 private:
  void destroy_object() noexcept override { deleter_(pointer_); }
  void give_back() noexcept override {
    Rebound rebound(allocator_);
    this->~DeletingCount();
    std::allocator_traits<Rebound>::deallocate(rebound, this, 1);
  }

  Pointer pointer_;
  Deleter deleter_;
  Allocator allocator_;
};

// Count and object in one block of the heap: what make_shared makes.
template <typename T>
class InplaceCount final : public ReferenceCount {
 public:
  template <typename... Args>
  explicit InplaceCount(Args &&...args) {
    ::new (static_cast<void *>(storage_)) T(std::forward<Args>(args)...);
    start_sharing();
  }
  T *object() noexcept { return std::launder(reinterpret_cast<T *>(storage_)); }

 private:
  void destroy_object() noexcept override { object()->~T(); }
  void give_back() noexcept override { delete this; }

  alignas(T) std::byte storage_[sizeof(T)];
};

}  // namespace rtm::detail

#endif  // RTMALLOC_HEAP_COUNT_HPP
