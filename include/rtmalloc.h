/* rtmalloc: a memory allocator for real-time programs on Linux.
 *
 * Every function here may be called by any thread at any time, also before constructors and in exit handlers, but not
 * from signal handlers. Sizes and alignments are in bytes. `O(1)` means a constant number of instructions whatever the
 * number of blocks, pages, heaps and threads; what is linear is named.
 *
 * A process that preloads or links librtmalloc.so has these behind malloc, free, operator new and the others as well;
 * with librtmalloc.a they live beside another malloc. Blocks of the one must not be given to the other.
 */
#ifndef RTMALLOC_H
#define RTMALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RTM_VERSION_MAJOR 0
#define RTM_VERSION_MINOR 1
#define RTM_VERSION_PATCH 0

#define RTM_API __attribute__((visibility("default")))

/* 100 * (100 * major + minor) + patch of the library in use. */
RTM_API int rtm_version(void);

/* A block of at least `size` bytes, aligned to 16; for size 0 a block of its own that can be freed. Sizes up to 128 are
 * rounded up to a multiple of 16, sizes up to 32 KiB by at most 12.5 %, larger ones to 4 KiB.
 * NULL and errno ENOMEM if there is no memory, or if size is above PTRDIFF_MAX.
 * O(1) up to 2 MiB, O(size / 4 MiB) above; system calls only when the heap has to grow. */
RTM_API void *rtm_malloc(size_t size) __attribute__((malloc, alloc_size(1), warn_unused_result));

/* As rtm_malloc for count * size bytes, set to zero; NULL and ENOMEM if the product overflows. O(1) + O(bytes) for the
 * zeroing, which memory fresh from the system does not need. */
RTM_API void *rtm_calloc(size_t count, size_t size) __attribute__((malloc, alloc_size(1, 2), warn_unused_result));

/* The block with another size: the contents are kept up to the smaller of both. In place when the size fits and is at
 * least half of what the block has, and for blocks above 32 KiB when the neighbours allow it; blocks above 2 MiB are
 * moved without a copy. rtm_realloc(NULL, size) is rtm_malloc(size); rtm_realloc(block, 0) frees and returns NULL.
 * NULL and ENOMEM if there is no memory: the block is unchanged then. O(1) + O(bytes) if it is copied. */
RTM_API void *rtm_realloc(void *block, size_t size) __attribute__((alloc_size(2), warn_unused_result));

/* As rtm_realloc for count * size bytes; NULL and ENOMEM if the product overflows. */
RTM_API void *rtm_reallocarray(void *block, size_t count, size_t size)
    __attribute__((alloc_size(2, 3), warn_unused_result));

/* Frees a block from any function here, of any thread; NULL does nothing. errno is kept. O(1); of another thread's heap:
 * wait-free. What is no block of this allocator, lies inside a block, or is free already, is reported on stderr and
 * aborts where that can be seen (docs/misuse.md). */
RTM_API void rtm_free(void *block);

/* A block whose address is a multiple of `alignment`, a power of two (else NULL and EINVAL). */
RTM_API void *rtm_aligned_alloc(size_t alignment, size_t size)
    __attribute__((malloc, alloc_size(2), alloc_align(1), warn_unused_result));

/* How many bytes may be used at `block`: at least what was asked for. 0 for NULL. O(1). */
RTM_API size_t rtm_usable_size(const void *block);

/* Gives everything that can be given back to the system: remote frees of the calling thread's heap and of threads that
 * have exited are collected, empty pages released, free memory unmapped. Linear in what is held. */
RTM_API void rtm_trim(void);

/* Statistics of the process. Bytes unless the name says otherwise. */
struct rtm_stats {
  size_t mapped;          /* address space that is mapped from the system now, metadata included */
  size_t mapped_peak;     /* the most there ever was */
  size_t in_use;          /* pages, medium and huge blocks (not blocks: a page counts whole) */
  size_t free_held;       /* free memory that heaps and arena hold and may give back */
  size_t purged;          /* given back to the system since the start */
  size_t segments;        /* segments of 4 MiB in use (count) */
  size_t heaps;           /* heaps ever made: about the most threads that allocated at a time (count) */
  uint64_t system_calls;  /* made by the allocator since the start (count) */
};
/* Fills `stats`. Figures of other threads' heaps may be a few operations old. O(heaps). */
#ifdef __cplusplus /* the function has the structure's name, as stat has: no reason to warn of it */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
RTM_API void rtm_stats(struct rtm_stats *stats);
#ifdef __cplusplus
#pragma GCC diagnostic pop
#endif

/* ---- real time: docs/real-time.md ---- */

/* What a profile did not cover, since the start: a block in a page (up to 32 KiB), a medium one (up to 2 MiB), a huge
 * one, or a thread without a prepared heap. Without a profile, what the modes have to take from the system. */
enum rtm_miss { RTM_MISS_PAGE, RTM_MISS_SPAN, RTM_MISS_HUGE, RTM_MISS_THREAD, RTM_MISS_KINDS };

/* Writes what was recorded so far (RTMALLOC_RECORD was set at the start), merged by maximum with what is in the file.
 * 0; EINVAL, ENODATA (nothing is recorded) or EIO with a line on stderr, and the old file is whole. Linear in heaps. */
RTM_API int rtm_save_profile(const char *path);

/* Makes, links, brings in and locks the heaps of a recorded program; `mode` is "seg" or "pag". The calling thread changes
 * to its heap, threads that start later take theirs; other threads keep what they have. 0; EINVAL (bad file or mode) or
 * EBUSY (one is loaded already, or the process is sealed) with a line on stderr. Linear in the memory prepared. */
RTM_API int rtm_load_profile(const char *path, const char *mode);

/* From now on no operation that the profile covers makes a system call, takes a lock or faults; RTMALLOC_ON_MISS says what
 * becomes of the others. 0; EINVAL in mode general, EALREADY if sealed, with a line on stderr. O(heaps). */
RTM_API int rtm_seal(void);
/* 0, or EALREADY if the process was not sealed. O(1). */
RTM_API int rtm_unseal(void);

/* How many misses there were, of all kinds or of one. O(1). */
RTM_API uint64_t rtm_misses(void);
RTM_API uint64_t rtm_misses_of(enum rtm_miss kind);

/* Checks every invariant of the calling thread's heap. NULL if all hold, else a sentence that names the one that does
 * not. Linear in the heap. */
RTM_API const char *rtm_check(void);

#ifdef __cplusplus
}
#endif
#endif
