// probe.so: preloaded before an allocator, counts a process's allocations and times each one.
//
//     RTLAB_PROBE=/tmp/probe-%p.json LD_PRELOAD="probe.so allocator.so" program
//
// At exit it writes one JSON object to that file (%p becomes the process id): how many allocations and frees were
// served, the longest of each, and the 99.99th percentile of allocations, in microseconds. Read by rtlab/probing.py.
//
// Rules it keeps: it allocates nothing itself (static slots, raw writes); a call that the allocator makes back into the
// malloc family (libstdc++'s operator new calls malloc) is counted once; what dlsym asks for before the allocator is
// known comes from a small static area. The times include page faults and preemption: they are what the program waited.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define RARE __attribute__((noinline, cold))

// ---- Time ------------------------------------------------------------------------------------------------------------

#if defined(__x86_64__)
#include <x86intrin.h>
// The fences keep the measured call's instructions between the two readings (Intel's guide to rdtscp).
static inline uint64_t ticks_before(void) {
  _mm_lfence();
  const uint64_t ticks = __rdtsc();
  _mm_lfence();
  return ticks;
}
static inline uint64_t ticks_after(void) {
  unsigned processor;
  const uint64_t ticks = __rdtscp(&processor);
  _mm_lfence();
  return ticks;
}
#elif defined(__aarch64__)
static inline uint64_t ticks_before(void) {
  uint64_t ticks;
  __asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(ticks)::"memory");
  return ticks;
}
static inline uint64_t ticks_after(void) { return ticks_before(); }
#else
#error "probe.c knows the cycle counters of x86-64 and aarch64 only: add ticks_before and ticks_after for this processor"
#endif

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// ---- What is counted ---------------------------------------------------------------------------------------------------

// The histogram has STEPS buckets for each doubling of ticks, so a percentile read from it is at most 1/STEPS too high.
enum { STEP_BITS = 3, STEPS = 1 << STEP_BITS, BUCKETS = (64 - STEP_BITS + 1) * STEPS };
enum { SLOTS = 512, SHARED_SLOT = 0 };

// Counters of one thread; its thread writes, whoever ends the process reads. Threads beyond SLOTS - 1 share SHARED_SLOT.
struct slot {
  _Atomic uint64_t allocations;               // calls that returned a block
  _Atomic uint64_t frees;
  _Atomic uint64_t bytes;                     // sum of the sizes asked for
  _Atomic uint64_t longest_allocation;        // ticks
  _Atomic uint64_t longest_free;              // ticks
  _Atomic uint64_t histogram[BUCKETS];        // allocations by ticks
};
static struct slot slots[SLOTS];
static _Atomic unsigned next_slot = SHARED_SLOT + 1;
static __thread struct slot *own_slot;
static __thread unsigned depth;               // above 0: inside the allocator, do not count

static uint64_t start_ticks, start_ns;

static inline unsigned bucket_of(uint64_t ticks) {
  if (ticks < STEPS) { return (unsigned)ticks; }
  const unsigned exponent = 63u - (unsigned)__builtin_clzll(ticks);
  const unsigned step = (unsigned)(ticks >> (exponent - STEP_BITS)) & (STEPS - 1);
  return (exponent - STEP_BITS + 1) * STEPS + step;
}

static uint64_t bucket_upper_end(unsigned bucket) {
  if (bucket < STEPS) { return bucket; }
  const unsigned exponent = bucket / STEPS + STEP_BITS - 1;
  const uint64_t width = UINT64_C(1) << (exponent - STEP_BITS);
  return (STEPS + bucket % STEPS + 1) * width - 1;
}
_Static_assert(BUCKETS % STEPS == 0, "whole doublings only");

static RARE struct slot *take_slot(void) {
  const unsigned index = atomic_fetch_add_explicit(&next_slot, 1, memory_order_relaxed);
  own_slot = &slots[index < SLOTS ? index : SHARED_SLOT];
  return own_slot;
}

static inline struct slot *slot_of_thread(void) { return own_slot != NULL ? own_slot : take_slot(); }

// Relaxed everywhere: the counters order nothing else, and are read for good after main has returned.
static inline void add(_Atomic uint64_t *counter, uint64_t amount, bool shared) {
  if (shared) {
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
  } else {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + amount, memory_order_relaxed);
  }
}

static inline void raise_to(_Atomic uint64_t *highest, uint64_t value) {
  uint64_t seen = atomic_load_explicit(highest, memory_order_relaxed);
  while (value > seen && !atomic_compare_exchange_weak_explicit(highest, &seen, value, memory_order_relaxed,
                                                                memory_order_relaxed)) {}
}

static inline void count_allocation(uint64_t ticks, size_t bytes) {
  struct slot *slot = slot_of_thread();
  const bool shared = slot == &slots[SHARED_SLOT];
  add(&slot->allocations, 1, shared);
  add(&slot->bytes, bytes, shared);
  add(&slot->histogram[bucket_of(ticks)], 1, shared);
  raise_to(&slot->longest_allocation, ticks);
}

