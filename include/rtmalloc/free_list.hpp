// The last-in first-out list of a pool's blocks (paper, section 4.1, figures 5 and 6), in two forms: OwnList for one
// thread at a time, and SharedList, lock-free, for any number.
//
// Layer: over reference_count.hpp. Used by pool_core.hpp only.
//
// ABA: a SharedList's head is an index of 26 bits and a tag of 38 bits in one word of 64 bits. Each removal raises the
// tag; adding does not need to, as a block's link changes only after its removal. A removal that is preempted between
// its look and its exchange is fooled only if exactly a multiple of 2^38 removals pass in between and the same block is
// on top again: at 20 ns each that takes more than an hour inside one operation.
#ifndef RTMALLOC_FREE_LIST_HPP
#define RTMALLOC_FREE_LIST_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "reference_count.hpp"

namespace rtm::detail {

class PoolCore;

constexpr unsigned index_bits = 26;
constexpr std::uint64_t index_mask = (std::uint64_t{1} << index_bits) - 1;
constexpr std::uint32_t no_block = static_cast<std::uint32_t>(index_mask);
constexpr std::uint64_t one_removal = std::uint64_t{1} << index_bits;

// What a block's `next` says beyond the index of the next free block.
constexpr std::uint32_t held = std::uint32_t{1} << 30;         // not in a list: handed out
constexpr std::uint32_t never_used = std::uint32_t{1} << 31;   // in a list and never handed out
constexpr std::uint32_t end_of_list = std::uint32_t{1} << 29;  // no block: the table's, for no_block
static_assert(((held | never_used | end_of_list) & index_mask) == 0);

// What a list needs to know of a block. It stands directly before the object.
struct Link {
  std::atomic<std::uint32_t> next;  // the next free block and its marks, or `held`
  const std::uint32_t index;        // of this block; never changes

  static Link *of(void *object) noexcept { return static_cast<Link *>(object) - 1; }
};

// What stands before each object, made once when the block is. The count is the paper's preallocated one.
struct BlockHeader : ReferenceCount {
  BlockHeader(PoolCore *its_core, std::uint32_t its_index) noexcept : core(its_core), link{{never_used}, its_index} {}

  PoolCore *const core;  // never changes
  Link link;

  bool pooled() const noexcept final { return true; }
  void *object() noexcept { return this + 1; }
  static BlockHeader *of(void *object) noexcept { return static_cast<BlockHeader *>(object) - 1; }
};
static_assert(sizeof(BlockHeader) == 32, "objects start 32 bytes after the header and keep its alignment of 16");

// From an index to its header. A chunk has up to 2^20 blocks; a pool that has not grown uses one chunk per 2^20 blocks
// of one range of memory, each growth starts a new chunk.
class BlockTable {
 public:
  static constexpr unsigned chunk_bits = 20;
  static constexpr std::size_t blocks_per_chunk = std::size_t{1} << chunk_bits;
  static constexpr std::size_t most_chunks = (std::size_t{1} << (index_bits - chunk_bits)) - 1;  // no_block is in none

  explicit BlockTable(std::size_t stride) noexcept : stride_(stride) {
    chunks_[most_chunks] = reinterpret_cast<std::uintptr_t>(&none_ + 1) - (no_block & (blocks_per_chunk - 1)) * stride;
  }
  BlockTable(const BlockTable &) = delete;
  BlockTable &operator=(const BlockTable &) = delete;

  // O(1), 5 instructions.
  BlockHeader *operator[](std::uint64_t index) const noexcept { return BlockHeader::of(object(index)); }
  // The object behind that header; of no_block: what has a link that says end_of_list.
  void *object(std::uint64_t index) const noexcept {
    return reinterpret_cast<void *>(chunks_[index >> chunk_bits] + (index & (blocks_per_chunk - 1)) * stride_);
  }
  void set_chunk(std::size_t chunk, std::byte *first_header) noexcept {
    chunks_[chunk] = reinterpret_cast<std::uintptr_t>(first_header) + sizeof(BlockHeader);
  }
  std::size_t stride() const noexcept { return stride_; }

