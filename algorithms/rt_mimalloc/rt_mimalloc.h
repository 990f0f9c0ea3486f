// RT-Mimalloc as published, from its paper's sections V and VI (Giannessi, Biondi, Biasci 2023) and mimalloc's
// description: a heap a thread, 4 MiB segments, pages of one block size, three free lists a page. Written from the
// text; no code of mimalloc or its authors was used. What the text leaves open is in docs/rt-mimalloc.md.
//
// All functions are thread-safe. A failed allocation returns NULL with errno ENOMEM. Memory comes from mmap.
// Environment: switches.h. Called by override.c (the malloc family) and the tests.
#ifndef RT_MIMALLOC_H
#define RT_MIMALLOC_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// Up to 1024 bytes: two loads to the page, one block of its list. Else, and when the list is empty, the generic path.
void *rtmi_malloc(size_t size);

// Any thread may free any block. Unbounded in none of the cases of the paper's Table VI; a page or segment that becomes
// empty may be released here, if the switches say so. `block` must be live or NULL: misuse is not seen.
void rtmi_free(void *block);

void *rtmi_calloc(size_t count, size_t size);

// In place if the block suffices and at most half of it would be lost. Else O(size): it copies.
void *rtmi_realloc(void *block, size_t size);

// `alignment`: a power of two of at most 2 MiB, else NULL with EINVAL (no power of two) or ENOMEM.
void *rtmi_aligned_alloc(size_t alignment, size_t size);

// Bytes up to the block's end; 0 for NULL.
size_t rtmi_usable_size(const void *block);

// save_profile of the paper's section VI.A: the peaks that any heap of this process has reached, and those of the file
// if it is there. O(heaps). False, with a message on stderr: the file is none of ours, or cannot be written.
bool rtmi_save_profile(const char *path);

// load_profile: each heap made from now on is prepared with it. False, with a message on stderr: no such file, damaged,
// or made with another setting.
bool rtmi_load_profile(const char *path);

// Makes the calling thread's heap, prepared as the profile says, if it has none yet; else its first allocation does.
void rtmi_prepare_thread(void);

// All invariants of the calling thread's heap: NULL if they hold, else a sentence. O(blocks).
const char *rtmi_check(void);

#ifdef __cplusplus
}
#endif
#endif