static inline void count_free(uint64_t ticks) {
  struct slot *slot = slot_of_thread();
  add(&slot->frees, 1, slot == &slots[SHARED_SLOT]);
  raise_to(&slot->longest_free, ticks);
}

// ---- The allocator behind the probe --------------------------------------------------------------------------------------

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

// ---- Passing a call on ------------------------------------------------------------------------------------------------------

static void leave(unsigned *outer_depth) { depth = *outer_depth; }

// Evaluates CALL, with a time unless the allocator itself made it. The cleanup also runs when operator new throws.
#define ALLOCATE(bytes, call)                                                             \
  __attribute__((cleanup(leave))) unsigned outer_depth = depth;                           \
  if (outer_depth > 0) { return (call); }                                                 \
  depth = 1;                                                                              \
  const uint64_t before = ticks_before();                                                 \
  void *const block = (call);                                                             \
  const uint64_t after = ticks_after();                                                   \
  if (block != NULL) { count_allocation(after - before, (bytes)); }                       \
  return block

#define RELEASE(call)                                                                     \
  __attribute__((cleanup(leave))) unsigned outer_depth = depth;                           \
  if (outer_depth > 0) {                                                                  \
    (call);                                                                               \
    return;                                                                               \
  }                                                                                       \
  depth = 1;                                                                              \
  const uint64_t before = ticks_before();                                                 \
  (call);                                                                                 \
  count_free(ticks_after() - before)

EXPORT void *malloc(size_t bytes) {
  if (!ready()) { return start_block(bytes); }
  ALLOCATE(bytes, next.malloc(bytes));
}

EXPORT void *calloc(size_t count, size_t bytes) {
  if (!ready()) { return start_block(count * bytes); }
  ALLOCATE(count * bytes, next.calloc(count, bytes));
}

EXPORT void *realloc(void *old, size_t bytes) {
  if (!ready()) { return old == NULL ? start_block(bytes) : NULL; }
  if (is_start_block(old)) {
    const size_t rest = (size_t)(start_area + START_BYTES - (char *)old);
    void *moved = malloc(bytes);
    return moved == NULL ? NULL : memcpy(moved, old, bytes < rest ? bytes : rest);
  }
  ALLOCATE(bytes, next.realloc(old, bytes));
}

EXPORT void *reallocarray(void *old, size_t count, size_t bytes) {
  size_t product;
  if (__builtin_mul_overflow(count, bytes, &product)) {
    errno = ENOMEM;
    return NULL;
  }
  if (!ready() || is_start_block(old) || next.reallocarray == NULL) { return realloc(old, product); }
  ALLOCATE(product, next.reallocarray(old, count, bytes));
}

EXPORT void free(void *block) {
  if (block == NULL || is_start_block(block) || !ready()) { return; }
  RELEASE(next.free(block));
}

EXPORT void *memalign(size_t alignment, size_t bytes) {
  if (!ready()) { return NULL; }
  ALLOCATE(bytes, next.memalign(alignment, bytes));
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes) {
  if (!ready()) { return NULL; }
  ALLOCATE(bytes, next.aligned_alloc(alignment, bytes));
}

EXPORT void *valloc(size_t bytes) {
  if (!ready()) { return NULL; }
  ALLOCATE(bytes, next.valloc(bytes));
}

EXPORT void *pvalloc(size_t bytes) {
  if (!ready()) { return NULL; }
  ALLOCATE(bytes, next.pvalloc(bytes));
}

static void *block_of_posix_memalign(size_t alignment, size_t bytes, int *error) {
  void *block = NULL;
  *error = next.posix_memalign(&block, alignment, bytes);
  return *error == 0 ? block : NULL;
}

static void *counted_posix_memalign(size_t alignment, size_t bytes, int *error) {
  ALLOCATE(bytes, block_of_posix_memalign(alignment, bytes, error));
}

EXPORT int posix_memalign(void **result, size_t alignment, size_t bytes) {
  int error = ENOMEM;
  if (!ready()) { return error; }
  void *block = counted_posix_memalign(alignment, bytes, &error);
  if (error == 0) { *result = block; }
  return error;
}

// ---- C++ ---------------------------------------------------------------------------------------------------------------------
// By their mangled names, so that this file needs no C++ compiler. A program without libstdc++ never calls them; one that
// loads it late with RTLD_LOCAL has no next operator new, and gets malloc and free, which then belong together.

static RARE void *or_end(void *block) {
  if (block == NULL) {
    static const char message[] = "probe.so: out of memory in operator new\n";
    (void)!write(STDERR_FILENO, message, sizeof message - 1);
    abort();
  }
  return block;
}

#define NEW(name, field)                                                                  \
  EXPORT void *name(size_t bytes) {                                                       \
    if (!ready() || next.field == NULL) { return or_end(malloc(bytes)); }                 \
    ALLOCATE(bytes, next.field(bytes));                                                   \
  }
#define NEW_NOTHROW(name, field)                                                          \
  EXPORT void *name(size_t bytes, const void *nothrow) {                                  \
    if (!ready() || next.field == NULL) { return malloc(bytes); }                         \
    ALLOCATE(bytes, next.field(bytes, nothrow));                                          \
  }
