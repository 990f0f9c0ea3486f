// malloc_front.h: the whole malloc family and operator new and delete, in front of whatever allocator comes next.
// Included once by a preloaded library (probe.c, trace.c), after it has defined what happens around each call:
//
//     FRONT_ALLOCATE(kind, bytes, alignment, call)   returns what CALL returns; kind: MALLOC, CALLOC, ALIGNED, and
//                                                    alignment 0 unless ALIGNED
//     FRONT_RESIZE(old, bytes, call)                 the same for realloc
//     FRONT_RELEASE(block, call)                     evaluates CALL, returns nothing
//
// and FRONT_NAME, for messages. Rules it keeps: it allocates nothing itself; what dlsym asks for before the allocator is
// known comes from a small static area. `depth` is for the macros: above 0, this thread is inside the allocator, and a
// call that it makes back into the family (libstdc++'s operator new calls malloc) is not the program's.

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define RARE __attribute__((noinline, cold))

static __thread unsigned depth;

static inline void leave(unsigned *outer_depth) { depth = *outer_depth; }

// ---- The allocator behind --------------------------------------------------------------------------------------

typedef void *(*one_size)(size_t);
typedef void *(*two_sizes)(size_t, size_t);
typedef void *(*resize)(void *, size_t);
typedef void *(*new_nothrow)(size_t, const void *);
typedef void *(*new_aligned_nothrow)(size_t, size_t, const void *);
typedef void (*release)(void *);

static struct {
  one_size malloc, valloc, pvalloc, new_one, new_array;
  two_sizes calloc, memalign, aligned_alloc, new_one_aligned, new_array_aligned;
  resize realloc;
  void *(*reallocarray)(void *, size_t, size_t);
  int (*posix_memalign)(void **, size_t, size_t);
  new_nothrow new_one_nothrow, new_array_nothrow;
  new_aligned_nothrow new_one_aligned_nothrow, new_array_aligned_nothrow;
  release free, delete_one, delete_array;
  void (*delete_one_sized)(void *, size_t), (*delete_array_sized)(void *, size_t);
  void (*delete_one_aligned)(void *, size_t), (*delete_array_aligned)(void *, size_t);
  void (*delete_one_sized_aligned)(void *, size_t, size_t), (*delete_array_sized_aligned)(void *, size_t, size_t);
} next;
static _Atomic bool known;                    // release store after `next` is filled, acquire load before it is read
// volatile: glibc declares dlsym a leaf function, so without it the compiler may drop the store that malloc, called by
// dlsym for its error message, relies on to see.
static __thread volatile bool looking_up;

static void look_up(void *field, const char *name) {
  void *symbol = dlsym(RTLD_NEXT, name);
  memcpy(field, &symbol, sizeof symbol);      // ISO C has no cast from object to function pointer
}

