// Memory's contents go back to the system (Linux). Inlined: it is part of the longest paths of free.
#ifndef RTM_OS_PURGE_H
#define RTM_OS_PURGE_H

#include <errno.h>
#include <sys/mman.h>

#include "os.h"
#include "syscall.h"

RTM_INLINE bool os_purge_now(uintptr_t address, size_t bytes) {
  atomic_fetch_add_explicit(&rtm_os_counts.purge, 1, memory_order_relaxed);
  long done = os_syscall(SYS_madvise, (long)address, (long)bytes, MADV_DONTNEED, 0, 0, 0);
  if (RTM_LIKELY(done == 0)) return true;
  return done == -ENOMEM;
}

// The memory reads as zero afterwards; what of the range is not mapped is passed over. False where the system refuses
// (locked memory).
#ifdef RTM_DEBUG
bool os_purge(uintptr_t address, size_t bytes);  // a function, so that the tests can let it fail
#else
RTM_INLINE bool os_purge(uintptr_t address, size_t bytes) { return os_purge_now(address, bytes); }
#endif

#endif