#define NEW_ALIGNED(name, field)                                                          \
  EXPORT void *name(size_t bytes, size_t alignment) {                                     \
    if (!ready() || next.field == NULL) { return or_end(memalign(alignment, bytes)); }    \
    ALLOCATE(bytes, next.field(bytes, alignment));                                        \
  }
#define NEW_ALIGNED_NOTHROW(name, field)                                                  \
  EXPORT void *name(size_t bytes, size_t alignment, const void *nothrow) {                \
    if (!ready() || next.field == NULL) { return memalign(alignment, bytes); }            \
    ALLOCATE(bytes, next.field(bytes, alignment, nothrow));                               \
  }
#define DELETE(name, field, parameters, ...)                                              \
  EXPORT void name parameters {                                                           \
    if (block == NULL || is_start_block(block)) { return; }                               \
    if (!ready() || next.field == NULL) {                                                 \
      free(block);                                                                        \
      return;                                                                             \
    }                                                                                     \
    RELEASE(next.field(__VA_ARGS__));                                                     \
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

// ---- The report --------------------------------------------------------------------------------------------------------------

static uint64_t sum(size_t field_offset) {
  uint64_t total = 0;
  for (unsigned i = 0; i < SLOTS; i++) {
    total += atomic_load_explicit((_Atomic uint64_t *)((char *)&slots[i] + field_offset), memory_order_relaxed);
  }
  return total;
}

static uint64_t highest(size_t field_offset) {
  uint64_t most = 0;
  for (unsigned i = 0; i < SLOTS; i++) {
    const uint64_t value =
        atomic_load_explicit((_Atomic uint64_t *)((char *)&slots[i] + field_offset), memory_order_relaxed);
    if (value > most) { most = value; }
  }
  return most;
}

// The ticks that at most one allocation in `one_in` exceeded.
static uint64_t percentile(uint64_t total, uint64_t one_in) {
  uint64_t above = total / one_in;            // allocations that may lie beyond the answer
  for (unsigned bucket = BUCKETS; bucket-- > 0;) {
    const uint64_t here = sum(offsetof(struct slot, histogram) + bucket * sizeof(uint64_t));
    if (here > above) { return bucket_upper_end(bucket); }
    above -= here;
  }
  return 0;
}

// Ticks per microsecond times 1000. A process shorter than 20 ms waits until its clock is good to about 0.1 %.
static uint64_t ticks_per_ms(void) {
  enum { CALIBRATION_NS = 20 * 1000 * 1000 };
  uint64_t ns;
  while ((ns = now_ns() - start_ns) < CALIBRATION_NS) {}
  return (uint64_t)((double)(ticks_after() - start_ticks) * 1e6 / (double)ns);
}

// Replaces %p in the pattern by the process id; false if the result does not fit.
static bool report_path(char *path, size_t room, const char *pattern) {
  const char *mark = strstr(pattern, "%p");
  const int length = mark == NULL ? snprintf(path, room, "%s", pattern)
                                  : snprintf(path, room, "%.*s%d%s", (int)(mark - pattern), pattern, (int)getpid(),
                                             mark + 2);
  return length > 0 && (size_t)length < room;
}

static __attribute__((destructor)) void report(void) {
  depth = 1;                                  // nothing below counts, whatever libc does
  const char *pattern = getenv("RTLAB_PROBE");
  char path[4096];
  if (pattern == NULL || *pattern == '\0') { return; }
  const int file = report_path(path, sizeof path, pattern)
                       ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
  if (file < 0) {
    static const char message[] = "probe.so: cannot write the file named by RTLAB_PROBE\n";
    (void)!write(STDERR_FILENO, message, sizeof message - 1);
    return;
  }
  const uint64_t allocations = sum(offsetof(struct slot, allocations));
  const uint64_t per_ms = ticks_per_ms();
  const uint64_t longest = highest(offsetof(struct slot, longest_allocation));
  const uint64_t rare = percentile(allocations, 10000);
  const uint64_t longest_free = highest(offsetof(struct slot, longest_free));
  const double us = 1000.0 / (double)per_ms;
  char text[512];
  const int length = snprintf(
      text, sizeof text,
      "{\"pid\": %d, \"allocations\": %llu, \"frees\": %llu, \"bytes\": %llu, \"longest_us\": %.3f, "
      "\"p9999_us\": %.3f, \"longest_free_us\": %.3f, \"ticks_per_ms\": %llu}\n",
      (int)getpid(), (unsigned long long)allocations, (unsigned long long)sum(offsetof(struct slot, frees)),
      (unsigned long long)sum(offsetof(struct slot, bytes)), (double)longest * us,
      (double)(rare < longest ? rare : longest) * us, (double)longest_free * us, (unsigned long long)per_ms);
  (void)!write(file, text, (size_t)length);
  close(file);
}

// A forked child reports what it does itself, not its parent's past.
static void forget_parent(void) {
  memset(slots, 0, sizeof slots);
  start_ns = now_ns();
  start_ticks = ticks_after();
}

static __attribute__((constructor)) void begin(void) {
  start_ns = now_ns();
  start_ticks = ticks_after();
  (void)ready();
  pthread_atfork(NULL, NULL, forget_parent);
}
