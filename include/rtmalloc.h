/* rtmalloc: a memory allocator for real-time programs on Linux.
 *
 * Every function here may be called by any thread at any time, also before constructors and in exit handlers, but not
 * from signal handlers (docs/misuse.md says what these may call). Sizes and alignments are in bytes. `O(1)` means a
 * constant number of instructions whatever the number of blocks, pages, heaps and threads; what is linear is named.
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

/* Frees a block from any function here, of any thread; NULL does nothing. errno is kept. O(1); of another
 * thread's heap: wait-free. What is no block of this allocator, lies inside a block, or is free already, is reported
 * on stderr and aborts where that can be seen (docs/misuse.md). */
RTM_API void rtm_free(void *block);

/* A block whose address is a multiple of `alignment`, a power of two (else NULL and EINVAL). */
RTM_API void *rtm_aligned_alloc(size_t alignment, size_t size)
    __attribute__((malloc, alloc_size(2), alloc_align(1), warn_unused_result));

/* How many bytes may be used at `block`: at least what was asked for. 0 for NULL. O(1). */
RTM_API size_t rtm_usable_size(const void *block);

/* Gives everything that can be given back to the system: remote frees of the calling thread's heap and of threads that
 * have exited are collected, empty pages released, free memory unmapped. Nothing in the modes seg and pag, which keep
 * what they have. Linear in what is held. */
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

/* Makes, links, brings in and locks the heaps of a recorded program; `mode` is "seg" or "pag". The calling thread
 * changes to its heap, threads that start later take theirs. Other threads keep the heaps that they have, which the
 * profile does not cover: each is counted as a miss of the kind thread, and takes memory from the system as before;
 * nothing goes back any more. Load before they start. Huge blocks from before stay mapped when they are freed. 0;
 * EINVAL (bad file or mode) or EBUSY (one is loaded already, or the process is sealed) with a line on stderr. Linear in
 * the memory prepared. */
RTM_API int rtm_load_profile(const char *path, const char *mode);

/* From now on no operation that the profile covers makes a system call, takes a lock or faults; RTMALLOC_ON_MISS says
 * what becomes of the others. 0; EINVAL in mode general, EALREADY if sealed, with a line on stderr. O(heaps). */
RTM_API int rtm_seal(void);
/* 0, or EALREADY if the process was not sealed. O(1). */
RTM_API int rtm_unseal(void);

/* A block of each kind goes out of the calling thread's prepared heap and comes back, so that its next operations find
 * code and data in the caches. rtm_seal does it for the thread that calls it, the start for the main thread; others
 * call this when they are set up. At any time, sealed or not. 0; EINVAL if the thread has no prepared heap, with a line
 * on stderr. O(sizes that the profile has). */
RTM_API int rtm_rehearse(void);

/* How many misses there were, of all kinds or of one. O(1). */
RTM_API uint64_t rtm_misses(void);
RTM_API uint64_t rtm_misses_of(enum rtm_miss kind);

/* ---- heaps as objects: docs/heaps.md ----
 *
 * One thread at a time may call the functions of one heap; whoever hands the heap to another thread orders the two (by
 * a lock, a queue, a join). Freeing needs no such order: rtm_free, of any thread, takes a block of any heap, as does
 * free where librtmalloc.so replaces it. NULL as heap, or one that has ended, is reported on stderr and aborts. */
struct rtm_heap;

/* A heap over the system's memory, without limits; NULL and ENOMEM if there is none. O(1), or O(size of what one that
 * was destroyed kept for itself); system calls. */
RTM_API struct rtm_heap *rtm_heap_new(void) __attribute__((warn_unused_result));

enum { RTM_HEAP_ALIGNMENT = 64 };
/* A heap over `bytes` at `memory`, a multiple of RTM_HEAP_ALIGNMENT, which are the heap's until it ends: a static
 * array, a shared, locked or huge-page mapping, a device's memory; not memory of rtmalloc's. Everything that the heap
 * needs lies in there, and it never calls the system. At most 64 such heaps at a time. NULL and EINVAL, with a line on
 * stderr that says why, if the memory is too small, misaligned, or another heap's. O(bytes / 128). */
