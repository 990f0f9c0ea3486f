// rtm::RtMemoryPool<T>: a typed pool of preallocated objects and their reference counts.
//
//   rtm::RtMemoryPool<Sample> pool(100, "samples");
//   rtm::RtSharedPtr<Sample> shared = pool.sharedPtrAlloc();   // back in the pool with its last owner
//   Sample *sample = pool.acquire(1.5);                        // back by pool.release(sample)
//
// Layer: over pool_core.hpp and shared_ptr.hpp. Header-only: needs C++17, and no library of rtmalloc's.
//
// Source: Shen, Hamal, Ganzenmüller, "Dynamic memory allocation on real-time Linux" (2011), sections 3 and 4.1. Beyond
// the paper: a lock-free mode, returns to a thread-local pool by any thread, growth on request, statistics, checks.
#ifndef RTMALLOC_MEMORY_POOL_HPP
#define RTMALLOC_MEMORY_POOL_HPP

#include <type_traits>
#include <utility>

#include "pool_core.hpp"
#include "shared_ptr.hpp"

namespace rtm {

namespace detail {

// The header of a block whose object is a T: the last shared owner destroys a T and returns the block.
template <typename T>
struct PooledCount final : BlockHeader {
  using BlockHeader::BlockHeader;
  void destroy_object() noexcept override { static_cast<T *>(object())->~T(); }
  void give_back() noexcept override { core->put(this); }

  static void make(void *place, PoolCore *core, std::uint32_t index) { ::new (place) PooledCount(core, index); }
};

template <typename T, typename... Args>
T *construct(void *place, Args &&...args) {
  if constexpr (std::is_constructible_v<T, Args...>)
    return ::new (place) T(std::forward<Args>(args)...);
  else
    return ::new (place) T{std::forward<Args>(args)...};  // an aggregate
}

// Whether a T can be made of these arguments, by a constructor or as an aggregate.
template <typename Void, typename T, typename... Args>
struct IsMadeOf : std::is_constructible<T, Args...> {};
template <typename T, typename... Args>
struct IsMadeOf<std::void_t<decltype(T{std::declval<Args>()...})>, T, Args...> : std::true_type {};

}  // namespace detail

// Blocks for objects of type T, each with a reference count. All memory is taken, and touched, by the constructor and
// by grow; nothing else calls the heap, takes a page fault or makes a system call (the mutex mode may wait in the
// kernel).
//
// Thread-safety: as the mode says (PoolMode in pool_core.hpp). The pool must outlive its objects.
// Memory: per object 32 bytes, sizeof(T), and padding to a multiple of 16 or of T's alignment; the object follows the
// 32 bytes at the next multiple of its alignment.
template <typename T>
class RtMemoryPool {
  static_assert(std::is_object_v<T> && !std::is_array_v<T>, "rtm::RtMemoryPool: T must be an object type and no array");
  static_assert(!std::is_const_v<T> && !std::is_volatile_v<T>, "rtm::RtMemoryPool: T must not be const or volatile");
  static_assert(!std::is_abstract_v<T>, "rtm::RtMemoryPool: T is abstract; make a pool for each derived class");
  static_assert(std::is_nothrow_destructible_v<T>,
                "rtm::RtMemoryPool: T's destructor must be public and noexcept, as the last owner returns the object");

 public:
  using value_type = T;

  // `size` objects, at least 1, else std::invalid_argument; std::length_error for more than 63 * 2^20, std::bad_alloc
  // without memory. The name is for reports. O(size); call it before real-time work starts. The calling thread becomes
  // the owner of a thread-local pool.
  RtMemoryPool(std::ptrdiff_t size, std::string_view name = "unnamed")
      : RtMemoryPool(size, PoolMode::lock_free, name) {}
  RtMemoryPool(std::ptrdiff_t size, PoolMode mode, std::string_view name = "unnamed",
               OnEmpty on_empty = OnEmpty::return_empty)
      : core_(new detail::PoolCore(size, sizeof(T), alignof(T), detail::PooledCount<T>::make, mode, on_empty, name)) {}
  RtMemoryPool(std::ptrdiff_t size, OnEmpty on_empty, std::string_view name = "unnamed")
      : RtMemoryPool(size, PoolMode::lock_free, name, on_empty) {}

  // The paper's (section 3.5): thread-local, or shared. A template, as a name in quotes would become a bool otherwise.
  template <typename Bool, typename = std::enable_if_t<std::is_same_v<Bool, bool>>>
  RtMemoryPool(std::ptrdiff_t size, Bool tLocal, std::string_view name = "unnamed")
      : RtMemoryPool(size, tLocal ? PoolMode::owner : PoolMode::lock_free, name) {}

