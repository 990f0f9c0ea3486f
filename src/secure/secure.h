// What the secure variant does beside the core (docs/secure.md). Layer: above span, os. The core calls it under
// `if (SECURE_VARIANT)`, or by the inline functions here, which are empty in the other variants.
//
// In the secure variant no free block of a page has a link in it: a bit of span->private says that it is free, or
// span->free that it is the next to be handed out, or a bit of span->remote that another thread has freed it or that it
// waits in the quarantine.
#ifndef RTM_SECURE_H
#define RTM_SECURE_H

#include "../span.h"

struct heap;

enum secure_feature {
  SECURE_GUARDS = 1,         // pages of no access around heaps and hints (those around segments are always there)
  SECURE_RANDOM = 2,         // random order of blocks
  SECURE_PLACEMENT = 4,      // random place of the window
  SECURE_CANARIES = 8,       // behind each block, checked on free
  SECURE_GAPS = 16,          // 64 bytes more behind each block
  SECURE_ZERO = 32,          // contents are zeroed on free
  SECURE_QUARANTINE = 64,    // reuse is delayed
  SECURE_GUARD_PAGES = 128,  // a granule of no access behind every page and medium block
  SECURE_ALONE = 256,        // small blocks have spans of their own
  // With any of these a free is longer than to check that the block is in use.
  SECURE_MORE_TO_DO = SECURE_CANARIES | SECURE_ZERO | SECURE_QUARANTINE,
};

// What is on, and how many bytes each block is longer for it. Set before the first heap is made.
struct secure {
  uint32_t features;
  uint32_t pad;      // bytes
  size_t fast_size;  // requests below it take the short way; 0: none
  uint64_t key[4];   // from getrandom; [3] is odd
};
RTM_HIDDEN extern struct secure rtm_secure;
RTM_HIDDEN extern _Thread_local uint64_t rtm_secure_turn __attribute__((tls_model("initial-exec")));

// Reads RTMALLOC_SECURE (`value` may be NULL) and the keys. `real_time`: the mode is not general, or a profile is
// recorded for another one.
void secure_start(const char *value, bool real_time);
// Bytes by which the window is moved, at most `room`; a multiple of the segment size.
uintptr_t secure_shift(uintptr_t room);
// Zeroed memory with a granule of no access at either end; returns what is between. NULL: refused.
void *secure_map_guarded(size_t bytes);
// Takes the last granule of a page or medium block away, and gives it back.
void secure_guard(const struct span *span);
void secure_unguard(const struct span *span);
// The granule there has no access from now on, or has it again. False: the system refuses.
bool secure_deny(char *granule);
bool secure_permit(char *granule);
void secure_unguard_segment(uint32_t segment);  // all that is mapped of it
// A heap was made: its quarantine. False: out of memory.
bool secure_heap_made(struct heap *heap);
// A huge block's run goes back to the arena, at once or later, with or without its contents.
void secure_give_run(struct span *run);
// Everything that waits in the heap's quarantine is freed now. O(1): the quarantine has a fixed size.
void secure_flush(struct heap *heap);

// Looks at a block that is to be freed or resized: aborts with a line that says what is wrong if it is no block in use,
// or if its canary has changed. Returns the bytes that the program may use. O(1).
size_t secure_check(const void *block, struct span *span, const char *what);
// Notes the size that the program asked for, and sets the canary.
void *secure_seal(void *block, size_t size);
// The thread's own block waits from now on, another goes. False: it is to be freed at once. O(1).
bool secure_delay(struct span *span, void *block);
// The rest of malloc and free in the secure variant: everything but the usual one.
void *secure_malloc(size_t size);
void secure_free(void *block, struct span *span);

// A request of `size` bytes takes so many. What is impossible stays so.
RTM_INLINE size_t secure_pad(size_t size) {
  if (!SECURE_VARIANT || size > PTRDIFF_MAX) return size;
  return size + rtm_secure.pad;
}
RTM_INLINE void *secure_dress(void *block, size_t size) {
  if (!SECURE_VARIANT || !(rtm_secure.features & SECURE_CANARIES) || !block) return block;
  return secure_seal(block, size);
}

