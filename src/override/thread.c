// pthread_create: a thread gets its heap when it starts, so that its first malloc is like any other. Part of
// librtmalloc.so only; a thread that is started otherwise gets its heap with its first block.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "../alloc.h"

typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

struct start {
  void *(*routine)(void *);
  void *argument;
  struct heap *heap;    // NULL: the thread finds its own
  struct heap *before;  // see heap_ready
};

static void *run(void *block) {
  struct start start = *(struct start *)block;
  heap_begin(start.heap, start.before, (uintptr_t)start.routine);
  free_fast(block);
  return start.routine(start.argument);
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                                          void *(*routine)(void *), void *argument) {
  static _Atomic(create *) next;
  create *real = atomic_load_explicit(&next, memory_order_relaxed);
  if (RTM_UNLIKELY(!real)) {
    real = (create *)dlsym(RTLD_NEXT, "pthread_create");
    atomic_store_explicit(&next, real, memory_order_relaxed);  // the same in every thread
  }
  struct start *start = alloc_fast(sizeof *start);
  if (!start) return EAGAIN;
  struct heap *before;
  struct heap *heap = heap_ready((uintptr_t)routine, &before);
  *start = (struct start){routine, argument, heap, before};
  int failed = real(thread, attributes, run, start);
  if (failed && heap) heap_not_begun(heap);
  if (failed) free_fast(start);
  return failed;
}
