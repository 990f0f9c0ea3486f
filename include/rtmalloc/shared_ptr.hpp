// rtm::RtSharedPtr<T>: the interface of std::shared_ptr, in two modes. rtm::RtWeakPtr<T> and
// rtm::enable_shared_from_this<T> are in weak_ptr.hpp, which this includes.
//
//   normal     RtSharedPtr<T>(p), make_shared<T>(…), custom deleters: as std::shared_ptr; the count is on the heap
//   real-time  pool.sharedPtrAlloc(…), or RtSharedPtr(p, count, pool): the count is preallocated in the pool, the last
//              owner returns the object to it from any thread; no heap, no lock
//
// Layer: over reference_count.hpp and heap_count.hpp. memory_pool.hpp is on top.
//
// Semantics, exceptions and thread-safety are std::shared_ptr's (C++17 [util.smartptr.shared]; arrays included):
// different pointers to one object may be used by different threads, one pointer by one thread at a time unless through
// atomic_shared_ptr.hpp. Copying, moving, destroying: O(1), wait-free, plus the object's destructor for the last owner
// and what PoolMode says for its return. lock() is lock-free.
// A weak pointer keeps the block of a pooled object, not the object, as with std::make_shared.
//
// Source: Shen, Hamal, Ganzenmüller, "Dynamic memory allocation on real-time Linux" (2011), sections 3.2 and 4.2.
#ifndef RTMALLOC_SHARED_PTR_HPP
#define RTMALLOC_SHARED_PTR_HPP

#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "heap_count.hpp"
#include "misuse.hpp"
#include "reference_count.hpp"

namespace rtm {

template <typename T>
class RtMemoryPool;
template <typename T>
class RtSharedPtr;
template <typename T>
class RtWeakPtr;
template <typename T>
class enable_shared_from_this;

namespace detail {

struct FreshCount {};  // the count has not started yet
struct OwnedCount {};  // the count has an owner more, which the new pointer takes over
inline constexpr FreshCount fresh_count{};
inline constexpr OwnedCount owned_count{};

// Whether an RtSharedPtr<T> may hold what an RtSharedPtr<Y> holds.
template <typename Y, typename T>
struct IsCompatible : std::is_convertible<Y *, T *> {};
template <typename U, std::size_t n>
struct IsCompatible<U[n], U[]> : std::true_type {};
template <typename U, std::size_t n>
struct IsCompatible<U[n], const U[]> : std::true_type {};

// Whether an RtSharedPtr<T> may be made of a Y*.
template <typename Y, typename T>
struct IsMadeOfPointer : std::is_convertible<Y *, T *> {};
template <typename Y, typename U>
struct IsMadeOfPointer<Y, U[]> : std::is_convertible<Y (*)[], U (*)[]> {};
template <typename Y, typename U, std::size_t n>
struct IsMadeOfPointer<Y, U[n]> : std::is_convertible<Y (*)[n], U (*)[n]> {};

template <typename D, typename P>
inline constexpr bool is_deleter = std::is_invocable_v<D &, P>;

// Deleters that know a preallocated count for their object, as PoolDelete does.
template <typename D, typename P, typename = void>
inline constexpr bool has_preallocated_count = false;
template <typename D, typename P>
inline constexpr bool has_preallocated_count<D, P, std::void_t<decltype(D::count_of(std::declval<P>()))>> = true;

// Finds the base class that wants to know its owner; no overload fits a type without one, or with several.
template <typename U>
const enable_shared_from_this<U> *self_base(const enable_shared_from_this<U> *base) {
  return base;
}
template <typename Y, typename = void>
inline constexpr bool knows_owner = false;
template <typename Y>
inline constexpr bool knows_owner<Y, std::void_t<decltype(self_base(std::declval<Y *>()))>> = true;

}  // namespace detail

template <typename T>
class RtSharedPtr {
  template <typename Y>
  using IfCompatible = std::enable_if_t<detail::IsCompatible<Y, T>::value, int>;
  template <typename Y>
  using IfMadeOf = std::enable_if_t<detail::IsMadeOfPointer<Y, T>::value, int>;

 public:
  using element_type = std::remove_extent_t<T>;
  using weak_type = RtWeakPtr<T>;

  constexpr RtSharedPtr() noexcept = default;
  constexpr RtSharedPtr(std::nullptr_t) noexcept {}

  // ---- normal mode: not for real-time code, as the count comes from the heap ----

  template <typename Y, IfMadeOf<Y> = 0>
  explicit RtSharedPtr(Y *p) : RtSharedPtr(p, detail::DefaultDelete<Y, std::is_array_v<T>>{}) {}

  template <typename Y, typename D, IfMadeOf<Y> = 0, std::enable_if_t<detail::is_deleter<D, Y *>, int> = 0>
  RtSharedPtr(Y *p, D d) : RtSharedPtr(p, std::move(d), std::allocator<void>()) {}