 private:
  std::size_t stride_;                           // bytes from one block to the next
  std::uintptr_t chunks_[most_chunks + 1] = {};  // first objects; the last chunk is no_block's
  Link none_{{end_of_list}, no_block};
};

// For one thread at a time: the owner of a thread-local pool, or who holds the mutex. No atomic read-modify-write.
class OwnList {
 public:
  explicit OwnList(const BlockTable &table) noexcept : first_(table.object(no_block)) {}

  // The block added last, or null. O(1). The next one's header is fetched into the cache meanwhile.
  BlockHeader *remove(const BlockTable &table) noexcept {
    Link *first = Link::of(first_);
    const std::uint32_t next = first->next.load(std::memory_order_relaxed);
    if (__builtin_expect(next & end_of_list, 0)) return nullptr;
    BlockHeader *block = BlockHeader::of(first_);
    first_ = table.object(next & index_mask);
    __builtin_prefetch(Link::of(first_));
    first->next.store(held, std::memory_order_relaxed);
    return block;
  }

  // O(1).
  void add(BlockHeader *block) noexcept { add_chain(block, block, 0); }

  // A chain whose inner links stand already; the last one's link becomes the old first with `mark`. O(1).
  void add_chain(BlockHeader *first, BlockHeader *last, std::uint32_t mark) noexcept {
    last->link.next.store(Link::of(first_)->index | mark, std::memory_order_relaxed);
    first_ = first->object();
  }

  // For a list that is empty: takes over the chain that starts with `index`, which is of a block, and removes that.
  BlockHeader *remove_from(std::uint64_t index, const BlockTable &table) noexcept {
    BlockHeader *block = table[index];
    first_ = table.object(block->link.next.load(std::memory_order_relaxed) & index_mask);
    block->link.next.store(held, std::memory_order_relaxed);
    return block;
  }

 private:
  void *first_;  // the object of the first block, or of the table's no_block
};

// For any number of threads: lock-free. A try fails only because another thread's operation on this list succeeded in
// between.
class SharedList {
 public:
  // The block added last, or null. O(1) a try.
  BlockHeader *remove(const BlockTable &table) noexcept {
    // Acquire pairs with the release in add: what the last holder wrote to the block is seen.
    std::uint64_t head = head_.load(std::memory_order_acquire);
    for (;;) {
      if (__builtin_expect((head & index_mask) == no_block, 0)) return nullptr;
      BlockHeader *block = table[head & index_mask];
      // The block may have been taken and reused since: then this is nonsense, and the exchange fails by the tag.
      const std::uint64_t next = block->link.next.load(std::memory_order_relaxed) & index_mask;
      if (__builtin_expect(head_.compare_exchange_weak(head, ((head & ~index_mask) + one_removal) | next,
                                                       std::memory_order_acquire, std::memory_order_acquire),
                           1)) {
        block->link.next.store(held, std::memory_order_relaxed);
        return block;
      }
    }
  }

  // O(1) a try.
  void add(BlockHeader *block) noexcept { add_chain(block, block, 0); }

  // As OwnList::add_chain. O(1) a try.
  void add_chain(BlockHeader *first, BlockHeader *last, std::uint32_t mark) noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    do {
      last->link.next.store(static_cast<std::uint32_t>(head & index_mask) | mark, std::memory_order_relaxed);
    } while (__builtin_expect(!head_.compare_exchange_weak(head, (head & ~index_mask) | first->link.index,
                                                           std::memory_order_release, std::memory_order_relaxed),
                              0));
  }

  bool empty() const noexcept { return (head_.load(std::memory_order_relaxed) & index_mask) == no_block; }

  // Empties the list, which must not be used meanwhile by more than additions: the index of its first block. O(1),
  // wait-free: one exchange.
  std::uint64_t remove_all() noexcept {
    // Acquire pairs with the release of each addition.
    return head_.exchange(no_block, std::memory_order_acquire) & index_mask;
  }

 private:
  std::atomic<std::uint64_t> head_{no_block};  // index of the first block, and the tag above it
};

}  // namespace rtm::detail

#endif  // RTMALLOC_FREE_LIST_HPP
