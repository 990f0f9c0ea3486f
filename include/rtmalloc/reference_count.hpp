// The reference count that shared and weak pointers point to: the paper's ReferenceCount.
//
// Layer: over nothing. Used by shared_ptr.hpp (the normal mode's counts, on the heap) and by pool_core.hpp (the
// real-time mode's, preallocated in the block).
//
// Source: Shen, Hamal, Ganzenmüller, "Dynamic memory allocation on real-time Linux" (2011), sections 3.2 and 4.2. The
// paper's pool pointer and its flag 'from a pool' lie here and not in each shared pointer, so that a pointer stays two
// words and a copy costs one increment.
#ifndef RTMALLOC_REFERENCE_COUNT_HPP
#define RTMALLOC_REFERENCE_COUNT_HPP

#include <cstdint>
#include <typeinfo>

#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define RTM_HAVE_SINGLE_THREADED 1
#endif
#endif

namespace rtm {

namespace detail {

// True while the process has one thread: counts then need no locked instruction. glibc keeps it; the standard library's
// shared_ptr does the same. Starting a thread orders everything before it, so a plain store is never missed.
#ifdef RTM_HAVE_SINGLE_THREADED
inline bool single_threaded() noexcept { return __libc_single_threaded != 0; }
#else
constexpr bool single_threaded() noexcept { return false; }
#endif

}  // namespace detail

// Owners and observers of one object, in one word:
//
//   bits  0..31  uses    shared pointers that own the object
//   bits 32..63  weaks   weak pointers, plus one for all owners together while uses > 0
//
// uses > 0 implies weaks > 0. The object is destroyed when uses falls to 0, what holds the count is given back when
// weaks falls to 0. Both 0: nobody shares it. Any thread may change the word; who brings a half to 0 does what follows.
class ReferenceCount {
 public:
  ReferenceCount(const ReferenceCount &) = delete;
  ReferenceCount &operator=(const ReferenceCount &) = delete;

  // One more owner, by one who is an owner. O(1), wait-free.
  void add_owner() noexcept { add(one_use); }

  // One more observer, by an owner or observer. O(1), wait-free.
  void add_observer() noexcept { add(one_weak); }

  // One more owner unless the object is gone: false then. Lock-free; a retry means that another thread changed the
  // count.
  bool add_owner_if_alive() noexcept {
    std::uint64_t old = load(__ATOMIC_RELAXED);
    do {
      if (uses_of(old) == 0) return false;
    } while (!__atomic_compare_exchange_n(&word_, &old, old + one_use, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    return true;
  }

  // One owner less; the last destroys the object, and gives the count back if nobody observes it. O(1), wait-free, plus
  // the object's destructor.
  void remove_owner() noexcept {
    // Alone: nobody else can reach the count, so nothing needs to be atomic. The acquire pairs with the release of
    // those who left before.
    if (load(__ATOMIC_ACQUIRE) == (one_use | one_weak)) return end_alone();
    if (uses_of(subtract(one_use)) == 1) end_observed();
  }

  // One observer less; the last of all gives the count back. O(1), wait-free.
  void remove_observer() noexcept {
    if (weaks_of(subtract(one_weak)) == 1) give_back();
  }

  // Owners now; with other threads at work, a value of a moment ago. O(1).
  long use_count() const noexcept { return uses_of(load(__ATOMIC_RELAXED)); }

  // Neither owner nor observer. O(1).
  bool unshared() const noexcept { return load(__ATOMIC_RELAXED) == 0; }

  // From nobody to one owner; only by who holds the object alone. O(1).
  void start_sharing() noexcept { __atomic_store_n(&word_, one_use | one_weak, __ATOMIC_RELAXED); }

  // The custom deleter if it has this type, else null.
  virtual void *deleter(const std::type_info &) noexcept { return nullptr; }

  // Whether it was preallocated in a pool: the paper's boolean (section 4.2, change 2).
  virtual bool pooled() const noexcept { return false; }

 protected:
  constexpr ReferenceCount() noexcept = default;
  ~ReferenceCount() = default;

  virtual void destroy_object() noexcept = 0;
  virtual void give_back() noexcept = 0;

 private:
  static constexpr std::uint64_t one_use = 1;
  static constexpr std::uint64_t one_weak = std::uint64_t{1} << 32;

  static constexpr std::uint32_t uses_of(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word); }
  static constexpr std::uint32_t weaks_of(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word >> 32);
  }

  // Relaxed: who adds holds a reference already, which orders what matters.
  void add(std::uint64_t amount) noexcept {
    if (detail::single_threaded())
      word_ += amount;
    else
      __atomic_fetch_add(&word_, amount, __ATOMIC_RELAXED);
  }

  // Release, for the last one to see what the others did to the object; acquire, for it to be the last. Gives the old
  // value.
  std::uint64_t subtract(std::uint64_t amount) noexcept {
    if (detail::single_threaded()) {
      const std::uint64_t old = word_;
      word_ = old - amount;
      return old;
    }
    return __atomic_fetch_sub(&word_, amount, __ATOMIC_ACQ_REL);
  }

  // Both out of line, so that an owner who is not the last saves no registers for them.
  [[gnu::noinline]] void end_alone() noexcept {
    __atomic_store_n(&word_, std::uint64_t{0}, __ATOMIC_RELAXED);
    destroy_object();
    give_back();
  }
  [[gnu::noinline]] void end_observed() noexcept {
    destroy_object();
    remove_observer();
  }

  std::uint64_t load(int order) const noexcept { return __atomic_load_n(&word_, order); }

  // Not std::atomic: with one thread a plain addition in memory is one instruction, which std::atomic cannot say.
  std::uint64_t word_ = 0;
};

}  // namespace rtm

#endif  // RTMALLOC_REFERENCE_COUNT_HPP
