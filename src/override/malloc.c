// The malloc family of C23, POSIX and glibc, on rtmalloc. Part of librtmalloc.so and librtmalloc-override.o only.
#include <errno.h>
#include <malloc.h>
#include <string.h>

#include "../alloc.h"
#include "../rehearse.h"
#include "rtmalloc.h"

#define EXPORT __attribute__((visibility("default")))

// The main thread's heap is made before main, so that its first malloc is like any other; a malloc that comes even
// earlier does this by itself.
__attribute__((constructor)) static void start_early(void) {
  heap_of_thread();
  rehearse();
}

RTM_CODE_TOGETHER EXPORT void *malloc(size_t size) { return alloc_fast(size); }
RTM_CODE_TOGETHER EXPORT void free(void *block) { free_fast(block); }
EXPORT void *calloc(size_t count, size_t size) { return alloc_zeroed(count, size); }
EXPORT void *realloc(void *block, size_t size) { return alloc_again(block, size); }
EXPORT void *reallocarray(void *block, size_t count, size_t size) { return rtm_reallocarray(block, count, size); }
EXPORT void cfree(void *block) { free_fast(block); }

// C23, 7.24.3: the size and alignment that the block was allocated with.
EXPORT void free_sized(void *block, size_t size) {
  size_t granule = window_granule(block);
  if (granule < RTM_READ_RELAXED(rtm_window_granules)) free_check_size(block, span_of(granule), size, true);
  free_fast(block);
}
EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size) {
  free_check_alignment(block, alignment, size);
  free_fast(block);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) { return rtm_aligned_alloc(alignment, size); }

// As glibc's: an alignment that is no power of two is rounded up to one.
EXPORT void *memalign(size_t alignment, size_t size) {
  if (alignment > SIZE_MAX / 2 + 1) {
    errno = EINVAL;
    return NULL;
  }
  bool small = alignment <= BLOCK_ALIGNMENT;
  return alloc_aligned(small ? BLOCK_ALIGNMENT : (size_t)2 << bits_highest(alignment - 1), size);
}

EXPORT int posix_memalign(void **result, size_t alignment, size_t size) {
  if (!bits_is_power_of_two(alignment) || alignment % sizeof(void *)) return EINVAL;
  int saved = errno;
  void *block = alloc_aligned(alignment, size);
  errno = saved;
  if (!block) return ENOMEM;
  *result = block;
  return 0;
}

EXPORT void *valloc(size_t size) { return alloc_aligned(GRANULE_SIZE, size); }

EXPORT void *pvalloc(size_t size) {
  if (size > PTRDIFF_MAX) {
    errno = ENOMEM;
    return NULL;
  }
  return alloc_aligned(GRANULE_SIZE, bits_round_up(size ? size : 1, GRANULE_SIZE));
}

EXPORT size_t malloc_usable_size(void *block) { return alloc_usable_size(block); }

EXPORT int malloc_trim(size_t pad) {
  (void)pad;
  struct rtm_stats before, after;
  rtm_stats(&before);
  alloc_trim();
  rtm_stats(&after);
  return after.purged > before.purged;
}

// glibc's names for our figures: arena: bytes mapped; uordblks: in use; fordblks: free and held; keepcost: the same.
EXPORT struct mallinfo2 mallinfo2(void) {
  struct rtm_stats stats;
  rtm_stats(&stats);
  return (struct mallinfo2){.arena = stats.mapped,
                            .usmblks = stats.mapped_peak,
                            .uordblks = stats.in_use,
                            .fordblks = stats.free_held,
                            .keepcost = stats.free_held};
}

static int clamp(size_t bytes) { return bytes > INT32_MAX ? INT32_MAX : (int)bytes; }

EXPORT struct mallinfo mallinfo(void) {
  struct mallinfo2 wide = mallinfo2();
  return (struct mallinfo){.arena = clamp(wide.arena),
                           .usmblks = clamp(wide.usmblks),
                           .uordblks = clamp(wide.uordblks),
                           .fordblks = clamp(wide.fordblks),
                           .keepcost = clamp(wide.keepcost)};
}

// Nothing of glibc's tuning applies; accepted, as programs check the result.
EXPORT int mallopt(int parameter, int value) {
  (void)parameter, (void)value;
  return 1;
}
