// What all pools are made of: blocks of one size with their headers, the list of free ones, and the three modes. It
// knows no types; memory_pool.hpp and block_pool.hpp put theirs on top.
//
// Layer: over free_list.hpp and priority_mutex.hpp. The core lies on the heap and outlives its pool while objects are
// out, so that an object that comes back too late is seen and not written to memory of somebody else.
//
// A block:   | header, 32 bytes | object |     the object's alignment is kept by space before the header
#ifndef RTMALLOC_POOL_CORE_HPP
#define RTMALLOC_POOL_CORE_HPP

#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "free_list.hpp"
#include "misuse.hpp"
#include "priority_mutex.hpp"

namespace rtm {

// Who may use a pool, and how its list is kept whole. Worst time of one operation, with t_p the list's own few
// instructions, t_m a mutex's lock and unlock, n threads that each do one operation at the same time:
//
//   owner      t_p. One thread, the owner, acquires; any thread may return. Neither a lock nor an atomic
//              read-modify-write by the owner, except for one exchange when its list is empty and others have returned
//              blocks. The returns of other threads are lock-free and never delay the owner: it is wait-free.
//   lock_free  t_try * n, with t_try < t_p + t_m: a try fails only because another thread's operation succeeded, so n -
//   1
//              others with one operation each make at most n - 1 tries fail. No thread waits for a thread that is not
//              running. A thread that is never allowed to finish between others' endless operations has no bound.
//   mutex      (t_p + t_m) * n, the paper's bound (section 3.4), if the mutex is fair; with priority inheritance.
enum class PoolMode : std::uint8_t { owner, lock_free, mutex };

// What an exhausted pool does.
enum class OnEmpty : std::uint8_t {
  return_empty,     // null, an empty pointer
  throw_exception,  // PoolExhausted; throwing allocates from the heap, so not for real-time code
};

// Thrown by an exhausted pool that was told to.
class PoolExhausted : public std::bad_alloc {
 public:
  explicit PoolExhausted(std::string_view pool)
      : text_("rtmalloc: pool \"" + std::string(pool) + "\" is exhausted; make it larger or call grow before") {}
  const char *what() const noexcept override { return text_.what(); }

 private:
  std::runtime_error text_;  // copies without throwing, as an exception must
};

// What a pool knows of itself.
struct PoolStatistics {
  std::size_t capacity;      // objects
  std::size_t in_use;        // objects out now, and blocks kept by weak pointers
  std::size_t peak_use;      // the most that were out at a time: what the pool's size has to be
  std::size_t failures;      // acquisitions that found no block
  std::size_t block_bytes;   // from one block to the next: object, header and padding
  std::size_t memory_bytes;  // all memory that the pool holds
};

namespace detail {

// An address of its own for each living thread; one instruction on x86-64 and aarch64.
#if defined(__has_builtin)
#if __has_builtin(__builtin_thread_pointer)
#define RTM_HAVE_THREAD_POINTER 1
#endif
#endif
#ifdef RTM_HAVE_THREAD_POINTER
inline const void *this_thread() noexcept { return __builtin_thread_pointer(); }
#else
inline const void *this_thread() noexcept {
  static thread_local char mark;
  return &mark;
}
#endif

constexpr std::size_t round_up(std::size_t bytes, std::size_t alignment) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Makes a header of the pool's kind at `place`.
using HeaderMaker = void (*)(void *place, PoolCore *core, std::uint32_t index);

class PoolCore {
 public:
  static constexpr std::size_t cache_line = 64;
  static constexpr std::size_t most_blocks = BlockTable::most_chunks * BlockTable::blocks_per_chunk;

  // `count` blocks for objects of this size and alignment, touched so that using them causes no page fault. Throws
  // std::invalid_argument (no objects, a negative number), std::length_error (more than most_blocks) or std::bad_alloc.
  // O(count).
  PoolCore(std::ptrdiff_t count, std::size_t object_bytes, std::size_t object_alignment, HeaderMaker make_header,
           PoolMode mode, OnEmpty on_empty, std::string_view name)
      : owner_(mode == PoolMode::owner ? this_thread() : nullptr),
        mode_(static_cast<std::uint8_t>(mode)),
        on_empty_(on_empty),
        table_(stride_of(object_bytes, object_alignment)),
        name_(name),
        object_bytes_(object_bytes),
        alignment_(object_alignment < cache_line ? cache_line : object_alignment),
        header_offset_(header_offset(object_alignment)),
        make_header_(make_header) {
    grow(count);
  }
  PoolCore(const PoolCore &) = delete;
  PoolCore &operator=(const PoolCore &) = delete;

