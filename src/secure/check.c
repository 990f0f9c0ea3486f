// What is certain of a block: that it is one, that it is in use, and, with canaries, how long it was asked for. See
// secure.h.
//
//   page, store   [ size bytes | pattern ....... | word ]   block size bytes; word = canary of the address ^ slack<<32,
//                                <---- slack ---->          slack = block size - 8 - size
//   medium, huge  [ size bytes | word | ... ]               size is in the span's descriptor: private[0]
//
// Of the pattern, the first eight bytes are set and looked at: an overflow passes them. The slack lies in the upper
// half of the word, as an overflow changes the lower half first, which no slack has part in.
#include <string.h>

#include "../alloc.h"
#include "../huge.h"
#include "../message.h"
#include "../store.h"
#include "secure.h"

enum { WORD = sizeof(uint64_t) };

static const char destroyed[] = "no block starts there: it was freed before, or never allocated";
static const char interior[] = "no block in use starts there: the pointer lies inside one, or it was never handed out";
static const char already[] = "the block is free already";

void secure_found_twice(const struct span *page) {
  message_misuse(page->start, "double free", "a block of this page was freed by two threads at once");
}

// ---- is it a block in use? ----

static bool store_is_free(struct span *store, uint64_t number) {
  if (store_has_bit(store->store_level[0], number)) return true;
  return __atomic_load_n(&store->store_at, __ATOMIC_SEQ_CST) == number / 64 &&
         __atomic_load_n(&store->store_found, __ATOMIC_SEQ_CST) >> (number % 64) & 1;
}

static void check_store(const char *block, struct span *store, const char *what) {
  uint64_t offset = (uint64_t)(block - store->start);
  uint64_t number = (uint64_t)(((unsigned __int128)offset * store->store_reciprocal) >> 64);
  if (number >= store->store_blocks || number * store->store_size != offset) message_misuse(block, what, interior);
  if (store_is_free(store, number)) message_misuse(block, "double free", already);
}

static void check_page(const char *block, struct span *page, const char *what) {
  uint32_t number = secure_number(page, block);
  if (number == UINT32_MAX) message_misuse(block, what, interior);
  if (secure_is_free(page, block, number)) message_misuse(block, "double free", already);
}

static void check_alone(const char *block, struct span *span, const char *what) {
  if (block != span->start) message_misuse(block, what, interior);
  if (span->kind == SPAN_MEDIUM && atomic_load_explicit(&span->remote[0], memory_order_seq_cst))
    message_misuse(block, "double free", already);
}

static size_t extent(const struct span *span) {
  if (span->kind == SPAN_HUGE) return huge_size(span);
  if (span->kind == SPAN_STORE) return span->store_size;
  if (span->kind == SPAN_MEDIUM) return (size_t)(span->length - span_guard()) << GRANULE_SHIFT;
  return rtm_shape[span->kind].block_size;
}

// ---- canaries ----

static uint64_t canary(const void *block) {
  uint64_t mixed = ((uintptr_t)block ^ rtm_secure.key[2]) * rtm_secure.key[3];
  return mixed ^ mixed >> 32;
}

static uint64_t read_word(const char *at) {
  uint64_t word;
  memcpy(&word, at, WORD);
  return word;
}
static void write_word(char *at, uint64_t word) { memcpy(at, &word, WORD); }

// The slack for the word, and back.
static uint64_t halves_swapped(uint64_t word) { return word << 32 | word >> 32; }

static bool is_alone(const struct span *span) { return span->kind == SPAN_MEDIUM || span->kind == SPAN_HUGE; }

// In a page or a store, where blocks are `most` bytes long.
RTM_INLINE void seal_within(char *block, size_t size, size_t most) {
  size_t slack = most - WORD - size;
  write_word(block + size, rtm_secure.key[1]);  // the word comes last: it may lie over the pattern's end
  write_word(block + most - WORD, canary(block) ^ halves_swapped(slack));
}

