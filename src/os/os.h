// The few things that the allocator asks of the operating system, each counted. Layer: above bits.
// Called by arena, heap, options, stats. One implementation per system: linux.c.
// None of these functions allocates or changes errno.
#ifndef RTM_OS_H
#define RTM_OS_H

#include <stdatomic.h>

#include "../bits.h"

struct os_counts {  // system calls since start, for the statistics
  _Atomic uint64_t map, unmap, purge, remap, resident, wait;
};
RTM_HIDDEN extern struct os_counts rtm_os_counts;

// Zeroed, readable and writable memory at exactly `address` (a multiple of 4096). If that fails, `*taken` says whether
// something else is mapped there, or the system has no memory left.
bool os_map_at(uintptr_t address, size_t bytes, bool *taken);
// Zeroed memory anywhere; NULL if there is none.
void *os_map(size_t bytes);
void os_unmap(uintptr_t address, size_t bytes);
// Asks for pages of 2 MiB where memory is touched first. Not counted: it maps nothing.
void os_want_huge_pages(uintptr_t address, size_t bytes);
// Whether the page at `address` is in memory.
bool os_resident(uintptr_t address);
// Moves mapped pages without a copy to the unmapped range at `target`, which may be longer. False if refused.
bool os_move(uintptr_t address, size_t bytes, uintptr_t target, size_t target_bytes);

// A mutex of one word, zero when free. Not recursive.
struct os_lock {
  _Atomic uint32_t state;  // 0 free, 1 held, 2 held and somebody waits
};
void os_lock_wait(struct os_lock *lock);
void os_lock_wake(struct os_lock *lock);

RTM_INLINE bool os_lock_try(struct os_lock *lock) {
  uint32_t free = 0;
  // Acquire: pairs with the release in os_lock_release.
  return atomic_compare_exchange_strong_explicit(&lock->state, &free, 1, memory_order_acquire, memory_order_relaxed);
}
RTM_INLINE void os_lock_acquire(struct os_lock *lock) {
  if (RTM_UNLIKELY(!os_lock_try(lock))) os_lock_wait(lock);
}
RTM_INLINE void os_lock_release(struct os_lock *lock) {
  if (RTM_UNLIKELY(atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2)) os_lock_wake(lock);
}

// Writes all of `text` to the file descriptor; gives up silently on an error.
void os_write(int fd, const char *text, size_t length);
// Reads at most `size` bytes of the file; -1 if it cannot be read.
long os_read_file(const char *path, char *buffer, size_t size);
// Creates or truncates a file for writing; -1 on failure.
int os_create_file(const char *path);
void os_close(int fd);
_Noreturn void os_abort(void);

struct os_usage {
  uint64_t user_us, system_us, faults_minor, faults_major, resident_peak;  // microseconds, counts, bytes
};
void os_usage(struct os_usage *usage);
uint64_t os_clock_us(void);

#endif