static RARE void find_allocator(void) {
  looking_up = true;
  look_up(&next.malloc, "malloc");
  look_up(&next.calloc, "calloc");
  look_up(&next.realloc, "realloc");
  look_up(&next.reallocarray, "reallocarray");
  look_up(&next.free, "free");
  look_up(&next.memalign, "memalign");
  look_up(&next.aligned_alloc, "aligned_alloc");
  look_up(&next.posix_memalign, "posix_memalign");
  look_up(&next.valloc, "valloc");
  look_up(&next.pvalloc, "pvalloc");
  look_up(&next.new_one, "_Znwm");
  look_up(&next.new_array, "_Znam");
  look_up(&next.new_one_nothrow, "_ZnwmRKSt9nothrow_t");
  look_up(&next.new_array_nothrow, "_ZnamRKSt9nothrow_t");
  look_up(&next.new_one_aligned, "_ZnwmSt11align_val_t");
  look_up(&next.new_array_aligned, "_ZnamSt11align_val_t");
  look_up(&next.new_one_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t");
  look_up(&next.new_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t");
  look_up(&next.delete_one, "_ZdlPv");
  look_up(&next.delete_array, "_ZdaPv");
  look_up(&next.delete_one_sized, "_ZdlPvm");
  look_up(&next.delete_array_sized, "_ZdaPvm");
  look_up(&next.delete_one_aligned, "_ZdlPvSt11align_val_t");
  look_up(&next.delete_array_aligned, "_ZdaPvSt11align_val_t");
  look_up(&next.delete_one_sized_aligned, "_ZdlPvmSt11align_val_t");
  look_up(&next.delete_array_sized_aligned, "_ZdaPvmSt11align_val_t");
  looking_up = false;
  atomic_store_explicit(&known, true, memory_order_release);
}

// True once calls can be passed on; false while this thread is inside dlsym.
static inline bool ready(void) {
  if (atomic_load_explicit(&known, memory_order_acquire)) { return true; }
  if (looking_up) { return false; }
  find_allocator();
  return true;
}

// ---- Blocks for dlsym itself ------------------------------------------------------------------------------------------------

enum { START_BYTES = 64 * 1024, START_ALIGNMENT = 16 };
static _Alignas(START_ALIGNMENT) char start_area[START_BYTES];  // zero-filled, handed out once, never reused
static _Atomic size_t start_used;

static bool is_start_block(const void *block) {
  return (uintptr_t)block - (uintptr_t)start_area < START_BYTES;
}

static void *start_block(size_t bytes) {
  const size_t rounded = (bytes + START_ALIGNMENT - 1) & ~(size_t)(START_ALIGNMENT - 1);
  const size_t offset = atomic_fetch_add_explicit(&start_used, rounded, memory_order_relaxed);
  return offset + rounded <= START_BYTES ? start_area + offset : NULL;
}

// ---- The family -----------------------------------------------------------------------------------------------------------

EXPORT void *malloc(size_t bytes) {
  if (!ready()) { return start_block(bytes); }
  FRONT_ALLOCATE(MALLOC, bytes, 0, next.malloc(bytes));
}

EXPORT void *calloc(size_t count, size_t bytes) {
  if (!ready()) { return start_block(count * bytes); }
  FRONT_ALLOCATE(CALLOC, count * bytes, 0, next.calloc(count, bytes));
}

EXPORT void *realloc(void *old, size_t bytes) {
  if (!ready()) { return old == NULL ? start_block(bytes) : NULL; }
  if (is_start_block(old)) {
    const size_t rest = (size_t)(start_area + START_BYTES - (char *)old);
    void *moved = malloc(bytes);
    return moved == NULL ? NULL : memcpy(moved, old, bytes < rest ? bytes : rest);
  }
  FRONT_RESIZE(old, bytes, next.realloc(old, bytes));
}

EXPORT void *reallocarray(void *old, size_t count, size_t bytes) {
  size_t product;
  if (__builtin_mul_overflow(count, bytes, &product)) {
    errno = ENOMEM;
    return NULL;
  }
  if (!ready() || is_start_block(old) || next.reallocarray == NULL) { return realloc(old, product); }
  FRONT_RESIZE(old, product, next.reallocarray(old, count, bytes));
}

EXPORT void free(void *block) {
  if (block == NULL || is_start_block(block) || !ready()) { return; }
  FRONT_RELEASE(block, next.free(block));
}

EXPORT void *memalign(size_t alignment, size_t bytes) {
  if (!ready()) { return NULL; }
  FRONT_ALLOCATE(ALIGNED, bytes, alignment, next.memalign(alignment, bytes));
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes) {
  if (!ready()) { return NULL; }
  FRONT_ALLOCATE(ALIGNED, bytes, alignment, next.aligned_alloc(alignment, bytes));
}

enum { PAGE = 4096 };                         // the smallest page size: what valloc promises at least

EXPORT void *valloc(size_t bytes) {
  if (!ready()) { return NULL; }
  FRONT_ALLOCATE(ALIGNED, bytes, PAGE, next.valloc(bytes));
}

EXPORT void *pvalloc(size_t bytes) {
  if (!ready()) { return NULL; }
  FRONT_ALLOCATE(ALIGNED, bytes, PAGE, next.pvalloc(bytes));
}

static void *block_of_posix_memalign(size_t alignment, size_t bytes, int *error) {
  void *block = NULL;
  *error = next.posix_memalign(&block, alignment, bytes);
  return *error == 0 ? block : NULL;
}

static void *front_posix_memalign(size_t alignment, size_t bytes, int *error) {
  FRONT_ALLOCATE(ALIGNED, bytes, alignment, block_of_posix_memalign(alignment, bytes, error));
}

EXPORT int posix_memalign(void **result, size_t alignment, size_t bytes) {
  int error = ENOMEM;
  if (!ready()) { return error; }
  void *block = front_posix_memalign(alignment, bytes, &error);
  if (error == 0) { *result = block; }
  return error;
}

// ---- C++ ---------------------------------------------------------------------------------------------------------------------
// By their mangled names, so that this file needs no C++ compiler. A program without libstdc++ never calls them; one that
// loads it late with RTLD_LOCAL has no next operator new, and gets malloc and free, which then belong together.

static RARE void *or_end(void *block) {
  if (block == NULL) {
    static const char message[] = FRONT_NAME ": out of memory in operator new\n";
    (void)!write(STDERR_FILENO, message, sizeof message - 1);
    abort();
  }
  return block;
}

#define NEW(name, field)                                                                                  \
  EXPORT void *name(size_t bytes) {                                                                       \
    if (!ready() || next.field == NULL) { return or_end(malloc(bytes)); }                                 \
    FRONT_ALLOCATE(MALLOC, bytes, 0, next.field(bytes));                                                  \
  }
#define NEW_NOTHROW(name, field)                                                                          \
  EXPORT void *name(size_t bytes, const void *nothrow) {                                                  \
    if (!ready() || next.field == NULL) { return malloc(bytes); }                                         \
    FRONT_ALLOCATE(MALLOC, bytes, 0, next.field(bytes, nothrow));                                         \
  }
#define NEW_ALIGNED(name, field)                                                                          \
  EXPORT void *name(size_t bytes, size_t alignment) {                                                     \
    if (!ready() || next.field == NULL) { return or_end(memalign(alignment, bytes)); }                    \
    FRONT_ALLOCATE(ALIGNED, bytes, alignment, next.field(bytes, alignment));                              \
  }
#define NEW_ALIGNED_NOTHROW(name, field)                                                                  \
  EXPORT void *name(size_t bytes, size_t alignment, const void *nothrow) {                                \
    if (!ready() || next.field == NULL) { return memalign(alignment, bytes); }                            \
    FRONT_ALLOCATE(ALIGNED, bytes, alignment, next.field(bytes, alignment, nothrow));                     \
  }
#define DELETE(name, field, parameters, ...)                                                              \
  EXPORT void name parameters {                                                                           \
    if (block == NULL || is_start_block(block)) { return; }                                               \
    if (!ready() || next.field == NULL) {                                                                 \
      free(block);                                                                                        \
      return;                                                                                             \
    }                                                                                                     \
    FRONT_RELEASE(block, next.field(__VA_ARGS__));                                                        \
  }

NEW(_Znwm, new_one)
NEW(_Znam, new_array)
NEW_NOTHROW(_ZnwmRKSt9nothrow_t, new_one_nothrow)
NEW_NOTHROW(_ZnamRKSt9nothrow_t, new_array_nothrow)
NEW_ALIGNED(_ZnwmSt11align_val_t, new_one_aligned)
NEW_ALIGNED(_ZnamSt11align_val_t, new_array_aligned)
NEW_ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t, new_one_aligned_nothrow)
NEW_ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t, new_array_aligned_nothrow)
DELETE(_ZdlPv, delete_one, (void *block), block)
DELETE(_ZdaPv, delete_array, (void *block), block)
DELETE(_ZdlPvm, delete_one_sized, (void *block, size_t bytes), block, bytes)
DELETE(_ZdaPvm, delete_array_sized, (void *block, size_t bytes), block, bytes)
DELETE(_ZdlPvSt11align_val_t, delete_one_aligned, (void *block, size_t alignment), block, alignment)
DELETE(_ZdaPvSt11align_val_t, delete_array_aligned, (void *block, size_t alignment), block, alignment)
DELETE(_ZdlPvmSt11align_val_t, delete_one_sized_aligned, (void *block, size_t bytes, size_t alignment), block, bytes,
       alignment)
DELETE(_ZdaPvmSt11align_val_t, delete_array_sized_aligned, (void *block, size_t bytes, size_t alignment), block, bytes,
       alignment)
