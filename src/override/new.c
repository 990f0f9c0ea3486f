// Every form of operator new and delete (C++17, [new.delete]) by its mangled name, so that no C++ runtime is needed.
// std::get_new_handler and the function that throws std::bad_alloc are the program's own: any program that calls these
// has them.
#include <stdbool.h>
#include <stdlib.h>

#include "../alloc.h"

#define EXPORT __attribute__((visibility("default")))

typedef void (*new_handler)(void);
extern new_handler get_new_handler(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
extern _Noreturn void throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));

// [new.delete.single]: calls the new handler until there is memory, or no handler; then throws, or returns NULL.
static RTM_COLD void *try_again(size_t size, size_t alignment, bool throws) {
  for (;;) {
    new_handler handler = get_new_handler ? get_new_handler() : NULL;
    if (!handler) {
      if (!throws) return NULL;
      if (throw_bad_alloc) throw_bad_alloc();
      abort();
    }
    handler();
    void *block = alloc_aligned(alignment, size);
    if (block) return block;
  }
}

RTM_INLINE void *new_block(size_t size, bool throws) {
  void *block = alloc_fast(size);
  return RTM_LIKELY(block != NULL) ? block : try_again(size, 1, throws);
}

RTM_INLINE void *new_aligned(size_t size, size_t alignment, bool throws) {
  void *block = alloc_aligned(alignment, size);
  return RTM_LIKELY(block != NULL) ? block : try_again(size, alignment, throws);
}

// m: std::size_t; RKSt9nothrow_t: const std::nothrow_t &; St11align_val_t: std::align_val_t
EXPORT void *_Znwm(size_t size) { return new_block(size, true); }
EXPORT void *_Znam(size_t size) { return new_block(size, true); }
EXPORT void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag) { return (void)tag, new_block(size, false); }
EXPORT void *_ZnamRKSt9nothrow_t(size_t size, const void *tag) { return (void)tag, new_block(size, false); }
EXPORT void *_ZnwmSt11align_val_t(size_t size, size_t alignment) { return new_aligned(size, alignment, true); }
EXPORT void *_ZnamSt11align_val_t(size_t size, size_t alignment) { return new_aligned(size, alignment, true); }
EXPORT void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag) {
  return (void)tag, new_aligned(size, alignment, false);
}
EXPORT void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag) {
  return (void)tag, new_aligned(size, alignment, false);
}

EXPORT void _ZdlPv(void *block) { free_fast(block); }
EXPORT void _ZdaPv(void *block) { free_fast(block); }
EXPORT void _ZdlPvm(void *block, size_t size) { (void)size, free_fast(block); }
EXPORT void _ZdaPvm(void *block, size_t size) { (void)size, free_fast(block); }
EXPORT void _ZdlPvRKSt9nothrow_t(void *block, const void *tag) { (void)tag, free_fast(block); }
EXPORT void _ZdaPvRKSt9nothrow_t(void *block, const void *tag) { (void)tag, free_fast(block); }
EXPORT void _ZdlPvSt11align_val_t(void *block, size_t alignment) { (void)alignment, free_fast(block); }
EXPORT void _ZdaPvSt11align_val_t(void *block, size_t alignment) { (void)alignment, free_fast(block); }
EXPORT void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t alignment) {
  (void)size, (void)alignment, free_fast(block);
}
EXPORT void _ZdaPvmSt11align_val_t(void *block, size_t size, size_t alignment) {
  (void)size, (void)alignment, free_fast(block);
}
EXPORT void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *block, size_t alignment, const void *tag) {
  (void)alignment, (void)tag, free_fast(block);
}
EXPORT void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *block, size_t alignment, const void *tag) {
  (void)alignment, (void)tag, free_fast(block);
}
