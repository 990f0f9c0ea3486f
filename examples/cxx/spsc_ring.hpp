// A bounded queue from one thread to one other, without a lock: what the examples hand pointers through.
#ifndef RTMALLOC_EXAMPLES_SPSC_RING_HPP
#define RTMALLOC_EXAMPLES_SPSC_RING_HPP

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

// Room for `places` - 1 items. One thread pushes, one pops; both O(1), wait-free, no heap.
template <typename Item, std::size_t places>
class SpscRing {
 public:
  // Whether there was room. If not, `item` is unchanged.
  bool push(Item &item) {
    const std::size_t at = tail_.load(std::memory_order_relaxed), after = (at + 1) % places;
    if (after == head_.load(std::memory_order_acquire)) return false;  // pairs with pop: the place is empty
    items_[at] = std::move(item);
    tail_.store(after, std::memory_order_release);
    return true;
  }

  // Whether there was an item.
  bool pop(Item &item) {
    const std::size_t at = head_.load(std::memory_order_relaxed);
    if (at == tail_.load(std::memory_order_acquire)) return false;  // pairs with push: the item is there
    item = std::move(items_[at]);
    head_.store((at + 1) % places, std::memory_order_release);
    return true;
  }

 private:
  std::array<Item, places> items_{};
  alignas(64) std::atomic<std::size_t> head_{0};  // written by who pops
  alignas(64) std::atomic<std::size_t> tail_{0};  // written by who pushes
};

#endif  // RTMALLOC_EXAMPLES_SPSC_RING_HPP