  // ---- real-time ----

  // The block that was returned last, handed out again now; null if there is none, or if getting one is not as simple:
  // then take_otherwise says. O(1); see PoolMode. At most 17 instructions as owner, 27 lock-free without contention.
  BlockHeader *take() noexcept {
    if (__builtin_expect(owner_.load(std::memory_order_relaxed) == this_thread(), 1)) return own_.remove(table_);
    if (mode_.load(std::memory_order_relaxed) == static_cast<std::uint8_t>(PoolMode::lock_free))
      return returned_.remove(table_);
    return nullptr;
  }

  // A block after all, or null: none is left, or this thread may not have one, which is reported. O(1) as take, with a
  // mutex or a second list. Out of line, so that the usual path saves no registers.
  [[gnu::noinline]] BlockHeader *take_otherwise() noexcept {
    const auto mode = mode_.load(std::memory_order_relaxed);
    BlockHeader *block = nullptr;
    if (mode == static_cast<std::uint8_t>(PoolMode::mutex)) {
      const std::lock_guard<PriorityMutex> lock(mutex_);
      block = own_.remove(table_);
      if (!block) block = own_grown_.remove(table_);
    } else if (mode == static_cast<std::uint8_t>(PoolMode::lock_free)) {
      block = grown_.remove(table_);
      // Looked at again, as a block may have come back while the last of these went: only if there is none now was
      // there a moment without any.
      if (!block) block = returned_.remove(table_);
    } else if (owner_.load(std::memory_order_relaxed) != this_thread()) {
      detail::report_misuse(Misuse::wrong_thread, name_.c_str(), this,
                            "only the owner acquires from a thread-local pool; use another mode, or call own() first");
      return nullptr;
    } else if (!returned_.empty()) {
      block = own_.remove_from(returned_.remove_all(), table_);
    } else {
      block = own_grown_.remove(table_);
    }
    if (!block) failures_.fetch_add(1, std::memory_order_relaxed);
    return block;
  }

  // A block that is handed out comes back; it is the first to be handed out again, but of a thread-local pool after
  // those that the owner returned, if another thread returns it. O(1); see PoolMode. At most 15 instructions as owner,
  // 23 else without contention.
  void put(BlockHeader *block) noexcept {
    if (__builtin_expect(owner_.load(std::memory_order_relaxed) == this_thread(), 1)) return own_.add(block);
    if (__builtin_expect(mode_.load(std::memory_order_relaxed) <= static_cast<std::uint8_t>(PoolMode::lock_free), 1))
      return returned_.add(block);
    put_otherwise(block->object());
  }

  // Whether `block` may be returned by hand: of this pool, handed out, and not shared. If not, refuse reports it. At
  // most 7 instructions.
  bool may_return(const BlockHeader *block) const noexcept {
    return __builtin_expect(
        core_of(block) == this && block->link.next.load(std::memory_order_relaxed) == held && block->unshared(), 1);
  }

  [[gnu::cold, gnu::noinline]] void refuse(void *object) const noexcept {
    const BlockHeader *const block = BlockHeader::of(object);
    if (core_of(block) != this)
      detail::report_misuse(Misuse::wrong_pool, name_.c_str(), object,
                            "expected an object of this pool; return it to the pool it is from");
    else if (block->link.next.load(std::memory_order_relaxed) != held)
      detail::report_misuse(Misuse::double_return, name_.c_str(), object,
                            "the object is free already; return each object once");
    else
      detail::report_misuse(Misuse::returned_while_shared, name_.c_str(), object,
                            "shared pointers own the object and return it; do not return it by hand");
  }

