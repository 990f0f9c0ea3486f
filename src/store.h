// Stores: all blocks of one bin that a heap will ever need, made before they are needed (mode `pag`, and huge blocks of
// mode `seg`). Layer: above heap. Called by alloc and prepare. docs/real-time.md has the argument.
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
#include "secure/secure.h"

enum { STORE_LEVELS = 4 };
#define STORE_BLOCKS_MAX ((uint64_t)1 << (6 * STORE_LEVELS))

// What a prepared heap has beside its stores for pages' classes, which are heap->page[class].
struct stores {
  struct span *large[BINS_LARGE];  // &rtm_no_store: none
  struct heap *general;            // serves what no store has; NULL until then
  uint64_t misses[BINS];           // by bin; bin 0: larger than any
  struct stores *next;             // all
  struct heap *heap;
  struct stores *common;  // of all threads, where some race (mode `pag`); NULL: there are none
  struct group *group;  // of its start routine, and its number there (prepared.c)
  uint32_t number;
  unsigned mode;              // enum mode
  struct thread_start start;  // for the thread that the heap was taken for, until it has begun
  size_t extent_max;          // mode `seg`: what is above BLOCK_MAX and not above this comes from the extent; else 0
};

// Owns the stores of heaps that have pages and spans beside: huge blocks in mode `seg`. Every free into them is remote.
RTM_HIDDEN extern struct heap rtm_huge_stores;

// Bytes of the tree's words for so many blocks, and making the store: `span`, `start` and the words are the caller's,
// zeroed. All blocks are in its free list, in the order of their addresses; of a common one in its tree, as if another
// thread had freed them. O(blocks + granules).
size_t store_words(uint64_t blocks);
void store_make_common(struct heap *heap, struct span *span, char *start, size_t block_size, uint32_t blocks,
                       _Atomic uint64_t *words);
void store_make(struct heap *heap, struct span *span, char *start, size_t block_size, uint32_t blocks,
                _Atomic uint64_t *words);
// The tree alone: for any blocks of one size from `start` on.
void store_make_tree(struct span *span, char *start, size_t block_size, uint32_t blocks, _Atomic uint64_t *words);
// After one way down that met a late bit: others. NULL: nothing is there.
void *store_take_again(struct span *store);
// A block of a common store, for any thread (store_take_shared). NULL: there is none.
void *store_take_common(struct span *store);
// Stand where a heap has no store: never have a block. For each class one, so that it stands for a size.
RTM_HIDDEN extern struct span rtm_no_store[CLASSES + 1];
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

