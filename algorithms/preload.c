// The malloc family on one of the allocators, with a lock around it, for real programs:
//   LD_PRELOAD=lib<name>-preload.so PROGRAM
// Compiled once for each allocator, with PRELOAD_ALGORITHM its struct algorithm and PRELOAD_LOCK 1, or 0 for a library
// that single-threaded loads are counted with. One area of ALGORITHM_AREA bytes (default 1 GiB), reserved but not
// committed; it never grows. When it is exhausted a message says so, once, and the call fails with ENOMEM. A second
// free ends the program. ALGORITHM_SAVE and ALGORITHM_LOAD: preload_profile.h.
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "preload_message.h"
#include "preload_profile.h"

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

static void *area_heap;  // NULL before the first call
static size_t area_bytes = (size_t)1 << 30;
static char save_path[4096];  // a copy: programs that set their title write over the environment

#if PRELOAD_LOCK
static pthread_mutex_t area_lock = PTHREAD_MUTEX_INITIALIZER;
static void lock(void) { pthread_mutex_lock(&area_lock); }
static void unlock(void) { pthread_mutex_unlock(&area_lock); }
// The child of a fork has one thread, and that must find the area whole.
__attribute__((constructor)) static void keep_whole_over_fork(void) { pthread_atfork(lock, unlock, unlock); }
#else
static void lock(void) {}
static void unlock(void) {}
#endif

static void open_area(void) {
  const char *wanted = getenv("ALGORITHM_AREA");
  if (wanted) {
    char *end;
    int saved = errno;
    area_bytes = strtoull(wanted, &end, 10);
    errno = saved;
    if (end == wanted || *end) {
      say_name();
      say("ALGORITHM_AREA is '");
      say(wanted);
      say("', wanted a number of bytes such as 1073741824\n");
      _exit(2);
    }
  }
  void *memory = mmap(NULL, area_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const char *load = getenv("ALGORITHM_LOAD"), *save = getenv("ALGORITHM_SAVE");
  if (memory != MAP_FAILED && load) preload_profile_prepare(memory, area_bytes, load);
  if (save) strncat(save_path, save, sizeof save_path - 1);
  if (memory != MAP_FAILED) area_heap = PRELOAD_ALGORITHM.init(memory, area_bytes);
  if (area_heap) return;
  say_name();
  say(memory == MAP_FAILED ? "the system has no " : "no heap fits into ");
  say_number(area_bytes);
  say(" bytes; set ALGORITHM_AREA to another number of bytes\n");
  _exit(2);
}

static inline void enter(void) {
  lock();
  if (!LIKELY(area_heap)) open_area();
}

// Before main, not at the first allocation.
__attribute__((constructor)) static void prepare(void) {
  if (!getenv("ALGORITHM_LOAD")) return;
  enter();
  unlock();
}

__attribute__((destructor)) static void save(void) {
  if (!*save_path) return;
  enter();
  struct algorithm_usage usage = PRELOAD_ALGORITHM.usage(area_heap);
  unlock();
  preload_profile_save(save_path, usage.control + usage.reached);
}

static void *exhausted(size_t size) {
  static bool said;
  if (!said) {
    said = true;
    say_name();
    say("no block for a request of ");
    say_number(size);
    say(" bytes in the area of ");
    say_number(area_bytes);
    say(" bytes; set ALGORITHM_AREA to more bytes (said once)\n");
  }
  errno = ENOMEM;
  return NULL;
}

static inline void *leave(void *block, size_t size) {
  unlock();
  return LIKELY(block) ? block : exhausted(size);
}

EXPORT void *malloc(size_t size) {
  enter();
  return leave(PRELOAD_ALGORITHM.malloc(area_heap, size), size);
}

EXPORT void free(void *block) {
  if (!block) return;
  enter();
  bool freed = PRELOAD_ALGORITHM.free(area_heap, block);
  unlock();
  if (LIKELY(freed)) return;
  say_name();
  say("free of an address that is no live block: freed twice, or never allocated\n");
  abort();
}

EXPORT void *calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return exhausted(SIZE_MAX);
  void *block = malloc(bytes);
  return block ? memset(block, 0, bytes) : NULL;
}

EXPORT void *realloc(void *block, size_t size) {
  if (block && size == 0) {
    free(block);
    return NULL;
  }
  enter();
  return leave(PRELOAD_ALGORITHM.realloc(area_heap, block, size), size);
}

EXPORT void *reallocarray(void *block, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return exhausted(SIZE_MAX);
  return realloc(block, bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
  if (alignment == 0 || (alignment & (alignment - 1))) {
    errno = EINVAL;
    return NULL;
  }
  enter();
  return leave(PRELOAD_ALGORITHM.aligned_alloc(area_heap, alignment, size), size);
}

#include "preload_aligned.h"

EXPORT size_t malloc_usable_size(void *block) {
  enter();
  size_t size = PRELOAD_ALGORITHM.usable_size(area_heap, block);
  unlock();
  return size;
}