  bool throws_when_empty() const noexcept { return on_empty_ == OnEmpty::throw_exception; }
  const std::string &name() const noexcept { return name_; }
  std::size_t object_bytes() const noexcept { return object_bytes_; }

  // The core that a block says it is of. Reads 16 bytes before what may be anything, which a sanitizer would report
  // before the pool can: it does not look here, as long as gcc does not move the read to the caller.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  [[gnu::noipa]]
#endif
  __attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined"))) static const PoolCore *
  core_of(const BlockHeader *block) noexcept {
    return block->core;
  }

  // ---- not real-time ----

  // `count` more blocks. Any thread, while others use the pool; of a thread-local pool its owner only. Throws as the
  // constructor does, and changes nothing then. O(count).
  void grow(std::ptrdiff_t count) {
    const std::lock_guard<PriorityMutex> lock(growth_mutex_);
    if (count <= 0) throw std::invalid_argument(complaint(count, "is too small; expected at least 1 object"));
    const auto blocks = static_cast<std::size_t>(count);
    const std::size_t chunks = (blocks - 1) / BlockTable::blocks_per_chunk + 1;
    if (blocks > most_blocks || chunks > BlockTable::most_chunks - chunks_in_use_)
      throw std::length_error(complaint(count, "is too large, or the pool has grown too often"));

    regions_.reserve(regions_.size() + 1);  // so that nothing can fail once there is memory
    Region region{nullptr, blocks, chunks_in_use_ << BlockTable::chunk_bits, 0};
    if (__builtin_mul_overflow(blocks, table_.stride(), &region.bytes)) throw std::bad_alloc();
    region.memory = static_cast<std::byte *>(::operator new(region.bytes, std::align_val_t(alignment_)));
    std::memset(region.memory, 0, region.bytes);  // touches each page: no fault later
    make_blocks(region);
    hand_over(region);
    regions_.push_back(region);
    chunks_in_use_ += chunks;
  }

  // Makes the calling thread the owner of a thread-local pool. Nobody may be in an operation on it.
  void own() noexcept {
    if (mode_.load(std::memory_order_relaxed) == static_cast<std::uint8_t>(PoolMode::owner))
      owner_.store(this_thread(), std::memory_order_relaxed);
  }

  // O(capacity); of a pool in use by other threads, values of a moment ago.
  PoolStatistics statistics() const {
    const std::lock_guard<PriorityMutex> lock(growth_mutex_);
    PoolStatistics result{0, 0, 0, failures_.load(std::memory_order_relaxed), table_.stride(), sizeof *this};
    for (const Region &region : regions_) {
      result.capacity += region.blocks;
      result.memory_bytes += region.bytes;
      for (std::size_t i = 0; i < region.blocks; ++i) {
        const std::uint32_t next = table_[region.first_index + i]->link.next.load(std::memory_order_relaxed);
        result.in_use += next == held;
        result.peak_use += (next & never_used) == 0;
      }
    }
    return result;
  }

  // The pool ends. Deletes the core, at once or, if objects are out, which is reported, when the last comes back.
  // Nobody may be in an operation on it. O(capacity).
  void end() noexcept {
    const std::size_t out = statistics().in_use;
    if (out == 0) return delete this;
    out_after_end_.store(out, std::memory_order_relaxed);
    owner_.store(nullptr, std::memory_order_relaxed);
    mode_.store(ended, std::memory_order_release);
    detail::report_misuse(
        Misuse::ended_in_use, name_.c_str(), this,
        "the pool ended while objects of it are out; let it live longer than all that points into it");
  }

 private:
  static constexpr std::uint8_t ended = 255;  // in mode_, so that living pools pay nothing for the check

  struct Region {
    std::byte *memory;
    std::size_t blocks;
    std::size_t first_index;  // of its blocks, which are numbered one after the other
    std::size_t bytes;
  };

  ~PoolCore() {
    for (const Region &region : regions_) ::operator delete(region.memory, std::align_val_t(alignment_));
  }

  // From the start of a block to its header: the object follows the header and must be aligned.
  static constexpr std::size_t header_offset(std::size_t alignment) noexcept {
    return round_up(sizeof(BlockHeader), alignment) - sizeof(BlockHeader);
  }