  template <typename Y, typename D, typename A, IfMadeOf<Y> = 0, std::enable_if_t<detail::is_deleter<D, Y *>, int> = 0>
  RtSharedPtr(Y *p, D d, A a) : px_(p), pn_(detail::DeletingCount<Y *, D, A>::make(p, std::move(d), a)) {
    tell_owned(p);
  }

  template <typename D, std::enable_if_t<detail::is_deleter<D, std::nullptr_t>, int> = 0>
  RtSharedPtr(std::nullptr_t p, D d) : RtSharedPtr(p, std::move(d), std::allocator<void>()) {}

  template <typename D, typename A, std::enable_if_t<detail::is_deleter<D, std::nullptr_t>, int> = 0>
  RtSharedPtr(std::nullptr_t p, D d, A a)
      : pn_(detail::DeletingCount<std::nullptr_t, D, A>::make(p, std::move(d), a)) {}

  // From an object of a pool: in real-time mode, with the count that is there already.
  template <typename Y, typename D, IfCompatible<Y> = 0,
            std::enable_if_t<std::is_convertible_v<typename std::unique_ptr<Y, D>::pointer, element_type *>, int> = 0>
  RtSharedPtr(std::unique_ptr<Y, D> &&unique) {
    using Pointer = typename std::unique_ptr<Y, D>::pointer;
    const Pointer p = unique.get();
    if (!p) return;
    px_ = p;
    if constexpr (detail::has_preallocated_count<D, Pointer>) {
      pn_ = D::count_of(p);
      pn_->start_sharing();
    } else if constexpr (std::is_reference_v<D>) {
      auto deleter = std::ref(unique.get_deleter());
      pn_ = make_count_for(unique, p, std::move(deleter));
    } else {
      pn_ = make_count_for(unique, p, std::move(unique.get_deleter()));
    }
    unique.release();
    tell_owned(p);
  }

  // ---- real-time mode ----

  // The paper's: `p` was acquired from `pool`, and `count` is pool->count_of(p). A count of another object, of another
  // pool or one that has owners is reported (Misuse), and the pointer is empty. O(1), wait-free.
  template <typename F, typename U, IfMadeOf<F> = 0>
  explicit RtSharedPtr(F *p, ReferenceCount *count, RtMemoryPool<U> *pool) {
    ReferenceCount *const preallocated = p ? pool->count_of(p) : nullptr;  // reports a wrong pool
    if (!preallocated) return;
    if (count != preallocated)
      detail::report_misuse(Misuse::wrong_pool, pool->name().c_str(), p,
                            "expected the count that was preallocated with p");
    else if (!count->unshared())
      detail::report_misuse(Misuse::shared_twice, pool->name().c_str(), p,
                            "copy the shared pointer that owns it already");
    else
      *this = RtSharedPtr(detail::fresh_count, p, count);
  }

  // ---- both modes ----

  RtSharedPtr(const RtSharedPtr &other) noexcept : px_(other.px_), pn_(other.pn_) { add_owner(); }
  template <typename Y, IfCompatible<Y> = 0>
  RtSharedPtr(const RtSharedPtr<Y> &other) noexcept : px_(other.px_), pn_(other.pn_) {
    add_owner();
  }
  RtSharedPtr(RtSharedPtr &&other) noexcept : px_(other.px_), pn_(other.pn_) { other.forget(); }
  template <typename Y, IfCompatible<Y> = 0>
  RtSharedPtr(RtSharedPtr<Y> &&other) noexcept : px_(other.px_), pn_(other.pn_) {
    other.forget();
  }

  // Aliasing: owns what `other` owns, points to `p`.
  template <typename Y>
  RtSharedPtr(const RtSharedPtr<Y> &other, element_type *p) noexcept : px_(p), pn_(other.pn_) {
    add_owner();
  }
  template <typename Y>
  RtSharedPtr(RtSharedPtr<Y> &&other, element_type *p) noexcept : px_(p), pn_(other.pn_) {
    other.forget();
  }

  // Throws std::bad_weak_ptr if the object is gone.
  template <typename Y, IfCompatible<Y> = 0>
  explicit RtSharedPtr(const RtWeakPtr<Y> &weak) : RtSharedPtr(weak.lock()) {
    if (!pn_) throw std::bad_weak_ptr();
  }

  ~RtSharedPtr() {
    if (pn_) pn_->remove_owner();
  }

