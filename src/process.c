// See process.h.
#include "process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "arena.h"
#include "heap.h"
#include "message.h"
#include "mode.h"
#include "options.h"
#include "record.h"
#include "segment.h"
#include "stats.h"

enum { STARTED_NOT, STARTED_MEMORY, STARTED_ALL };
static struct os_lock start_lock;
static _Atomic int started;
static pthread_key_t thread_key;

void heap_lock_for_fork(void);
void heap_unlock_after_fork(void);

// ---- fork: both locks are held across it. The child has the one thread that called fork; the heaps of the others
// stay owned for ever, so that nobody adopts what may be half-changed, and frees into them are remote. ----

static void before_fork(void) {
  heap_lock_for_fork();
  os_lock_acquire(&rtm_arena.lock);
}

static void after_fork_in_parent(void) {
  os_lock_release(&rtm_arena.lock);
  heap_unlock_after_fork();
}

static void after_fork_in_child(void) {
  after_fork_in_parent();
  stats_after_fork();
  record_after_fork();
}

// ---- threads ----

// Other destructors may still run after this one, as often as the system has rounds: the thread takes a heap for each
// operation then.
static void thread_exits(void *heap) {
  rtm_thread_ends = true;
  rtm_heap = &rtm_no_heap;
  rtm_fast_heap = &rtm_no_heap;
  heap_leave(heap);
}

bool process_key_is_late(void) {
  enum { GLIBC_KEYS_AT_HAND = 32 };
  return thread_key >= GLIBC_KEYS_AT_HAND;
}

void process_watch_thread(struct heap *heap) {
  // Not during the start: pthread_setspecific needs the key, and may itself allocate.
  if (atomic_load_explicit(&started, memory_order_acquire) == STARTED_ALL && !rtm_thread_ends)
    pthread_setspecific(thread_key, heap);
}

// ---- start ----

static bool start_memory(void) {
  bits_start();
  size_class_init();
  segment_init();
  options_read();
  return arena_init(rtm_options.purge, rtm_options.limit);
}

// Once, as each request comes here again.
static void tell_no_memory(void) {
  static bool told;
  if (told || rtm_options.limit == SIZE_MAX) return;
  told = true;
  message_warn_number("RTMALLOC_LIMIT", rtm_options.limit,
                      "not enough for the allocator's own data: each request fails, and other options are left out");
}

static RTM_NOINLINE bool process_start(void) {
  // A thread that allocates while it starts the rest comes here again: memory is there by then.
  static _Thread_local bool starting __attribute__((tls_model("initial-exec")));
  if (starting) return true;
  os_lock_acquire(&start_lock);
  bool good = true;
  if (atomic_load_explicit(&started, memory_order_relaxed) == STARTED_NOT) {
    good = start_memory();
    if (good) {
      atomic_store_explicit(&started, STARTED_MEMORY, memory_order_release);
      starting = true;
      stats_start();
      pthread_key_create(&thread_key, thread_exits);
      pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
      options_apply();
      mode_start();
      starting = false;
      atomic_store_explicit(&started, STARTED_ALL, memory_order_release);
      if (rtm_heap != &rtm_no_heap) process_watch_thread(rtm_heap);
    } else {
      tell_no_memory();
    }
  }
  os_lock_release(&start_lock);
  return good;
}

bool process_init(void) {
  return RTM_LIKELY(atomic_load_explicit(&started, memory_order_acquire) == STARTED_ALL) || process_start();
}
