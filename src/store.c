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
  for (uint32_t i = 0; i < blocks; i++) store_mark(span, start + i * block_size);
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

// Who clears a bit above, and looks again, hides what is below it for a moment.
bool store_take_after_others(_Atomic uint64_t *words, uint64_t count, uint64_t *number) {
  enum { TRIES = 256, WORDS = 4096 };
  for (uint64_t word = 0; word < words_for(count) && word < WORDS; word++)
    for (unsigned i = 0; i < TRIES && atomic_load_explicit(&words[word], memory_order_seq_cst); i++)
      if (store_take_bit(words, word, number)) return true;
  return false;
}

void *store_take_common(struct span *store) {
  uint64_t number;
  bool taken = store_take_shared(store->store_level, STORE_LEVELS, store->store_blocks, &number);
  return taken ? store->start + number * store->store_size : NULL;
}