RTM_API struct rtm_heap *rtm_heap_new_in(void *memory, size_t bytes) __attribute__((warn_unused_result));
/* Of that many bytes, how many such a heap needs for itself; each block takes 8 more. SIZE_MAX: it is too small, or
 * above 64 GiB. O(1). */
RTM_API size_t rtm_heap_overhead(size_t bytes);
/* Bytes for such a heap in which no request ever fails, whatever the order of requests, if the live ones, each rounded
 * up to a multiple of 16, never sum to more than `live` and none is larger than `largest`, and if other threads' frees
 * are collected (rtm_heap_collect). The worst that can be: programs need far less. SIZE_MAX: too much for a size_t. */
RTM_API size_t rtm_heap_memory_for(size_t live, size_t largest);

/* As rtm_malloc, rtm_calloc, rtm_aligned_alloc, from the heap; NULL and ENOMEM also over a limit. O(1): over the
 * system's memory as there, over a caller's memory always without a system call or a loop that depends on the load. */
RTM_API void *rtm_heap_malloc(struct rtm_heap *heap, size_t size)
    __attribute__((malloc, alloc_size(2), warn_unused_result));
RTM_API void *rtm_heap_calloc(struct rtm_heap *heap, size_t count, size_t size)
    __attribute__((malloc, alloc_size(2, 3), warn_unused_result));
RTM_API void *rtm_heap_aligned_alloc(struct rtm_heap *heap, size_t alignment, size_t size)
    __attribute__((malloc, alloc_size(3), alloc_align(2), warn_unused_result));
/* As rtm_realloc; what has to move goes into the heap, whichever heap the block is from. */
RTM_API void *rtm_heap_realloc(struct rtm_heap *heap, void *block, size_t size)
    __attribute__((alloc_size(3), warn_unused_result));
/* Frees a block of this heap; another's is reported and aborts. Shorter than rtm_free, and the memory is there for the
 * next request: what rtm_free gives back of a heap that is not the thread's own waits to be collected. O(1). */
RTM_API void rtm_heap_free(struct rtm_heap *heap, void *block);

/* Ends the heap and frees all its blocks at once. Nobody may use one any more, nor be about to free one: a later free
 * is reported as far as it can be seen. O(segments of the process), whatever the number of blocks; over a caller's
 * memory O(1). */
RTM_API void rtm_heap_destroy(struct rtm_heap *heap);
/* Ends the heap; its blocks live on as the process's, and are freed by rtm_free. 0; EBUSY, with a line on stderr, and
 * nothing changed, if it is over a caller's memory and has live blocks. O(size classes). */
RTM_API int rtm_heap_delete(struct rtm_heap *heap);

/* Whether the live block is the heap's. O(1). */
RTM_API bool rtm_heap_contains(const struct rtm_heap *heap, const void *block);
/* Calls `visit` for each live block, with its usable bytes, until it returns false. `visit` may free the block by
 * rtm_free, but must not call this heap's functions. Blocks that others free meanwhile come or not. True if all came.
 * Linear in blocks and in segments of the process. */
typedef bool rtm_visit_function(void *block, size_t bytes, void *argument);
RTM_API bool rtm_heap_visit(struct rtm_heap *heap, rtm_visit_function *visit, void *argument);
/* Collects all that other threads have freed; with `force`, gives what is free back to the system. Linear in both. */
RTM_API void rtm_heap_collect(struct rtm_heap *heap, bool force);
/* NULL if every invariant of the heap holds, else a sentence. Linear in the heap. */
RTM_API const char *rtm_heap_check(struct rtm_heap *heap);

/* Limits, after the Real-Time Java memory model; 0: none. Bytes of blocks as rtm_usable_size says. A request over a
 * limit is NULL and ENOMEM at once, and is counted. */