  RtSharedPtr &operator=(const RtSharedPtr &other) noexcept {
    RtSharedPtr(other).swap(*this);
    return *this;
  }
  template <typename Y, IfCompatible<Y> = 0>
  RtSharedPtr &operator=(const RtSharedPtr<Y> &other) noexcept {
    RtSharedPtr(other).swap(*this);
    return *this;
  }
  RtSharedPtr &operator=(RtSharedPtr &&other) noexcept {
    RtSharedPtr(std::move(other)).swap(*this);
    return *this;
  }
  template <typename Y, IfCompatible<Y> = 0>
  RtSharedPtr &operator=(RtSharedPtr<Y> &&other) noexcept {
    RtSharedPtr(std::move(other)).swap(*this);
    return *this;
  }
  template <typename Y, typename D, IfCompatible<Y> = 0>
  RtSharedPtr &operator=(std::unique_ptr<Y, D> &&unique) {
    RtSharedPtr(std::move(unique)).swap(*this);
    return *this;
  }

  void swap(RtSharedPtr &other) noexcept {
    std::swap(px_, other.px_);
    std::swap(pn_, other.pn_);
  }
  void reset() noexcept {
    ReferenceCount *const count = pn_;
    forget();
    if (count) count->remove_owner();
  }
  template <typename Y, typename... More, IfMadeOf<Y> = 0>
  void reset(Y *p, More... more) {
    RtSharedPtr(p, std::move(more)...).swap(*this);
  }

  element_type *get() const noexcept { return px_; }
  std::add_lvalue_reference_t<element_type> operator*() const noexcept {
    static_assert(!std::is_array_v<T>, "rtm::RtSharedPtr: an array has no operator*; use []");
    return *px_;
  }
  element_type *operator->() const noexcept {
    static_assert(!std::is_array_v<T>, "rtm::RtSharedPtr: an array has no operator->; use []");
    return px_;
  }
  std::add_lvalue_reference_t<element_type> operator[](std::ptrdiff_t i) const {
    static_assert(std::is_array_v<T>, "rtm::RtSharedPtr: only an array has operator[]");
    return px_[i];
  }
  explicit operator bool() const noexcept { return px_ != nullptr; }

  long use_count() const noexcept { return pn_ ? pn_->use_count() : 0; }
  bool unique() const noexcept { return use_count() == 1; }
  template <typename Y>
  bool owner_before(const RtSharedPtr<Y> &other) const noexcept {
    return std::less<ReferenceCount *>()(pn_, other.pn_);
  }
  template <typename Y>
  bool owner_before(const RtWeakPtr<Y> &other) const noexcept {
    return std::less<ReferenceCount *>()(pn_, other.pn_);
  }

  // Whether the object returns to a pool: real-time mode. O(1).
  bool pooled() const noexcept { return pn_ && pn_->pooled(); }

  // ---- for the pools and functions of this library ----

  template <typename Y>
  RtSharedPtr(detail::FreshCount, Y *p, ReferenceCount *count) noexcept : px_(p), pn_(count) {
    pn_->start_sharing();
    tell_owned(p);
  }
  RtSharedPtr(detail::OwnedCount, element_type *p, ReferenceCount *count) noexcept : px_(p), pn_(count) {}
  void *deleter(const std::type_info &type) const noexcept { return pn_ ? pn_->deleter(type) : nullptr; }

 private:
  template <typename Y>
  friend class RtSharedPtr;
  template <typename Y>
  friend class RtWeakPtr;

  void add_owner() noexcept {
    if (pn_) pn_->add_owner();
  }
  void forget() noexcept {
    px_ = nullptr;
    pn_ = nullptr;
  }

  // Without memory the unique pointer must keep its object, so nothing deletes it here.
  template <typename Unique, typename P, typename D>
  static ReferenceCount *make_count_for(Unique &, P p, D &&deleter) {
    using Count = detail::DeletingCount<P, std::decay_t<D>, std::allocator<void>>;
    std::allocator<Count> allocator;
    Count *count = allocator.allocate(1);
    ::new (static_cast<void *>(count)) Count(p, std::forward<D>(deleter), std::allocator<void>());
    count->start_sharing();
    return count;
  }

  // Lets an object that is an enable_shared_from_this know.
  template <typename Y>
  void tell_owned([[maybe_unused]] Y *p) const noexcept {
    if constexpr (!std::is_array_v<T> && detail::knows_owner<Y>) {
      if (p) detail::self_base(p)->now_owned(const_cast<std::remove_cv_t<Y> *>(p), pn_);
    }
  }

  element_type *px_ = nullptr;    // the paper's names
  ReferenceCount *pn_ = nullptr;  // null: owns nothing
};

template <typename T>
RtSharedPtr(RtWeakPtr<T>) -> RtSharedPtr<T>;
template <typename T, typename D>
RtSharedPtr(std::unique_ptr<T, D>) -> RtSharedPtr<T>;
template <typename F, typename U>
RtSharedPtr(F *, ReferenceCount *, RtMemoryPool<U> *) -> RtSharedPtr<F>;

}  // namespace rtm

#include "shared_ptr_functions.hpp"
#include "weak_ptr.hpp"

#endif  // RTMALLOC_SHARED_PTR_HPP
