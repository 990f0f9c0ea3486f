// Bit arithmetic without loops or calls. Bottom layer; used by every layer above.
#ifndef RTM_BITS_H
#define RTM_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#define RTM_LIKELY(x) __builtin_expect(!!(x), 1)
#define RTM_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define RTM_NOINLINE __attribute__((noinline))
#define RTM_INLINE static inline __attribute__((always_inline))
#define RTM_COLD __attribute__((noinline, cold))
// The value stays in its register: the compiler would compute an address anew wherever it is used.
#define RTM_KEEP(value) __asm__("" : "+r"(value))
// What sealed paths run and read lies together, whichever file it is of: the first operation of all finds it in fewer
// pages and lines that no cache has (docs/real-time.md, LOAT).
#define RTM_DATA_TOGETHER __attribute__((section("rtm_data")))
#define RTM_CODE_TOGETHER __attribute__((section(".text.hot.rtm")))
// Data shared by files of the library: addressed directly, not through the global offset table.
#define RTM_HIDDEN __attribute__((visibility("hidden")))

// Index of the lowest set bit; `word` is not zero. (bsf, or tzcnt where there is one: for the builtin gcc clears a
// register first.)
RTM_INLINE uint64_t bits_lowest(uint64_t word) {
#if defined(__x86_64__)
  uint64_t place;
  __asm__("rep bsfq %1, %0" : "=r"(place) : "r"(word) : "cc");
  return place;
#else
  return (uint64_t)__builtin_ctzll(word);
#endif
}

// The same, or any index if the word is zero.
RTM_INLINE uint64_t bits_lowest_if_any(uint64_t word) {
#if defined(__x86_64__)
  return bits_lowest(word);
#else
  return word ? bits_lowest(word) : 64;
#endif
}

// Index of the highest set bit; `word` is not zero. (After the builtin gcc clears the upper half once more.)
RTM_INLINE uint64_t bits_highest(uint64_t word) {
#if defined(__x86_64__)
  uint64_t place;
  __asm__("bsrq %1, %0" : "=r"(place) : "r"(word) : "cc");
  return place;
#else
  return 63u ^ (uint64_t)__builtin_clzll(word);
#endif
}

// floor(log2(value)); `value` is not zero.
RTM_INLINE unsigned bits_log2(uint32_t value) { return 31u ^ (unsigned)__builtin_clz(value); }

// Number of set bits. Written out: the builtin is a call into libgcc on baseline x86-64. 12 instructions.
RTM_INLINE unsigned bits_count(uint64_t word) {
  word -= (word >> 1) & 0x5555555555555555u;
  word = (word & 0x3333333333333333u) + ((word >> 2) & 0x3333333333333333u);
  word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return (unsigned)((word * 0x0101010101010101u) >> 56);
}

// Once, before bits_count_quickly is called.
void bits_start(void);

// The same in 3 instructions on processors since 2008, which have one for it; looked at as the library runs, as the
// compiler may not use it on baseline x86-64. The other way is a function of bits.c that changes no other register, so
// that the compiler need not save any; below the red zone.
#if defined(__x86_64__) && !defined(__POPCNT__)
RTM_HIDDEN extern bool rtm_has_popcnt;
RTM_INLINE unsigned bits_count_quickly(uint64_t word) {
  __asm__(
      "cmpb $0, rtm_has_popcnt(%%rip)\n\t"
      "jne 1f\n\t"
      "leaq -128(%%rsp), %%rsp\n\t"
      "call bits_count_without_popcnt\n\t"
      "leaq 128(%%rsp), %%rsp\n\t"
      "jmp 2f\n"
      "1:\tpopcntq %0, %0\n"
      "2:"
      : "+a"(word)
      : "m"(rtm_has_popcnt)
      : "cc");
  return (unsigned)word;
}
#else
RTM_INLINE unsigned bits_count_quickly(uint64_t word) { return bits_count(word); }
#endif

RTM_INLINE bool bits_is_power_of_two(size_t value) { return value != 0 && (value & (value - 1)) == 0; }

// The word with bit `place` % 64 set, or clear: one instruction, which the compiler does not use where the word is in
// memory.
RTM_INLINE uint64_t bits_set(uint64_t word, uint64_t place) {
#if defined(__x86_64__)
  __asm__("btsq %1, %0" : "+r"(word) : "r"(place) : "cc");
  return word;
#else
  return word | UINT64_C(1) << place % 64;
#endif
}
RTM_INLINE uint64_t bits_clear(uint64_t word, uint64_t place) {
#if defined(__x86_64__)
  __asm__("btrq %1, %0" : "+r"(word) : "r"(place) : "cc");
  return word;
#else
  return word & ~(UINT64_C(1) << place % 64);
#endif
}

RTM_INLINE uint64_t bits_rotate_right(uint64_t word, unsigned places) {
  return word >> places % 64 | word << -places % 64;
}

// `alignment` is a power of two; the caller has checked that the sum does not overflow.
RTM_INLINE size_t bits_round_up(size_t value, size_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

// A relaxed read of a word that another thread may be writing, on the fast paths. A plain read there, so that the
// compiler folds it into the comparison (one instruction less); an aligned word does not tear on either architecture.
#if defined(__SANITIZE_THREAD__)
#define RTM_READ_RELAXED(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
#else
#define RTM_READ_RELAXED(word) (word)
#endif
#define RTM_WRITE_RELAXED(word, value) __atomic_store_n(&(word), value, __ATOMIC_RELAXED)

#endif
