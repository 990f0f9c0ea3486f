// Every form of operator new and delete (C++17, [new.delete]) by its mangled name, so that no C++ runtime is needed.
// std::get_new_handler and the function that throws std::bad_alloc are the program's own: any program that calls these
// has them.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "../alloc.h"

#define EXPORT __attribute__((visibility("default")))

typedef void (*new_handler)(void);
extern new_handler get_new_handler(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
extern _Noreturn void throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));

// [new.delete.single]: calls the new handler until there is memory, or no handler; then throws.
static RTM_COLD void *try_again(size_t size, size_t alignment) {
  for (;;) {
    new_handler handler = get_new_handler ? get_new_handler() : NULL;
    if (!handler) {
      if (throw_bad_alloc) throw_bad_alloc();
      abort();
    }
    handler();
    void *block = alloc_aligned(alignment, size);
    if (block) return block;
  }
}

// The nothrow forms: as above, but an exception becomes NULL, also one that the handler throws. Catching is a matter of
// C++: the runtime's own nothrow form does it, and calls our throwing form inside.
static RTM_COLD void *try_again_nothrow(size_t size, size_t alignment, const void *tag) {
  if (!get_new_handler || !get_new_handler()) return NULL;
  if (alignment == 1) {
    void *(*next)(size_t, const void *) = (void *(*)(size_t, const void *))dlsym(RTLD_NEXT, "_ZnwmRKSt9nothrow_t");
    return next ? next(size, tag) : NULL;
  }
  void *(*next)(size_t, size_t, const void *) =
      (void *(*)(size_t, size_t, const void *))dlsym(RTLD_NEXT, "_ZnwmSt11align_val_tRKSt9nothrow_t");
  return next ? next(size, alignment, tag) : NULL;
}

RTM_INLINE void *new_block(size_t size) {
  void *block = alloc_fast(size);
  return RTM_LIKELY(block != NULL) ? block : try_again(size, 1);
}

RTM_INLINE void *new_aligned(size_t size, size_t alignment) {
  void *block = alloc_aligned(alignment, size);
  return RTM_LIKELY(block != NULL) ? block : try_again(size, alignment);
}

RTM_INLINE void *new_block_nothrow(size_t size, const void *tag) {
  void *block = alloc_fast(size);
  return RTM_LIKELY(block != NULL) ? block : try_again_nothrow(size, 1, tag);
}

RTM_INLINE void *new_aligned_nothrow(size_t size, size_t alignment, const void *tag) {
  void *block = alloc_aligned(alignment, size);
  return RTM_LIKELY(block != NULL) ? block : try_again_nothrow(size, alignment, tag);
}

// m: std::size_t; RKSt9nothrow_t: const std::nothrow_t &; St11align_val_t: std::align_val_t
EXPORT void *_Znwm(size_t size) { return new_block(size); }
EXPORT void *_Znam(size_t size) { return new_block(size); }
EXPORT void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag) { return new_block_nothrow(size, tag); }
EXPORT void *_ZnamRKSt9nothrow_t(size_t size, const void *tag) { return new_block_nothrow(size, tag); }
EXPORT void *_ZnwmSt11align_val_t(size_t size, size_t alignment) { return new_aligned(size, alignment); }
EXPORT void *_ZnamSt11align_val_t(size_t size, size_t alignment) { return new_aligned(size, alignment); }
EXPORT void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag) {
  return new_aligned_nothrow(size, alignment, tag);
}
EXPORT void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag) {
  return new_aligned_nothrow(size, alignment, tag);
}

EXPORT void _ZdlPv(void *block) { free_fast(block); }
EXPORT void _ZdaPv(void *block) { free_fast(block); }
EXPORT void _ZdlPvm(void *block, size_t size) { free_of_size(block, size); }
EXPORT void _ZdaPvm(void *block, size_t size) { free_of_size(block, size); }
EXPORT void _ZdlPvRKSt9nothrow_t(void *block, const void *tag) { (void)tag, free_fast(block); }
EXPORT void _ZdaPvRKSt9nothrow_t(void *block, const void *tag) { (void)tag, free_fast(block); }
// The alignment that the block was allocated with, and its size where that is known.
static void free_aligned(void *block, size_t alignment, size_t size) {
  free_check_alignment(block, alignment, size);
  free_fast(block);
}
EXPORT void _ZdlPvSt11align_val_t(void *block, size_t alignment) { free_aligned(block, alignment, SIZE_MAX); }
EXPORT void _ZdaPvSt11align_val_t(void *block, size_t alignment) { free_aligned(block, alignment, SIZE_MAX); }
EXPORT void _ZdlPvmSt11align_val_t(void *block, size_t size, size_t alignment) { free_aligned(block, alignment, size); }
EXPORT void _ZdaPvmSt11align_val_t(void *block, size_t size, size_t alignment) { free_aligned(block, alignment, size); }
EXPORT void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *block, size_t alignment, const void *tag) {
  (void)tag, free_aligned(block, alignment, SIZE_MAX);
}
EXPORT void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *block, size_t alignment, const void *tag) {
  (void)tag, free_aligned(block, alignment, SIZE_MAX);
}
