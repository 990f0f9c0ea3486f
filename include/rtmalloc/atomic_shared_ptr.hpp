// Atomic use of one rtm::RtSharedPtr by several threads: the free functions of C++17, and std::atomic of C++20.
//
// Layer: over shared_ptr.hpp and priority_mutex.hpp. Each operation holds one of 16 mutexes with priority inheritance,
// chosen by the pointer's address, for a few instructions; objects are destroyed after it is let go. So the worst time
// is (t_p + t_m) * threads that use the same mutex; the atomic is not lock-free.
#ifndef RTMALLOC_ATOMIC_SHARED_PTR_HPP
#define RTMALLOC_ATOMIC_SHARED_PTR_HPP

#include <atomic>
#include <mutex>

#include "priority_mutex.hpp"
#include "shared_ptr.hpp"

namespace rtm {

namespace detail {

inline PriorityMutex &mutex_for(const void *address) {
  constexpr std::size_t mutexes = 16;
  static PriorityMutex table[mutexes];
  return table[(reinterpret_cast<std::uintptr_t>(address) >> 4) % mutexes];
}

template <typename T>
bool same_owner_and_address(const RtSharedPtr<T> &a, const RtSharedPtr<T> &b) noexcept {
  return a == b && !a.owner_before(b) && !b.owner_before(a);
}

}  // namespace detail

template <typename T>
bool atomic_is_lock_free(const RtSharedPtr<T> *) noexcept {
  return false;
}

template <typename T>
RtSharedPtr<T> atomic_load(const RtSharedPtr<T> *pointer) {
  const std::lock_guard<detail::PriorityMutex> lock(detail::mutex_for(pointer));
  return *pointer;
}

template <typename T>
RtSharedPtr<T> atomic_exchange(RtSharedPtr<T> *pointer, RtSharedPtr<T> desired) {
  const std::lock_guard<detail::PriorityMutex> lock(detail::mutex_for(pointer));
  pointer->swap(desired);
  return desired;
}

template <typename T>
void atomic_store(RtSharedPtr<T> *pointer, RtSharedPtr<T> desired) {
  atomic_exchange(pointer, std::move(desired));
}

// True and *pointer = desired if *pointer has expected's address and owner; else *expected = *pointer. Never fails
// without a reason.
template <typename T>
bool atomic_compare_exchange_strong(RtSharedPtr<T> *pointer, RtSharedPtr<T> *expected, RtSharedPtr<T> desired) {
  RtSharedPtr<T> found;  // ends after the lock does
  const std::lock_guard<detail::PriorityMutex> lock(detail::mutex_for(pointer));
  if (detail::same_owner_and_address(*pointer, *expected)) {
    pointer->swap(desired);
    return true;
  }
  found = *pointer;
  expected->swap(found);
  return false;
}

template <typename T>
bool atomic_compare_exchange_weak(RtSharedPtr<T> *pointer, RtSharedPtr<T> *expected, RtSharedPtr<T> desired) {
  return atomic_compare_exchange_strong(pointer, expected, std::move(desired));
}

// With a memory order: the mutex orders at least as strictly.
template <typename T>
RtSharedPtr<T> atomic_load_explicit(const RtSharedPtr<T> *pointer, std::memory_order) {
  return atomic_load(pointer);
}
template <typename T>
void atomic_store_explicit(RtSharedPtr<T> *pointer, RtSharedPtr<T> desired, std::memory_order) {
  atomic_store(pointer, std::move(desired));
}
template <typename T>
RtSharedPtr<T> atomic_exchange_explicit(RtSharedPtr<T> *pointer, RtSharedPtr<T> desired, std::memory_order) {
  return atomic_exchange(pointer, std::move(desired));
}
template <typename T>
bool atomic_compare_exchange_strong_explicit(RtSharedPtr<T> *pointer, RtSharedPtr<T> *expected, RtSharedPtr<T> desired,
                                             std::memory_order, std::memory_order) {
  return atomic_compare_exchange_strong(pointer, expected, std::move(desired));
}
template <typename T>
bool atomic_compare_exchange_weak_explicit(RtSharedPtr<T> *pointer, RtSharedPtr<T> *expected, RtSharedPtr<T> desired,
                                           std::memory_order, std::memory_order) {
  return atomic_compare_exchange_strong(pointer, expected, std::move(desired));
}

}  // namespace rtm

// As C++20's std::atomic<std::shared_ptr<T>>, for C++17 too.
template <typename T>
struct std::atomic<rtm::RtSharedPtr<T>> {
  using value_type = rtm::RtSharedPtr<T>;
  static constexpr bool is_always_lock_free = false;

  constexpr atomic() noexcept = default;
  atomic(value_type desired) noexcept : pointer_(std::move(desired)) {}
  atomic(const atomic &) = delete;
  atomic &operator=(const atomic &) = delete;

  bool is_lock_free() const noexcept { return false; }
  value_type load(std::memory_order = std::memory_order_seq_cst) const { return rtm::atomic_load(&pointer_); }
  operator value_type() const { return load(); }
  void store(value_type desired, std::memory_order = std::memory_order_seq_cst) {
    rtm::atomic_store(&pointer_, std::move(desired));
  }
  void operator=(value_type desired) { store(std::move(desired)); }
  value_type exchange(value_type desired, std::memory_order = std::memory_order_seq_cst) {
    return rtm::atomic_exchange(&pointer_, std::move(desired));
  }
  bool compare_exchange_strong(value_type &expected, value_type desired, std::memory_order = std::memory_order_seq_cst,
                               std::memory_order = std::memory_order_seq_cst) {
    return rtm::atomic_compare_exchange_strong(&pointer_, &expected, std::move(desired));
  }
  bool compare_exchange_weak(value_type &expected, value_type desired, std::memory_order = std::memory_order_seq_cst,
                             std::memory_order = std::memory_order_seq_cst) {
    return compare_exchange_strong(expected, std::move(desired));
  }

 private:
  value_type pointer_;
};

#endif  // RTMALLOC_ATOMIC_SHARED_PTR_HPP
