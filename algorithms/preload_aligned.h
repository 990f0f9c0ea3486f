// The older ways to ask for alignment, on aligned_alloc, which the including file defines and exports before.
#ifndef ALGORITHMS_PRELOAD_ALIGNED_H
#define ALGORITHMS_PRELOAD_ALIGNED_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

EXPORT void *memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }

EXPORT int posix_memalign(void **block, size_t alignment, size_t size) {
  if (alignment % sizeof(void *) || alignment == 0 || (alignment & (alignment - 1))) return EINVAL;
  int saved = errno;
  void *got = aligned_alloc(alignment, size);
  errno = saved;
  if (!got) return ENOMEM;
  *block = got;
  return 0;
}

static size_t system_page(void) { return (size_t)sysconf(_SC_PAGESIZE); }
EXPORT void *valloc(size_t size) { return aligned_alloc(system_page(), size); }
EXPORT void *pvalloc(size_t size) {
  size_t page = system_page(), bytes;
  if (!__builtin_add_overflow(size, page - 1, &bytes)) return aligned_alloc(page, bytes / page * page);
  errno = ENOMEM;
  return NULL;
}

#endif
