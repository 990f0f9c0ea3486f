// rtm::RtWeakPtr<T> and rtm::enable_shared_from_this<T>: what observes an object that rtm::RtSharedPtr owns.
//
// Layer: over shared_ptr.hpp, which includes it. Semantics and thread-safety as there. Copying, moving, destroying:
// O(1), wait-free, plus what PoolMode says for a pooled block that returns with its last observer; lock() is lock-free.
#ifndef RTMALLOC_WEAK_PTR_HPP
#define RTMALLOC_WEAK_PTR_HPP

#include "shared_ptr.hpp"

namespace rtm {

template <typename T>
class RtWeakPtr {
  template <typename Y>
  using IfCompatible = std::enable_if_t<detail::IsCompatible<Y, T>::value, int>;

 public:
  using element_type = std::remove_extent_t<T>;

  constexpr RtWeakPtr() noexcept = default;
  RtWeakPtr(const RtWeakPtr &other) noexcept : RtWeakPtr(other.px_, other.pn_) {}
  RtWeakPtr(RtWeakPtr &&other) noexcept { swap(other); }
  // The object may be gone and its class may have virtual bases, so another type's pointer is converted only while
  // owned.
  template <typename Y, IfCompatible<Y> = 0>
  RtWeakPtr(const RtWeakPtr<Y> &other) noexcept : RtWeakPtr(other.lock().get(), other.pn_) {}
  template <typename Y, IfCompatible<Y> = 0>
  RtWeakPtr(RtWeakPtr<Y> &&other) noexcept : px_(other.lock().get()), pn_(other.pn_) {
    other.px_ = nullptr;
    other.pn_ = nullptr;
  }
  template <typename Y, IfCompatible<Y> = 0>
  RtWeakPtr(const RtSharedPtr<Y> &shared) noexcept : RtWeakPtr(shared.px_, shared.pn_) {}
  ~RtWeakPtr() {
    if (pn_) pn_->remove_observer();
  }

  RtWeakPtr &operator=(const RtWeakPtr &other) noexcept {
    RtWeakPtr(other).swap(*this);
    return *this;
  }
  RtWeakPtr &operator=(RtWeakPtr &&other) noexcept {
    RtWeakPtr(std::move(other)).swap(*this);
    return *this;
  }
  template <typename Y, IfCompatible<Y> = 0>
  RtWeakPtr &operator=(const RtWeakPtr<Y> &other) noexcept {
    RtWeakPtr(other).swap(*this);
    return *this;
  }
  template <typename Y, IfCompatible<Y> = 0>
  RtWeakPtr &operator=(RtWeakPtr<Y> &&other) noexcept {
    RtWeakPtr(std::move(other)).swap(*this);
    return *this;
  }
  template <typename Y, IfCompatible<Y> = 0>
  RtWeakPtr &operator=(const RtSharedPtr<Y> &shared) noexcept {
    RtWeakPtr(shared).swap(*this);
    return *this;
  }

  void swap(RtWeakPtr &other) noexcept {
    std::swap(px_, other.px_);
    std::swap(pn_, other.pn_);
  }
  void reset() noexcept { RtWeakPtr().swap(*this); }

  long use_count() const noexcept { return pn_ ? pn_->use_count() : 0; }
  bool expired() const noexcept { return use_count() == 0; }
  // Empty if the object is gone. O(1) a try, lock-free.
  RtSharedPtr<T> lock() const noexcept {
    if (pn_ && pn_->add_owner_if_alive()) return RtSharedPtr<T>(detail::owned_count, px_, pn_);
    return RtSharedPtr<T>();
  }

  template <typename Y>
  bool owner_before(const RtSharedPtr<Y> &other) const noexcept {
    return std::less<ReferenceCount *>()(pn_, other.pn_);
  }
  template <typename Y>
  bool owner_before(const RtWeakPtr<Y> &other) const noexcept {
    return std::less<ReferenceCount *>()(pn_, other.pn_);
  }

 private:
  template <typename Y>
  friend class RtSharedPtr;
  template <typename Y>
  friend class RtWeakPtr;
  template <typename Y>
  friend class enable_shared_from_this;

  RtWeakPtr(element_type *p, ReferenceCount *count) noexcept : px_(p), pn_(count) {
    if (pn_) pn_->add_observer();
  }

  element_type *px_ = nullptr;
  ReferenceCount *pn_ = nullptr;
};

// As std::enable_shared_from_this, for objects that RtSharedPtr owns, in either mode.
template <typename T>
class enable_shared_from_this {
 public:
  // Throws std::bad_weak_ptr if no RtSharedPtr owns the object.
  RtSharedPtr<T> shared_from_this() { return RtSharedPtr<T>(self_); }
  RtSharedPtr<const T> shared_from_this() const { return RtSharedPtr<const T>(self_); }
  RtWeakPtr<T> weak_from_this() noexcept { return self_; }
  RtWeakPtr<const T> weak_from_this() const noexcept { return self_; }

  // For RtSharedPtr: the first owner of `object`, which is this, has come.
  void now_owned(T *object, ReferenceCount *count) const noexcept {
    if (self_.expired()) self_ = RtWeakPtr<T>(object, count);
  }

 protected:
  constexpr enable_shared_from_this() noexcept = default;
  enable_shared_from_this(const enable_shared_from_this &) noexcept {}  // a copy has owners of its own
  enable_shared_from_this &operator=(const enable_shared_from_this &) noexcept { return *this; }
  ~enable_shared_from_this() = default;

 private:
  mutable RtWeakPtr<T> self_;
};

template <typename T>
RtWeakPtr(RtSharedPtr<T>) -> RtWeakPtr<T>;

}  // namespace rtm

#endif  // RTMALLOC_WEAK_PTR_HPP