// Clears it and says what it was.
RTM_INLINE bool store_drop_bit(_Atomic uint64_t *words, uint64_t number) {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  bool was;
  __asm__ volatile("lock btrq %2, %0" : "+m"(*words), "=@ccc"(was) : "r"(number) : "memory", "cc");
  return was;
#else
  uint64_t bit = UINT64_C(1) << (number % 64);
  return atomic_fetch_and_explicit(&words[number / 64], ~bit, memory_order_seq_cst) & bit;
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

// Clears bit `number`, and sets it again if the word below has something now.
RTM_INLINE void store_settle(_Atomic uint64_t *words, uint64_t number, _Atomic uint64_t *below) {
  store_drop_bit(words, number);
  if (RTM_UNLIKELY(atomic_load_explicit(below, memory_order_seq_cst))) store_set_bit(words, number);
}

// One way down the tree, to a word that other threads have freed blocks in; nothing if there is none, or if a bit was
// late. No loop.
RTM_INLINE uint64_t store_find(struct span *store) {
  _Atomic uint64_t *three = store->store_level[3];
  uint64_t found = 0, bits = atomic_load_explicit(three, memory_order_seq_cst);
  if (!bits) return 0;
  uint64_t at_three = bits_lowest(bits);
  _Atomic uint64_t *two = store->store_level[2];
  bits = atomic_load_explicit(&two[at_three], memory_order_seq_cst);
  if (RTM_LIKELY(bits != 0)) {
    uint64_t at_two = at_three * 64 + bits_lowest(bits);
    _Atomic uint64_t *one = store->store_level[1];
    bits = atomic_load_explicit(&one[at_two], memory_order_seq_cst);
    if (RTM_LIKELY(bits != 0)) {
      uint64_t at_one = at_two * 64 + bits_lowest(bits);
      // The bit is cleared first: a free that comes after the exchange sets it again.
      store_drop_bit(one, at_one);
      // Acquire: what the freeing threads did with the blocks comes before their next use.
      found = SECURE_VARIANT ? secure_collect_store(store, at_one)
                             : atomic_exchange_explicit(&store->store_level[0][at_one], 0, memory_order_seq_cst);
      store->store_at = (uint32_t)at_one;
      if (atomic_load_explicit(&one[at_two], memory_order_seq_cst)) return found;
    }
    store_settle(two, at_two, &one[at_two]);
    if (atomic_load_explicit(&two[at_three], memory_order_seq_cst)) return found;
  }
  store_settle(three, at_three, &two[at_three]);
  return found;
}

// Nothing that other threads have freed, but for what is on its way.
RTM_INLINE bool store_is_empty(const struct span *store) {
  return !atomic_load_explicit(store->store_level[3], memory_order_seq_cst);
}

// A block that other threads have freed, in a store without a block in its list; NULL if there is none, or if a bit was
// late (store_take_again). O(1), no loop.
RTM_INLINE void *store_take(struct span *store) {
  uint64_t bits = store->store_found;
  if (!bits) {
    bits = store_find(store);
    if (RTM_UNLIKELY(!bits)) return NULL;
  }
  if (SECURE_VARIANT) return secure_take_store(store, bits);
  store->store_found = bits & (bits - 1);
  return store->start + (store->store_at * UINT64_C(64) + bits_lowest(bits)) * store->store_size;
}

// Its owner's: the first of its list, or one that other threads have freed. NULL: there is none.
RTM_INLINE void *store_take_first(struct span *store) {
  void *block = store->free;
  if (RTM_UNLIKELY(!block)) return store_take(store);
  store->free = *(void **)block;
  store->used++;
  return block;
}

// ---- what several threads take from ----

// One bit of the word; others take some of it, too. False: there is none, or another thread was faster.
RTM_INLINE bool store_take_bit(_Atomic uint64_t *words, uint64_t word, uint64_t *number) {
  uint64_t bits = atomic_load_explicit(&words[word], memory_order_seq_cst);
  *number = word * 64 + bits_lowest(bits);
  // What the thread that set it has done comes before.
  return RTM_LIKELY(bits != 0) && store_drop_bit(words, *number);
}

// As store_find, but for one bit, in a tree of three levels or four. Whoever sets one again raises those above, as
// another thread may have cleared them meanwhile (proofs/spin/common.pml).
RTM_INLINE bool store_take_number(_Atomic uint64_t *const *level, unsigned levels, uint64_t *number) {
  _Atomic uint64_t *zero = level[0], *one = level[1], *two = level[2], *three = levels > 3 ? level[3] : NULL;
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
      taken = RTM_LIKELY(store_take_bit(zero, at_one, number)) || store_take_bit(zero, at_one, number) ||
              store_take_bit(zero, at_one, number);
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

// Takes one bit, of `count`, for any thread. False: there is none. One way down; and where nothing was found, as other
// threads were ahead three times, or a bit was late, or is hidden, each word of the first 262,144 bits.
bool store_take_after_others(_Atomic uint64_t *words, uint64_t count, uint64_t *number);
RTM_INLINE bool store_take_shared(_Atomic uint64_t *const *level, unsigned levels, uint64_t count, uint64_t *number) {
  return RTM_LIKELY(store_take_number(level, levels, number)) || store_take_after_others(level[0], count, number);
}

#endif
