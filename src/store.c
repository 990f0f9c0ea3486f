// See store.h.
#include "store.h"

#include "message.h"

static _Atomic uint64_t nothing;
struct span rtm_no_store[CLASSES + 1] = {
    [0 ... CLASSES] = {.kind = SPAN_STORE, .store_level = {&nothing, &nothing, &nothing, &nothing}}};
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

void store_make_tree(struct span *span, char *start, size_t block_size, uint32_t blocks, _Atomic uint64_t *words) {
  uint64_t zero = words_for(blocks), one = words_for(zero), two = words_for(one);
  span->start = start;
  span->kind = SPAN_STORE;
  span->store_level[0] = words;
  span->store_level[1] = words + zero;
  span->store_level[2] = words + zero + one;
  span->store_level[3] = words + zero + one + two;
  // Exact for offsets below 2^64 / block_size: the store's last block lies far below.
  span->store_reciprocal = UINT64_MAX / block_size + 1;
  span->store_size = block_size;
  span->store_found = 0;
  span->store_blocks = blocks;
}

static void make_empty(struct heap *heap, struct span *span, char *start, size_t block_size, uint32_t blocks,
                       _Atomic uint64_t *words) {
  store_make_tree(span, start, block_size, blocks, words);
  span->length = (uint32_t)(((size_t)blocks * block_size + GRANULE_SIZE - 1) >> GRANULE_SHIFT);
  span->flags = 0;
  span->used = 1;  // one more than the blocks in use: no free empties it
  span->reciprocal = 0;
  span->free = NULL;
  span_set_tag(span, (uintptr_t)heap);
  set_table(span, span->length);
}

void store_make_common(struct heap *heap, struct span *span, char *start, size_t block_size, uint32_t blocks,
                       _Atomic uint64_t *words) {
  make_empty(heap, span, start, block_size, blocks, words);
  for (uint32_t i = 0; i < blocks; i++) {
    store_set_bit(span->store_level[0], i);
    store_raise(span->store_level[1], i / 64);
    store_raise(span->store_level[2], i / 64 / 64);
    store_raise(span->store_level[3], i / 64 / 64 / 64);
  }
}

void store_make(struct heap *heap, struct span *span, char *start, size_t block_size, uint32_t blocks,
                _Atomic uint64_t *words) {
  if (SECURE_VARIANT) {  // no links
    store_make_common(heap, span, start, block_size, blocks, words);
    return;
  }
  make_empty(heap, span, start, block_size, blocks, words);
  char *block = start + (size_t)blocks * block_size;
  void *next = NULL;
  for (uint32_t i = 0; i < blocks; i++) {
    block -= block_size;
    *(void **)block = next;
    next = block;
  }
  span->free = next;
}

// A late bit is of a thread that was interrupted between two instructions of store_mark, while the owner took what is
// below; it stays until the owner meets it, once. So there are few, and each way down clears one.
void *store_take_again(struct span *store) {
  enum { LATE_BITS = 4096 };
  for (unsigned i = 0; i < LATE_BITS && atomic_load_explicit(store->store_level[3], memory_order_seq_cst); i++) {
    void *block = store_take(store);
    if (block) return block;
  }
  return NULL;
}

// ---- what several threads take from ----

// One bit of the word; others take some of it, too. False: there is none, or another thread was faster.
RTM_INLINE bool take_bit(_Atomic uint64_t *words, uint64_t word, uint64_t *number) {
  uint64_t bits = atomic_load_explicit(&words[word], memory_order_seq_cst);
  *number = word * 64 + bits_lowest(bits);
  // What the thread that set it has done comes before.
  return RTM_LIKELY(bits != 0) && store_drop_bit(words, *number);
}

// As store_find, but for one bit. Whoever sets one again raises those above, as another thread may have cleared them
// meanwhile (proofs/spin/common.pml).
RTM_INLINE bool take_number(_Atomic uint64_t *const level[STORE_LEVELS], uint64_t *number) {
  _Atomic uint64_t *zero = level[0], *one = level[1], *two = level[2], *three = level[3];
  bool taken = false;
  uint64_t at_three = 0, bits;
  if (three) {
    bits = atomic_load_explicit(three, memory_order_seq_cst);
    if (!bits) return false;
    at_three = bits_lowest(bits);
  }
  bits = atomic_load_explicit(&two[at_three], memory_order_seq_cst);
  if (RTM_LIKELY(bits != 0)) {
    uint64_t at_two = at_three * 64 + bits_lowest(bits);
    bits = atomic_load_explicit(&one[at_two], memory_order_seq_cst);
    if (RTM_LIKELY(bits != 0)) {
      uint64_t at_one = at_two * 64 + bits_lowest(bits);
      taken = RTM_LIKELY(take_bit(zero, at_one, number)) || take_bit(zero, at_one, number) ||
              take_bit(zero, at_one, number);
      if (atomic_load_explicit(&zero[at_one], memory_order_seq_cst)) return taken;
      store_settle(one, at_one, &zero[at_one]);
    }
    if (atomic_load_explicit(&one[at_two], memory_order_seq_cst))
      store_raise(two, at_two);
    else
      store_settle(two, at_two, &one[at_two]);
  }
  if (!three) return taken;
  if (atomic_load_explicit(&two[at_three], memory_order_seq_cst))
    store_raise(three, at_three);
  else
    store_settle(three, at_three, &two[at_three]);
  return taken;
}

static bool has_any(_Atomic uint64_t *const level[STORE_LEVELS]) {
  return atomic_load_explicit(level[3] ? level[3] : level[2], memory_order_seq_cst);
}

static RTM_NOINLINE bool take_after_others(_Atomic uint64_t *const level[STORE_LEVELS], uint64_t *number) {
  enum { TRIES = 256 };
  for (unsigned i = 0; i < TRIES && has_any(level); i++)
    if (take_number(level, number)) return true;
  return false;
}

bool store_take_shared(_Atomic uint64_t *const level[STORE_LEVELS], uint64_t *number) {
  if (RTM_LIKELY(take_number(level, number))) return true;
  return has_any(level) && take_after_others(level, number);
}

void *store_take_common(struct span *store) {
  uint64_t number;
  return store_take_shared(store->store_level, &number) ? store->start + number * store->store_size : NULL;
}
