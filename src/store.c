// See store.h.
#include "store.h"

#include "message.h"

struct heap rtm_huge_stores = {.state = HEAP_STORES};

RTM_COLD void store_free_twice(const void *block) {
  message_misuse(block, "double free", "the block was freed before, by another thread");
}

static uint64_t words_for(uint64_t bits) { return (bits + 63) / 64; }

size_t store_words(uint64_t blocks) {
  uint64_t zero = words_for(blocks), one = words_for(zero), two = words_for(one);
  return (zero + one + two + 1) * sizeof(uint64_t);
}

static void set_table(const struct span *span, size_t granules) {
  uint32_t *table = rtm_window_table + span_granule(span), index = span_index(span);
  for (size_t i = 0; i < granules; i++) table[i] = index;
}

void store_make(struct heap *heap, struct span *span, char *start, size_t block_size, uint32_t blocks,
                _Atomic uint64_t *words) {
  uint64_t zero = words_for(blocks), one = words_for(zero), two = words_for(one);
  span->start = start;
  span->length = (uint32_t)(((size_t)blocks * block_size + GRANULE_SIZE - 1) >> GRANULE_SHIFT);
  span->kind = SPAN_STORE;
  span->flags = 0;
  span->used = 1;  // one more than the blocks in use: no free empties it
  span->reciprocal = 0;
  span->store_level[0] = words;
  span->store_level[1] = words + zero;
  span->store_level[2] = words + zero + one;
  span->store_level[3] = words + zero + one + two;
  // Exact for offsets below 2^64 / block_size: the store's last block lies far below.
  span->store_reciprocal = UINT64_MAX / block_size + 1;
  span->store_size = block_size;
  span->store_found = 0;
  char *block = start + (size_t)blocks * block_size;
  void *next = NULL;
  for (uint32_t i = 0; i < blocks; i++) {
    block -= block_size;
    *(void **)block = next;
    next = block;
  }
  span->free = next;
  span_set_tag(span, (uintptr_t)heap);
  set_table(span, span->length);
}

// The word of `level` that bit `place` of the level above stands for had nothing: clears that bit, and sets it again if
// there is something now.
RTM_INLINE void settle(_Atomic uint64_t *above, uint64_t bit, _Atomic uint64_t *word) {
  atomic_fetch_and_explicit(above, ~bit, memory_order_seq_cst);
  if (RTM_UNLIKELY(atomic_load_explicit(word, memory_order_seq_cst)))
    atomic_fetch_or_explicit(above, bit, memory_order_seq_cst);
}

// One way down the tree: blocks [64 * store_at, ...) of the word found, or nothing if a bit was late.
RTM_INLINE void find(struct span *store) {
  _Atomic uint64_t *three = store->store_level[3];
  uint64_t bits = atomic_load_explicit(three, memory_order_seq_cst);
  if (!bits) return;
  uint64_t place = bits_lowest(bits), bit = bits & -bits;
  _Atomic uint64_t *two = store->store_level[2] + place;
  bits = atomic_load_explicit(two, memory_order_seq_cst);
  uint64_t bit_two = bits & -bits;
  _Atomic uint64_t *one = store->store_level[1];
  if (RTM_LIKELY(bits != 0)) {
    place = place * 64 + bits_lowest(bits);
    one += place;
    bits = atomic_load_explicit(one, memory_order_seq_cst);
    if (RTM_LIKELY(bits != 0)) {
      uint64_t bit_one = bits & -bits;
      place = place * 64 + bits_lowest(bits);
      // The bit is cleared first: a free that comes after the exchange sets it again.
      uint64_t rest = atomic_fetch_and_explicit(one, ~bit_one, memory_order_seq_cst) & ~bit_one;
      // Acquire: what the freeing threads did with the blocks comes before their next use.
      store->store_found = atomic_exchange_explicit(&store->store_level[0][place], 0, memory_order_seq_cst);
      store->store_at = (uint32_t)place;
      if (rest) return;
    }
    settle(two, bit_two, one);
    if (atomic_load_explicit(two, memory_order_seq_cst)) return;
  }
  settle(three, bit, two);
}

void *store_take(struct span *store) {
  uint64_t bits = store->store_found;
  if (!bits) {
    find(store);
    bits = store->store_found;
    if (!bits) return NULL;
  }
  store->store_found = bits & (bits - 1);
  return store->start + (store->store_at * UINT64_C(64) + bits_lowest(bits)) * store->store_size;
}