// A number that somebody without the key does not know, another one each time and for each place, as all threads count
// alike; 0 if order is not random. A multiplication under the key, both halves of the product mixed. 11 instructions.
RTM_INLINE uint64_t secure_random(const void *place) {
  if (!(rtm_secure.features & SECURE_RANDOM)) return 0;
  uint64_t turn = rtm_secure_turn += UINT64_C(0x9e3779b97f4a7c15);
  unsigned __int128 product =
      (unsigned __int128)(turn ^ rtm_secure.key[0]) * ((uintptr_t)place ^ turn ^ rtm_secure.key[1]);
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// Whether a medium block may change its size in place: not if what is given up must be zeroed or a guard be moved.
RTM_INLINE bool secure_may_resize(void) { return !(rtm_secure.features & (SECURE_ZERO | SECURE_GUARD_PAGES)); }

// ---- pages ----

RTM_INLINE bool secure_is_free(struct span *page, const void *block, uint32_t number) {
  // In this order: what the owner collects is in `private` before it leaves `remote`, and what it chooses is in `free`
  // before it leaves `private`.
  uint64_t bits = atomic_load_explicit(&page->remote[number / 64], memory_order_seq_cst);
  bits |= __atomic_load_n(&page->private[number / 64], __ATOMIC_SEQ_CST);
  return bits >> (number % 64) & 1 || __atomic_load_n(&page->free, __ATOMIC_RELAXED) == block;
}

// The number of the block that starts there; UINT32_MAX if none does, or if it was never handed out. The product's
// lower half is below the reciprocal where the division has no rest, and only there (proofs/arithmetic.c). Never in a
// store.
RTM_INLINE uint32_t secure_number(const struct span *page, const void *block) {
  uint64_t product = (uint64_t)((const char *)block - page->start) * page->reciprocal;
  if (RTM_UNLIKELY((uint32_t)product >= page->reciprocal)) return UINT32_MAX;
  uint32_t number = (uint32_t)(product >> 32);
  return RTM_LIKELY(number < RTM_READ_RELAXED(page->fresh)) ? number : UINT32_MAX;
}

// The same of a block that is known to be one.
RTM_INLINE uint32_t secure_place(const struct span *page, const void *block) {
  return (uint32_t)(((uint64_t)((const char *)block - page->start) * page->reciprocal) >> 32);
}

// The block becomes free, or is so already.
RTM_INLINE void secure_put(struct span *page, void *block) {
  if (page->free == block) return;
  if (!page->free) {
    RTM_WRITE_RELAXED(page->free, block);
    return;
  }
  uint32_t number = secure_place(page, block);
  uint64_t *word = &page->private[number / 64];
  __atomic_store_n(word, bits_set(*word, number), __ATOMIC_RELAXED);
}

// A page's next block is chosen ahead: so it is there at once, however long the choice takes. It comes from one word of
// `private`, the hand: the first free block from a random place on, which is the upper bits of `order`; that is
// multiplied by an odd key each time, and 0 stays 0. Where the hand has no more, another word is taken (secure_refill),
// or one of fresh blocks (secure_extend).
enum { SECURE_PLACE_SHIFT = 58 };
_Static_assert(64 >> (64 - SECURE_PLACE_SHIFT) == 1, "a place for each bit of a word");

// The page becomes its class's current one.
RTM_INLINE void secure_open(struct span *page) {
  page->hand = 0;
  page->hand_size = rtm_shape[page->kind].block_size;
}

// `order`: its heap's.
RTM_INLINE void secure_choose(struct span *page, uint64_t *order) {
  uint32_t hand = page->hand;
  uint64_t *word = (uint64_t *)((char *)page->private + hand), bits = *word, random = *order;
  *order = random * rtm_secure.key[3];
  unsigned from = (unsigned)(random >> SECURE_PLACE_SHIFT);
  unsigned place = from + (unsigned)bits_lowest_if_any(bits_rotate_right(bits, from));
  char *block = page->start + (hand * 8 + place % 64) * page->hand_size;
  RTM_KEEP(block);  // no jump: whether the hand has another block is hard to foresee
  RTM_WRITE_RELAXED(page->free, bits ? block : NULL);
  // Release: whoever sees that the bit is clear sees why (secure_is_free).
  __atomic_store_n(word, bits_clear(bits, place), __ATOMIC_RELEASE);
}

// The chosen block, of which there is one; the page is current.
RTM_INLINE void *secure_next(struct span *page, uint64_t *order) {
  void *block = page->free;
  page->used++;
  secure_choose(page, order);
  return block;
}

// A block of the current page that has none chosen, though there are some in `private`. `ahead`: the next one is
// chosen, too.
void *secure_refill(struct span *page, bool ahead);

// A fresh block of the current page: those up to the end of their word become free ones. There are no others.
void *secure_extend(struct span *page, bool ahead);

// What other threads have freed in a word: in `private` before it leaves `remote`, so that a double free is always
// seen.
void secure_found_twice(const struct span *page);
RTM_INLINE uint64_t secure_collect(struct span *page, unsigned w) {
  uint64_t bits = atomic_load_explicit(&page->remote[w], memory_order_seq_cst), free = page->private[w];
  if (page->free && secure_place(page, page->free) / 64 == w) free = bits_set(free, secure_place(page, page->free));
  if (RTM_UNLIKELY(free & bits)) secure_found_twice(page);
  __atomic_store_n(&page->private[w], page -> private[w] | bits, __ATOMIC_SEQ_CST);
  atomic_fetch_and_explicit(&page->remote[w], ~bits, memory_order_seq_cst);
  return bits;
}

// ---- stores (store.h): every free block is a bit of level 0, or of the word that its owner took ----

RTM_INLINE uint64_t secure_collect_store(struct span *store, uint64_t at) {
  _Atomic uint64_t *word = &store->store_level[0][at];
  uint64_t found = atomic_load_explicit(word, memory_order_seq_cst);
  __atomic_store_n(&store->store_at, (uint32_t)at, __ATOMIC_SEQ_CST);
  __atomic_store_n(&store->store_found, found, __ATOMIC_SEQ_CST);
  atomic_fetch_and_explicit(word, ~found, memory_order_seq_cst);
  return found;
}
// One of `bits` of the word store_at; the others stay.
RTM_INLINE void *secure_take_store(struct span *store, uint64_t bits) {
  // The first from a random place on.
  unsigned turn = (unsigned)secure_random(store);
  unsigned place = (bits_lowest(bits_rotate_right(bits, turn)) + turn) % 64;
  __atomic_store_n(&store->store_found, bits & ~(UINT64_C(1) << place), __ATOMIC_SEQ_CST);
  return store->start + ((uint64_t)store->store_at * 64 + place) * store->store_size;
}

#endif