struct rtm_limits {
  size_t most_held;  /* bytes of live blocks */
  size_t most_ever;  /* bytes of all blocks that there have been since the first limit was set */
  size_t rate;       /* bytes a second: in any t seconds at most burst + t * rate */
  size_t burst;      /* bytes; 0: what comes in a second */
};
/* Sets, changes or (all 0) takes away the limits of a heap, or of what the calling thread allocates. 0; EINVAL if they
 * are impossible; ENOTSUP for a thread that has a prepared heap of a profile, which is its limit; with a line on
 * stderr. What lives already counts; exact if no other thread frees at the same time. Linear in the heap. Operations of
 * a heap with limits are longer, as each is counted. */
RTM_API int rtm_heap_set_limits(struct rtm_heap *heap, const struct rtm_limits *limits);
RTM_API int rtm_thread_set_limits(const struct rtm_limits *limits);

struct rtm_usage {
  size_t blocks;     /* live ones */
  size_t held;       /* bytes of live blocks */
  size_t held_peak;  /* 0 if there never was a limit, as are: */
  size_t ever;       /* bytes of all blocks since the first limit, */
  uint64_t refused;  /* and requests over a limit since then */
};
/* Fills `usage`; the thread's heap may have blocks of threads that have exited. Linear, as a visit. */
RTM_API void rtm_heap_usage(struct rtm_heap *heap, struct rtm_usage *usage);
RTM_API void rtm_thread_usage(struct rtm_usage *usage);

/* ---- callbacks and options ----
 *
 * Register before other threads allocate; NULL takes a function away. A callback may allocate and free; no callback is
 * called while another runs in the same thread. It must return: no exception, no longjmp. */

/* Called now and then while memory is asked for, so that a reference-counted runtime frees a bounded number of objects
 * each time: by a malloc of up to 2 MiB that finds no free block ready, which comes at least once in 256 requests that
 * no free makes up for, in each size class; and by rtm_collect (with its `force`). Not for heap objects, nor for what a
 * profile prepared in mode pag: call rtm_collect there. */
typedef void rtm_deferred_free_function(bool force, unsigned long long heartbeat, void *argument);
RTM_API void rtm_register_deferred_free(rtm_deferred_free_function *function, void *argument);

/* Called with EAGAIN (double free), EINVAL (invalid pointer) or EFAULT (damaged heap) after the line on stderr and
 * before the abort; with ENOMEM before a request returns NULL for want of memory, but not over a limit. */
typedef void rtm_error_function(int error, void *argument);
RTM_API void rtm_register_error(rtm_error_function *function, void *argument);

/* Called when the system has no memory for a request of `size` bytes, and the process is not sealed; true: memory was
 * freed, try again. */
typedef bool rtm_out_of_memory_function(size_t size, void *argument);
RTM_API void rtm_register_out_of_memory(rtm_out_of_memory_function *function, void *argument);

/* Calls the deferred free, then collects what other threads have freed in the thread's heap; with `force` also
 * as rtm_trim. */
RTM_API void rtm_collect(bool force);

/* What RTMALLOC_PURGE, RTMALLOC_LIMIT, RTMALLOC_RESERVE and RTMALLOC_ON_MISS set, by call. */
enum rtm_option {
  RTM_OPTION_PURGE,   /* 0 lazy, 1 eager, 2 never; for the calling thread's heap, and those made later */
  RTM_OPTION_LIMIT,   /* bytes; UINT64_MAX: none. Below what is mapped: nothing more is mapped */
  RTM_OPTION_RESERVE, /* bytes, taken and touched by the call; once */
  RTM_OPTION_ON_MISS, /* 0 count, 1 report, 2 abort, 3 null */
  RTM_OPTIONS
};
/* 0; EINVAL (unknown, or a value out of range), EBUSY (a reserve is there) or ENOMEM (the reserve), with a line on
 * stderr. */
RTM_API int rtm_option_set(enum rtm_option option, uint64_t value);
/* Its value; UINT64_MAX for an option that there is not. O(1). */
RTM_API uint64_t rtm_option_get(enum rtm_option option);

/* Checks every invariant of the calling thread's heap. NULL if all hold, else a sentence that names the one that does
 * not. Linear in the heap. */
RTM_API const char *rtm_check(void);

#ifdef __cplusplus
}
#endif
#endif
