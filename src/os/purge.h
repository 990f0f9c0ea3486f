// Memory's contents go back to the system (Linux). Inlined: it is part of the longest paths of free.
#ifndef RTM_OS_PURGE_H
#define RTM_OS_PURGE_H

#include <errno.h>
#include <sys/mman.h>

#include "os.h"
#include "syscall.h"

RTM_INLINE long os_purge_now(uintptr_t address, size_t bytes) {
  atomic_fetch_add_explicit(&rtm_os_counts.purge, 1, memory_order_relaxed);
  return os_syscall(SYS_madvise, (long)address, (long)bytes, MADV_DONTNEED, 0, 0, 0);
}

// The memory reads as zero afterwards. 0, or the negated error: -ENOMEM where not all of it is mapped, and the rest is
// done; another where the system refuses (locked memory).
#ifdef RTM_DEBUG
long os_purge(uintptr_t address, size_t bytes);  // a function, so that the tests can let it fail
#else
RTM_INLINE long os_purge(uintptr_t address, size_t bytes) { return os_purge_now(address, bytes); }
#endif

#endif
