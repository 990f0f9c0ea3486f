// Stores: all blocks of one bin that a heap will ever need, made before they are needed (mode `pag`, and huge blocks of
// mode `seg`). Layer: above heap. Called by alloc and mode. docs/real-time.md has the argument.
//
// A store is one span whose granules all lead to one descriptor, whatever its length. For its heap it is the class's
// current page, for good: its owner's malloc and free stay on their fast paths, whatever is empty or full. Blocks that
// other threads free are bits in a tree of fixed depth beside it, and come back 64 at a time:
//
//     level 0   a bit for each block
//     level l   a bit for each word of level l - 1;  level 3 is one word: 64^4 blocks at most
//
//   another thread   sets the block's bit, then, from level 1 up, the bit of each word if it is clear
//   the owner        clears the bit of a word, then takes the word; an upper bit is cleared when its word became zero,
//   and
//                    set again if that is no longer so when looked at again
// So no block is hidden but those of threads that are between two of these instructions.
#ifndef RTM_STORE_H
#define RTM_STORE_H

#include "bin.h"
#include "heap.h"

enum { STORE_LEVELS = 4 };
#define STORE_BLOCKS_MAX ((uint64_t)1 << (6 * STORE_LEVELS))

// What a prepared heap has beside its stores for pages' classes, which are heap->page[class].
struct stores {
  struct span *large[BINS_LARGE];  // &rtm_no_page: none
  struct heap *general;            // serves what no store has; NULL until then
  uint64_t misses[BINS];           // by bin; bin 0: larger than any
  _Atomic bool taken;              // by a thread
  struct stores *next;             // all
  struct heap *heap;
  unsigned mode;  // enum mode
};

// Owns the stores of heaps that have pages and spans beside: huge blocks in mode `seg`. Every free into them is remote.
RTM_HIDDEN extern struct heap rtm_huge_stores;

// Bytes of the tree's words for so many blocks, and making the store: `span`, `start` and the words are the caller's,
// zeroed. All blocks are in its free list, in the order of their addresses. O(blocks + granules).
size_t store_words(uint64_t blocks);
void store_make(struct heap *heap, struct span *span, char *start, size_t block_size, uint32_t blocks,
                _Atomic uint64_t *words);
// A block that other threads have freed, in a store without a block in its list; NULL if there is none. O(1), no loop.
void *store_take(struct span *store);
// Does not return; not declared so, as then it would need a stack frame on the way there.
RTM_COLD void store_free_twice(const void *block);

// Bit `number` of an array of words: sets it and says what it was. On x86-64 one instruction finds the word by itself.
RTM_INLINE bool store_set_bit(_Atomic uint64_t *words, uint64_t number) {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  bool was;
  __asm__ volatile("lock btsq %2, %0" : "+m"(*words), "=@ccc"(was) : "r"(number) : "memory", "cc");
  return was;
#else
  uint64_t bit = UINT64_C(1) << (number % 64);
  return atomic_fetch_or_explicit(&words[number / 64], bit, memory_order_seq_cst) & bit;
#endif
}

RTM_INLINE bool store_has_bit(_Atomic uint64_t *words, uint64_t number) {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  bool is;
  __asm__ volatile("btq %2, %1" : "=@ccc"(is) : "m"(*words), "r"(number) : "memory", "cc");
  return is;
#else
  return atomic_load_explicit(&words[number / 64], memory_order_seq_cst) >> (number % 64) & 1;
#endif
}

// Sets it if it is clear. 2 instructions, 4 if it was.
RTM_INLINE void store_raise(_Atomic uint64_t *words, uint64_t number) {
  // As in hint.h: after the block's own bit, and pairs with the owner's clear.
  if (RTM_UNLIKELY(!store_has_bit(words, number))) store_set_bit(words, number);
}

// Frees a block of another thread's store. Any thread; wait-free, without a loop.
RTM_INLINE void store_mark(struct span *store, void *block) {
  uint64_t offset = (uint64_t)((char *)block - store->start);
  uint64_t number = (uint64_t)(((unsigned __int128)offset * store->store_reciprocal) >> 64);
  // Read before the block is given away.
  _Atomic uint64_t *one = store->store_level[1], *two = store->store_level[2], *three = store->store_level[3];
  if (RTM_UNLIKELY(store_set_bit(store->store_level[0], number))) {
    store_free_twice(block);
    return;
  }
  store_raise(one, number /= 64);
  store_raise(two, number /= 64);
  store_raise(three, number / 64);
}

#endif