  static std::size_t stride_of(std::size_t bytes, std::size_t alignment) {
    constexpr std::size_t header_alignment = 16;
    if (bytes > PTRDIFF_MAX / 2 || alignment > PTRDIFF_MAX / 4) throw std::bad_alloc();
    return round_up(header_offset(alignment) + sizeof(BlockHeader) + bytes,
                    alignment < header_alignment ? header_alignment : alignment);
  }

  // Headers, chained in order of address.
  void make_blocks(const Region &region) noexcept {
    std::byte *const first = region.memory + header_offset_;
    for (std::size_t done = 0; done < region.blocks; done += BlockTable::blocks_per_chunk)
      table_.set_chunk((region.first_index + done) >> BlockTable::chunk_bits, first + done * table_.stride());
    for (std::size_t i = 0; i < region.blocks; ++i) {
      const auto index = static_cast<std::uint32_t>(region.first_index + i);
      make_header_(first + i * table_.stride(), this, index);
      table_[index]->link.next.store((index + 1) | never_used, std::memory_order_relaxed);
    }
  }

  // The pool's first blocks go to the list of the usual path. Those of a growth go to a list apart, which is used once
  // the other is empty: so a block that was never used is handed out only when all that were are out, and as many were
  // ever used as were ever out at a time.
  void hand_over(const Region &region) noexcept {
    const std::lock_guard<PriorityMutex> lock(mutex_);  // the mutex mode changes its lists under it only
    BlockHeader *const first = table_[region.first_index], *const last = table_[region.first_index + region.blocks - 1];
    const bool usual = region.first_index == 0;
    if (mode_.load(std::memory_order_relaxed) == static_cast<std::uint8_t>(PoolMode::lock_free))
      (usual ? returned_ : grown_).add_chain(first, last, never_used);
    else
      (usual ? own_ : own_grown_).add_chain(first, last, never_used);
  }

  [[gnu::noinline]] void put_otherwise(void *object) noexcept {
    BlockHeader *const block = BlockHeader::of(object);
    // Acquire pairs with the release in end.
    const auto mode = mode_.load(std::memory_order_acquire);
    if (mode == static_cast<std::uint8_t>(PoolMode::mutex)) {
      const std::lock_guard<PriorityMutex> lock(mutex_);
      return own_.add(block);
    }
    detail::report_misuse(Misuse::returned_after_end, name_.c_str(), object,
                          "its pool has ended; let the pool live longer than all that points into it");
    block->link.next.store(0, std::memory_order_relaxed);  // a second return is seen as such
    if (out_after_end_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  std::string complaint(std::ptrdiff_t count, const char *what) const {
    return "rtmalloc: pool \"" + name_ + "\": size " + std::to_string(count) + " " + what;
  }

  // Read by each operation, written outside of real-time code. In one cache line with the table's first chunks.
  alignas(cache_line) std::atomic<const void *> owner_;  // this_thread() of a thread-local pool's owner; else null
  std::atomic<std::uint8_t> mode_;                       // a PoolMode, or ended
  const OnEmpty on_empty_;
  BlockTable table_;

  // Written by each operation. The lists of returned blocks, with below them the first blocks that were never used, and
  // those of never used blocks of growths: by the owner or under the mutex, and by any thread. Returned to a
  // thread-local pool by threads that do not own it: to the latter.
  alignas(cache_line) OwnList own_{table_}, own_grown_{table_};
  alignas(cache_line) SharedList returned_, grown_;
  PriorityMutex mutex_;  // for the mutex mode's lists
  std::atomic<std::size_t> failures_{0};
  std::atomic<std::size_t> out_after_end_{0};

  // Not read by real-time code.
  const std::string name_;
  const std::size_t object_bytes_;
  const std::size_t alignment_;      // of a region
  const std::size_t header_offset_;  // from the start of a block
  const HeaderMaker make_header_;
  mutable PriorityMutex growth_mutex_;  // for the next two; apart, so that statistics delay no operation
  std::size_t chunks_in_use_ = 0;
  std::vector<Region> regions_;
};

}  // namespace detail
}  // namespace rtm

#endif  // RTMALLOC_POOL_CORE_HPP
