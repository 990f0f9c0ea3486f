// See scheduler.h. First the choice of threads, then what the compiler calls.
#define _GNU_SOURCE
#include "scheduler.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"

enum { THREADS_MOST = 16, NOBODY = -1 };

// Changed only by the thread that runs, but for `entered` and the words that threads sleep on.
static struct {
  uint64_t random, accesses, changes;
  unsigned threads, shift;  // before one access in 2^shift another thread is chosen
  bool alive[THREADS_MOST];
  uint64_t stopped_until[THREADS_MOST];  // a thread that the system has put aside
  _Atomic uint32_t entered, may_run[THREADS_MOST];
} schedule;
static _Thread_local int self = NOBODY;
static pthread_key_t leaving;

static uint64_t next_random(void) {  // splitmix64
  uint64_t word = schedule.random += 0x9e3779b97f4a7c15u;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
  return word ^ (word >> 31);
}

static void sleep_until_chosen(unsigned number) {
  while (!atomic_load(&schedule.may_run[number]))
    syscall(SYS_futex, &schedule.may_run[number], FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void wake(unsigned number) {
  atomic_store(&schedule.may_run[number], 1);
  syscall(SYS_futex, &schedule.may_run[number], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

// Any that is alive and not stopped; if all are stopped, any that is alive.
static int choose(void) {
  unsigned first = (unsigned)(next_random() % schedule.threads);
  int fallback = NOBODY;
  for (unsigned i = 0; i < schedule.threads; i++) {
    unsigned thread = (first + i) % schedule.threads;
    if (!schedule.alive[thread]) continue;
    if (schedule.stopped_until[thread] <= schedule.accesses) return (int)thread;
    if (fallback == NOBODY || (int)thread != self) fallback = (int)thread;
  }
  return fallback;
}

static void change_to(int next) {
  if (next == self) return;
  schedule.changes++;
  if (self != NOBODY) atomic_store(&schedule.may_run[self], 0);
  if (next != NOBODY) wake((unsigned)next);
  if (self != NOBODY && schedule.alive[self]) sleep_until_chosen((unsigned)self);
}

static void before_access(void) {
  if (self == NOBODY) return;
  schedule.accesses++;
  uint64_t word = next_random();
  if (word & ((UINT64_C(1) << schedule.shift) - 1)) return;
  // Now and then the thread does not come back for long.
  if (word >> 60 == 0) schedule.stopped_until[self] = schedule.accesses + (word >> 32) % 4096;
  change_to(choose());
}

void scheduler_yield(void) {
  if (self == NOBODY) return;
  // Also one that is stopped may run: the lock that this one waits for may be its.
  schedule.stopped_until[self] = ++schedule.accesses + 16;
  for (unsigned i = 0; i < schedule.threads; i++)
    if ((int)i != self && next_random() % 4 == 0) schedule.stopped_until[i] = 0;
  change_to(choose());
}

static void leave(void *unused) {
  (void)unused;
  schedule.alive[self] = false;
  int next = choose();
  change_to(next);
  self = NOBODY;
}

void scheduler_begin(uint64_t seed, unsigned threads) {
  static bool made;
  if (!made) pthread_key_create(&leaving, leave);  // after the core's own key, so its destructor comes first
  made = true;
  if (threads > THREADS_MOST) abort();
  schedule.random = seed;
  schedule.threads = threads;
  schedule.shift = (unsigned)(next_random() % 7);
  atomic_store(&schedule.entered, 0);
  for (unsigned i = 0; i < threads; i++) {
    schedule.alive[i] = true;
    schedule.stopped_until[i] = 0;
    atomic_store(&schedule.may_run[i], 0);
  }
}

void scheduler_enter(unsigned number) {
  pthread_setspecific(leaving, &schedule);
  unsigned entered = atomic_fetch_add(&schedule.entered, 1) + 1;
  if (entered == schedule.threads) wake((unsigned)choose());  // `self` is nobody: the last one wakes the first
  sleep_until_chosen(number);
  self = (int)number;
}

uint64_t scheduler_accesses(void) { return schedule.accesses; }
uint64_t scheduler_changes(void) { return schedule.changes; }

// In place of os_lock_wait (linked with --wrap): whoever holds the lock may not be running.
void __wrap_os_lock_wait(struct os_lock *lock) {
  while (atomic_exchange(&lock->state, 2)) {
    if (self == NOBODY)
      syscall(SYS_sched_yield);
    else
      scheduler_yield();
  }
}

// ---- what the compiler calls (the names are those of gcc's and clang's -fsanitize=thread) ----

#define BEFORE(name, ...) \
  void name(__VA_ARGS__); \
  void name(__VA_ARGS__)

BEFORE(__tsan_init, void) {}
BEFORE(__tsan_func_entry, void *caller) { (void)caller; }
BEFORE(__tsan_func_exit, void) {}

#define PLAIN(name)             \
  BEFORE(name, void *address) { \
    (void)address;              \
    before_access();            \
  }
PLAIN(__tsan_read1)
PLAIN(__tsan_read2)
PLAIN(__tsan_read4)
PLAIN(__tsan_read8)
PLAIN(__tsan_read16)
PLAIN(__tsan_write1)
PLAIN(__tsan_write2)
PLAIN(__tsan_write4)
PLAIN(__tsan_write8)
PLAIN(__tsan_write16)
PLAIN(__tsan_unaligned_read2)
PLAIN(__tsan_unaligned_read4)
PLAIN(__tsan_unaligned_read8)
PLAIN(__tsan_unaligned_read16)
PLAIN(__tsan_unaligned_write2)
PLAIN(__tsan_unaligned_write4)
PLAIN(__tsan_unaligned_write8)
PLAIN(__tsan_unaligned_write16)
PLAIN(__tsan_read_write1)
PLAIN(__tsan_read_write2)
PLAIN(__tsan_read_write4)
PLAIN(__tsan_read_write8)

BEFORE(__tsan_read_range, void *address, unsigned long size) {
  (void)address, (void)size;
  before_access();
}
BEFORE(__tsan_write_range, void *address, unsigned long size) {
  (void)address, (void)size;
  before_access();
}
void *__tsan_memset(void *to, int value, unsigned long size);
void *__tsan_memset(void *to, int value, unsigned long size) {
  before_access();
  return memset(to, value, size);
}
void *__tsan_memcpy(void *to, const void *from, unsigned long size);
void *__tsan_memcpy(void *to, const void *from, unsigned long size) {
  before_access();
  return memcpy(to, from, size);
}

#define OPERATION(bits, type, name, builtin)                                      \
  type __tsan_atomic##bits##_##name(volatile type *word, type value, int order);  \
  type __tsan_atomic##bits##_##name(volatile type *word, type value, int order) { \
    (void)order;                                                                  \
    before_access();                                                              \
    return builtin(word, value, __ATOMIC_SEQ_CST);                                \
  }
#define ATOMICS(bits, type)                                                                                            \
  type __tsan_atomic##bits##_load(const volatile type *word, int order);                                               \
  type __tsan_atomic##bits##_load(const volatile type *word, int order) {                                              \
    (void)order;                                                                                                       \
    before_access();                                                                                                   \
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);                                                                    \
  }                                                                                                                    \
  void __tsan_atomic##bits##_store(volatile type *word, type value, int order);                                        \
  void __tsan_atomic##bits##_store(volatile type *word, type value, int order) {                                       \
    (void)order;                                                                                                       \
    before_access();                                                                                                   \
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);                                                                   \
  }                                                                                                                    \
  OPERATION(bits, type, exchange, __atomic_exchange_n)                                                                 \
  OPERATION(bits, type, fetch_add, __atomic_fetch_add)                                                                 \
  OPERATION(bits, type, fetch_sub, __atomic_fetch_sub)                                                                 \
  OPERATION(bits, type, fetch_and, __atomic_fetch_and)                                                                 \
  OPERATION(bits, type, fetch_or, __atomic_fetch_or)                                                                   \
  OPERATION(bits, type, fetch_xor, __atomic_fetch_xor)                                                                 \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile type *word, type *expected, type value, int good,         \
                                                    int bad);                                                          \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile type *word, type *expected, type value, int good,         \
                                                    int bad) {                                                         \
    (void)good, (void)bad;                                                                                             \
    before_access();                                                                                                   \
    return __atomic_compare_exchange_n(word, expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                  \
  }                                                                                                                    \
  /* clang's */                                                                                                        \
  type __tsan_atomic##bits##_compare_exchange_val(volatile type *word, type expected, type value, int good, int bad);  \
  type __tsan_atomic##bits##_compare_exchange_val(volatile type *word, type expected, type value, int good, int bad) { \
    __tsan_atomic##bits##_compare_exchange_strong(word, &expected, value, good, bad);                                  \
    return expected;                                                                                                   \
  }                                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile type *word, type *expected, type value, int good, int bad); \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile type *word, type *expected, type value, int good,           \
                                                  int bad) {                                                           \
    return __tsan_atomic##bits##_compare_exchange_strong(word, expected, value, good, bad);                            \
  }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order) {
  (void)order;
  before_access();
}
