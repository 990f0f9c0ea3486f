// What uClibc's DLmalloc is compiled with: names of its own, and the caller's area for the system's memory.
#ifndef ALGORITHMS_FOREIGN_DLMALLOC_272_H
#define ALGORITHMS_FOREIGN_DLMALLOC_272_H

#include <errno.h>
#include <features.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// As sbrk, from the area.
void *area_more(intptr_t bytes);

#define MORECORE area_more
#define DEFAULT_MMAP_MAX 0
#define mmap(address, bytes, protection, flags, file, offset) MAP_FAILED
#define munmap(address, bytes) (-1)
#define mremap(address, bytes, more, flags) MAP_FAILED

#define malloc lea_malloc
#define free lea_free
#define realloc lea_realloc
#define memalign lea_memalign
#define attribute_hidden
#define weak_alias(name, other)
#define libc_hidden_proto(name)
#define libc_hidden_def(name)
#define PAGE_SHIFT 12
#define __set_errno(value) (errno = (value))

void *lea_malloc(size_t size);
void lea_free(void *block);
void *lea_realloc(void *block, size_t size);
void *lea_memalign(size_t alignment, size_t size);

#endif
