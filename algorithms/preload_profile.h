// The profile of a program on one of the allocators (RT-Mimalloc's paper, section VII.D): the bytes of the area, from
// its start, that blocks have ever reached. ALGORITHM_SAVE=file records it at exit, ALGORITHM_LOAD=file prepares it.
// A file is text:
//   tlsf profile 1
//   bytes 1048576
// Above preload_message.h; called by preload.c.
#ifndef ALGORITHMS_PRELOAD_PROFILE_H
#define ALGORITHMS_PRELOAD_PROFILE_H

#include <stddef.h>

// Makes and locks the first bytes of the area, as many as the profile says, so that they cost no page fault later.
// What cannot be locked is said, and is made all the same. A file that is no profile of this allocator ends the program
// with a message and status 2.
void preload_profile_prepare(char *area, size_t area_bytes, const char *path);

// Writes the larger of `bytes` and what the file holds. What cannot be written is said.
void preload_profile_save(const char *path, size_t bytes);

#endif