  // Objects that are out are reported (Misuse::ended_in_use); with a handler, their memory stays until they are
  // returned. Nobody may be in an operation on the pool. O(capacity).
  ~RtMemoryPool() { core_->end(); }

  RtMemoryPool(const RtMemoryPool &) = delete;  // objects point to their pool
  RtMemoryPool &operator=(const RtMemoryPool &) = delete;

  // ---- real-time ----

  // An object made of `args`, or null (or PoolExhausted, as chosen) if none is left. What its constructor throws is
  // passed on, with the block back in the pool. O(1) plus the constructor: at most 25 instructions as owner, 40 shared
  // without contention.
  template <typename... Args>
  T *acquire(Args &&...args) {
    if (detail::BlockHeader *block = core_->take()) return make_object(block, std::forward<Args>(args)...);
    return acquire_otherwise(std::forward<Args>(args)...);
  }

  // Destroys the object and takes the block back. Null does nothing. Reports what is no object of this pool, is free
  // already, or has shared owners, and leaves it alone then. A pointer that no pool made is seen by what lies before
  // it: in an unreadable page, that is a fault. Two threads that return one object at the same instant may not be seen.
  // O(1) plus the destructor: at most 25 instructions as owner, 40 shared without contention. Any thread.
  void release(T *object) noexcept {
    if (!object) return;
    detail::BlockHeader *block = header_of(object);
    if (!core_->may_return(block)) return core_->refuse(object);
    object->~T();
    core_->put(block);
  }
  template <typename Other>
  void release(Other *) = delete;  // another type: of another pool

  // As acquire, owned by a shared pointer, which returns it from any thread. Empty (or PoolExhausted) if none is left.
  template <typename... Args>
  RtSharedPtr<T> make_shared(Args &&...args) {
    T *object = acquire(std::forward<Args>(args)...);
    return object ? RtSharedPtr<T>(detail::fresh_count, object, header_of(object)) : RtSharedPtr<T>();
  }

  // The paper's name for it.
  template <typename... Args>
  RtSharedPtr<T> sharedPtrAlloc(Args &&...args) {
    return make_shared(std::forward<Args>(args)...);
  }

  // The count that was preallocated with an acquired object: for RtSharedPtr(object, count, pool). Null, and a report,
  // for what is no object of this pool. O(1).
  ReferenceCount *count_of(T *object) const noexcept {
    detail::BlockHeader *block = header_of(object);
    if (detail::PoolCore::core_of(block) == core_) return block;
    detail::report_misuse(Misuse::wrong_pool, core_->name().c_str(), object,
                          "expected an object acquired from this pool");
    return nullptr;
  }

  // ---- not real-time ----

  // `count` more objects; throws as the constructor, and changes nothing then. Any thread, while others use the pool;
  // of a thread-local pool its owner only. At most 62 times. O(count).
  void grow(std::ptrdiff_t count) { core_->grow(count); }

  // Makes the calling thread the owner of a thread-local pool, for example the thread that it was made for. Nobody may
  // be in an operation on the pool. O(1).
  void own() noexcept { core_->own(); }

  // O(capacity). Any thread; with others at work, values of a moment ago.
  PoolStatistics statistics() const { return core_->statistics(); }

  const std::string &name() const noexcept { return core_->name(); }

 private:
  // The object follows its header.
  static detail::BlockHeader *header_of(T *object) noexcept {
    return reinterpret_cast<detail::BlockHeader *>(const_cast<std::remove_cv_t<T> *>(object)) - 1;
  }

  template <typename... Args>
  T *make_object(detail::BlockHeader *block, Args &&...args) {
    static_assert(detail::IsMadeOf<void, T, Args...>::value, "rtm::RtMemoryPool: T cannot be made of these arguments");
    if constexpr (std::is_nothrow_constructible_v<T, Args...>) {
      return detail::construct<T>(block->object(), std::forward<Args>(args)...);
    } else {
      try {
        return detail::construct<T>(block->object(), std::forward<Args>(args)...);
      } catch (...) {
        core_->put(block);
        throw;
      }
    }
  }

  // Off the usual path: no returned object is left, or the mode needs more.
  template <typename... Args>
  [[gnu::noinline]] T *acquire_otherwise(Args &&...args) {
    if (detail::BlockHeader *block = core_->take_otherwise()) return make_object(block, std::forward<Args>(args)...);
    if (core_->throws_when_empty()) throw PoolExhausted(core_->name());
    return nullptr;
  }

  detail::PoolCore *const core_;
};

}  // namespace rtm

#endif  // RTMALLOC_MEMORY_POOL_HPP
