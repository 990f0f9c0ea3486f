// The malloc family of a program on RT-Mimalloc: LD_PRELOAD=librt-mimalloc-preload.so PROGRAM. Above rt_mimalloc.h.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "rt_mimalloc.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void *malloc(size_t size) { return rtmi_malloc(size); }
EXPORT void free(void *block) { rtmi_free(block); }
EXPORT void *calloc(size_t count, size_t size) { return rtmi_calloc(count, size); }
EXPORT size_t malloc_usable_size(void *block) { return rtmi_usable_size(block); }
EXPORT void *aligned_alloc(size_t alignment, size_t size) { return rtmi_aligned_alloc(alignment, size); }

EXPORT void *realloc(void *block, size_t size) {
  if (!block || size > 0) return rtmi_realloc(block, size);
  rtmi_free(block);
  return NULL;
}

EXPORT void *reallocarray(void *block, size_t count, size_t size) {
  size_t bytes;
  if (!__builtin_mul_overflow(count, size, &bytes)) return realloc(block, bytes);
  errno = ENOMEM;
  return NULL;
}

#include "preload_aligned.h"

EXPORT bool rt_mimalloc_save_profile(const char *path) { return rtmi_save_profile(path); }
EXPORT bool rt_mimalloc_load_profile(const char *path) { return rtmi_load_profile(path); }
EXPORT const char *rt_mimalloc_check(void) { return rtmi_check(); }

// ---- threads: the heap is prepared when a thread is created (section VI.A), not at its first allocation ----

struct start {
  void *(*routine)(void *);
  void *argument;
};

static void *start_thread(void *pointer) {
  struct start start = *(struct start *)pointer;
  free(pointer);  // of the creating thread, so that a heap is still wanted
  rtmi_prepare_thread();
  return start.routine(start.argument);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *),
                          void *argument) {
  static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (!create)
    create =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
  struct start *start = malloc(sizeof *start);
  if (!start) return EAGAIN;
  *start = (struct start){routine, argument};
  int error = create(thread, attributes, start_thread, start);
  if (error) free(start);
  return error;
}