void *secure_seal(void *block, size_t size) {
  struct span *span = span_of(window_granule(block));
  if (is_alone(span)) {
    span->private[0] = size;
    write_word((char *)block + size, canary(block));
  } else {
    seal_within(block, size, extent(span));
  }
  return block;
}

static RTM_COLD _Noreturn void overflown(const void *block) {
  message_misuse(block, "overflow", "bytes behind the block have changed since it was allocated");
}

// Returns the size that was sealed.
RTM_INLINE size_t unseal_within(const char *block, size_t most) {
  most -= WORD;
  uint64_t slack = halves_swapped(read_word(block + most) ^ canary(block));
  if (RTM_UNLIKELY(slack > most)) overflown(block);
  uint64_t changed = read_word(block + most - slack) ^ rtm_secure.key[1];
  if (slack < WORD) changed &= ~(~UINT64_C(0) << (8 * slack));
  if (RTM_UNLIKELY(changed)) overflown(block);
  return most - slack;
}

static size_t unseal(const char *block, const struct span *span) {
  if (!is_alone(span)) return unseal_within(block, extent(span));
  size_t size = span->private[0];
  if (size + WORD > extent(span) || read_word(block + size) != canary(block)) overflown(block);
  return size;
}

size_t secure_check(const void *block, struct span *span, const char *what) {
  if (span_tag(span) == TAG_NONE) message_misuse(block, what, destroyed);
  if (span_is_page(span))
    check_page(block, span, what);
  else if (span->kind == SPAN_STORE)
    check_store(block, span, what);
  else if (is_alone(span))
    check_alone(block, span, what);
  else
    message_misuse(block, what, destroyed);
  return rtm_secure.features & SECURE_CANARIES ? unseal(block, span) : extent(span) - rtm_secure.pad;
}

// ---- malloc and free ----

void *secure_malloc(size_t size) {
  size_t padded = secure_pad(size);
  if (RTM_UNLIKELY(padded > BLOCK_MAX) || RTM_UNLIKELY(rtm_secure.features & SECURE_ALONE))
    return secure_dress(alloc_plain(padded), size);
  char *block = secure_alloc_small(padded);
  if (RTM_UNLIKELY(block == NULL) || !(rtm_secure.features & SECURE_CANARIES)) return block;
  // (A store may serve several classes.)
  if (RTM_UNLIKELY(rtm_heap->stores != NULL)) return secure_seal(block, size);
  seal_within(block, size, rtm_shape[size_class(padded)].block_size);
  return block;
}

RTM_INLINE void free_usual(void *block, struct span *span) {
  if (span->kind == SPAN_STORE) {
    store_mark(span, block);
  } else if (span_is_page(span) && span_tag(span) == (uintptr_t)rtm_fast_heap) {
    secure_put(span, block);
    if (RTM_UNLIKELY(--span->used == 0)) page_emptied(rtm_fast_heap, span);
  } else {
    free_slow(block, span, span_tag(span));
  }
}

static void free_in_page(void *block, struct span *page) {
  check_page(block, page, "invalid free");
  uint32_t features = rtm_secure.features;
  size_t size = rtm_shape[page->kind].block_size;
  if (features & SECURE_CANARIES) unseal_within(block, size);
  if (features & SECURE_ZERO) memset(block, 0, size);
  if (!(features & SECURE_QUARANTINE) || !secure_delay(page, block)) free_usual(block, page);
}

static void free_alone(void *block, struct span *span) {
  secure_check(block, span, "invalid free");
  if (is_alone(span)) span->private[0] = 0;  // a page that gets the descriptor relies on it
  // A huge block's contents go back to the system (secure_give_run).
  if (rtm_secure.features & SECURE_ZERO && span->kind != SPAN_HUGE) memset(block, 0, extent(span));
  if (!(rtm_secure.features & SECURE_QUARANTINE) || !secure_delay(span, block)) free_usual(block, span);
}

void secure_free(void *block, struct span *span) {
  if (RTM_LIKELY(span_is_page(span)) && RTM_LIKELY(span_tag(span) != TAG_NONE))
    free_in_page(block, span);
  else
    free_alone(block, span);
}
