// pthread_create: a thread gets its heap when it starts, so that its first malloc is like any other. Part of
// librtmalloc.so only; a thread that is started otherwise gets its heap with its first block.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "../alloc.h"
#include "../store.h"

typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

// A prepared heap has a place for it: how many threads have been told and not begun is chance, which no profile covers.
static struct thread_start *take_start(struct heap *heap) {
  return heap && heap->stores ? &heap->stores->start : alloc_fast(sizeof(struct thread_start));
}

static void give_start(struct thread_start *start, struct heap *heap) {
  if (!heap || !heap->stores) free_fast(start);
}

static void *run(void *told) {
  struct thread_start start = *(struct thread_start *)told;
  heap_begin(start.heap, start.before, (uintptr_t)start.routine);
  give_start(told, start.heap);
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
  struct heap *before;
  struct heap *heap = heap_ready((uintptr_t)routine, &before);
  struct thread_start *start = take_start(heap);
  if (start) *start = (struct thread_start){routine, argument, heap, before};
  int failed = start ? real(thread, attributes, run, start) : EAGAIN;
  if (failed && start) give_start(start, heap);
  if (failed && heap) heap_not_begun(heap);
  return failed;
}
