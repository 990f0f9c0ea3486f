// Compiles hint.c into a test with a call before each of its atomic operations, so that another thread's steps can be
// put between any two of the owner's. The test program then has its own hint_ functions, and the library's stay out.
#ifndef RTM_OWNER_STEPS_H
#define RTM_OWNER_STEPS_H

#include "arena.h"

static void before_owner_step(void);

#pragma push_macro("atomic_load_explicit")
#pragma push_macro("atomic_fetch_and_explicit")
#pragma push_macro("atomic_fetch_or_explicit")
#undef atomic_load_explicit
#undef atomic_fetch_and_explicit
#undef atomic_fetch_or_explicit
// Only words of hint trees pass here. Casts: clang's builtins take no _Atomic types.
#define atomic_load_explicit(word, order) (before_owner_step(), __atomic_load_n((uint64_t *)(word), order))
#define atomic_fetch_and_explicit(word, bits, order) (before_owner_step(), __atomic_fetch_and((uint64_t *)(word), bits, order))
#define atomic_fetch_or_explicit(word, bits, order) (before_owner_step(), __atomic_fetch_or((uint64_t *)(word), bits, order))
#include "hint.c"
#pragma pop_macro("atomic_load_explicit")
#pragma pop_macro("atomic_fetch_and_explicit")
#pragma pop_macro("atomic_fetch_or_explicit")

#endif
