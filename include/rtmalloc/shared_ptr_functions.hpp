// The functions around rtm::RtSharedPtr: make_shared, casts, comparison, hashing, ordering by owner, output,
// get_deleter.
//
// Layer: over shared_ptr.hpp, which includes it. All as their namesakes of std (C++17 [util.smartptr.shared]).
#ifndef RTMALLOC_SHARED_PTR_FUNCTIONS_HPP
#define RTMALLOC_SHARED_PTR_FUNCTIONS_HPP

#include <iosfwd>

#include "shared_ptr.hpp"

namespace rtm {

// Normal mode: object and count in one block of the heap. For real-time code: pool.make_shared(…).
template <typename T, typename... Args, std::enable_if_t<!std::is_array_v<T>, int> = 0>
RtSharedPtr<T> make_shared(Args &&...args) {
  auto *count = new detail::InplaceCount<std::remove_cv_t<T>>(std::forward<Args>(args)...);
  return RtSharedPtr<T>(detail::fresh_count, count->object(), count);
}
template <typename T, std::enable_if_t<std::is_array_v<T> && std::extent_v<T> == 0, int> = 0>
RtSharedPtr<T> make_shared(std::size_t count) {
  return RtSharedPtr<T>(new std::remove_extent_t<T>[count]());
}

// The deleter that was given, if it has the type D; else null.
template <typename D, typename T>
D *get_deleter(const RtSharedPtr<T> &pointer) noexcept {
  return static_cast<D *>(pointer.deleter(typeid(D)));
}

template <typename T>
void swap(RtSharedPtr<T> &a, RtSharedPtr<T> &b) noexcept {
  a.swap(b);
}
template <typename T>
void swap(RtWeakPtr<T> &a, RtWeakPtr<T> &b) noexcept {
  a.swap(b);
}

// ---- casts ----

template <typename T, typename U>
RtSharedPtr<T> static_pointer_cast(const RtSharedPtr<U> &pointer) noexcept {
  return RtSharedPtr<T>(pointer, static_cast<typename RtSharedPtr<T>::element_type *>(pointer.get()));
}
template <typename T, typename U>
RtSharedPtr<T> static_pointer_cast(RtSharedPtr<U> &&pointer) noexcept {
  auto *p = static_cast<typename RtSharedPtr<T>::element_type *>(pointer.get());
  return RtSharedPtr<T>(std::move(pointer), p);
}
template <typename T, typename U>
RtSharedPtr<T> const_pointer_cast(const RtSharedPtr<U> &pointer) noexcept {
  return RtSharedPtr<T>(pointer, const_cast<typename RtSharedPtr<T>::element_type *>(pointer.get()));
}
template <typename T, typename U>
RtSharedPtr<T> const_pointer_cast(RtSharedPtr<U> &&pointer) noexcept {
  auto *p = const_cast<typename RtSharedPtr<T>::element_type *>(pointer.get());
  return RtSharedPtr<T>(std::move(pointer), p);
}
template <typename T, typename U>
RtSharedPtr<T> reinterpret_pointer_cast(const RtSharedPtr<U> &pointer) noexcept {
  return RtSharedPtr<T>(pointer, reinterpret_cast<typename RtSharedPtr<T>::element_type *>(pointer.get()));
}
template <typename T, typename U>
RtSharedPtr<T> reinterpret_pointer_cast(RtSharedPtr<U> &&pointer) noexcept {
  auto *p = reinterpret_cast<typename RtSharedPtr<T>::element_type *>(pointer.get());
  return RtSharedPtr<T>(std::move(pointer), p);
}
template <typename T, typename U>
RtSharedPtr<T> dynamic_pointer_cast(const RtSharedPtr<U> &pointer) noexcept {
  auto *p = dynamic_cast<typename RtSharedPtr<T>::element_type *>(pointer.get());
  return p ? RtSharedPtr<T>(pointer, p) : RtSharedPtr<T>();
}
// If the cast fails, `pointer` keeps its object.
template <typename T, typename U>
RtSharedPtr<T> dynamic_pointer_cast(RtSharedPtr<U> &&pointer) noexcept {
  auto *p = dynamic_cast<typename RtSharedPtr<T>::element_type *>(pointer.get());
  return p ? RtSharedPtr<T>(std::move(pointer), p) : RtSharedPtr<T>();
}

// ---- comparison, by address ----

template <typename T, typename U>
bool operator==(const RtSharedPtr<T> &a, const RtSharedPtr<U> &b) noexcept {
  return a.get() == b.get();
}
template <typename T, typename U>
bool operator!=(const RtSharedPtr<T> &a, const RtSharedPtr<U> &b) noexcept {
  return a.get() != b.get();
}
template <typename T, typename U>
bool operator<(const RtSharedPtr<T> &a, const RtSharedPtr<U> &b) noexcept {
  using Common = std::common_type_t<typename RtSharedPtr<T>::element_type *, typename RtSharedPtr<U>::element_type *>;
  return std::less<Common>()(a.get(), b.get());
}
template <typename T, typename U>
bool operator>(const RtSharedPtr<T> &a, const RtSharedPtr<U> &b) noexcept {
  return b < a;
}
template <typename T, typename U>
bool operator<=(const RtSharedPtr<T> &a, const RtSharedPtr<U> &b) noexcept {
  return !(b < a);
}
template <typename T, typename U>
bool operator>=(const RtSharedPtr<T> &a, const RtSharedPtr<U> &b) noexcept {
  return !(a < b);
}

template <typename T>
bool operator==(const RtSharedPtr<T> &a, std::nullptr_t) noexcept {
  return !a;
}
template <typename T>
bool operator==(std::nullptr_t, const RtSharedPtr<T> &b) noexcept {
  return !b;
}
template <typename T>
bool operator!=(const RtSharedPtr<T> &a, std::nullptr_t) noexcept {
  return static_cast<bool>(a);
}
template <typename T>
bool operator!=(std::nullptr_t, const RtSharedPtr<T> &b) noexcept {
  return static_cast<bool>(b);
}
template <typename T>
bool operator<(const RtSharedPtr<T> &a, std::nullptr_t) noexcept {
  return std::less<typename RtSharedPtr<T>::element_type *>()(a.get(), nullptr);
}
template <typename T>
bool operator<(std::nullptr_t, const RtSharedPtr<T> &b) noexcept {
  return std::less<typename RtSharedPtr<T>::element_type *>()(nullptr, b.get());
}
template <typename T>
bool operator>(const RtSharedPtr<T> &a, std::nullptr_t) noexcept {
  return nullptr < a;
}
template <typename T>
bool operator>(std::nullptr_t, const RtSharedPtr<T> &b) noexcept {
  return b < nullptr;
}
template <typename T>
bool operator<=(const RtSharedPtr<T> &a, std::nullptr_t) noexcept {
  return !(nullptr < a);
}
template <typename T>
bool operator<=(std::nullptr_t, const RtSharedPtr<T> &b) noexcept {
  return !(b < nullptr);
}
template <typename T>
bool operator>=(const RtSharedPtr<T> &a, std::nullptr_t) noexcept {
  return !(a < nullptr);
}
template <typename T>
bool operator>=(std::nullptr_t, const RtSharedPtr<T> &b) noexcept {
  return !(nullptr < b);
}

template <typename Char, typename Traits, typename T>
std::basic_ostream<Char, Traits> &operator<<(std::basic_ostream<Char, Traits> &out, const RtSharedPtr<T> &pointer) {
  return out << pointer.get();
}

}  // namespace rtm

// ---- hashing, and ordering by owner: as keys of containers ----

template <typename T>
struct std::hash<rtm::RtSharedPtr<T>> {
  std::size_t operator()(const rtm::RtSharedPtr<T> &pointer) const noexcept {
    return std::hash<typename rtm::RtSharedPtr<T>::element_type *>()(pointer.get());
  }
};

template <typename T>
struct std::owner_less<rtm::RtSharedPtr<T>> {
  template <typename A, typename B>
  bool operator()(const A &a, const B &b) const noexcept {
    return a.owner_before(b);
  }
};
template <typename T>
struct std::owner_less<rtm::RtWeakPtr<T>> : std::owner_less<rtm::RtSharedPtr<T>> {};

#endif  // RTMALLOC_SHARED_PTR_FUNCTIONS_HPP
