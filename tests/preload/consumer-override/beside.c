// Linked with librtmalloc.a: rtm_malloc beside the system's malloc, blocks of both interleaved.
#define _GNU_SOURCE
#include <rtmalloc.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 2000 };

static size_t size_of(size_t i) { return 1 + i * i % 50000; }

static int holds(const unsigned char *block, unsigned char byte, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (block[i] != byte) return 0;
    return 1;
}

static void *work(void *argument) {
    static _Thread_local unsigned char *ours[BLOCKS], *theirs[BLOCKS];
    uintptr_t wrong = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        ours[i] = rtm_malloc(size_of(i));
        theirs[i] = malloc(size_of(i));
        if (ours[i] == NULL || theirs[i] == NULL) return argument;
        memset(ours[i], 'o', size_of(i));
        memset(theirs[i], 't', size_of(i));
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        wrong += !holds(ours[i], 'o', size_of(i)) || !holds(theirs[i], 't', size_of(i));
        rtm_free(ours[i]);
        free(theirs[i]);
    }
    return wrong == 0 ? NULL : argument;
}

int main(void) {
    Dl_info from;
    void *symbol = dlsym(RTLD_DEFAULT, "malloc");
    if (symbol == NULL || dladdr(symbol, &from) == 0 || strstr(from.dli_fname, "libc.so") == NULL) {
        fputs("malloc is not libc's: librtmalloc.a must define rtm_ names only\n", stderr);
        return 1;
    }
    pthread_t thread;
    void *result;
    if (work((void *)1) != NULL) return 1;
    if (pthread_create(&thread, NULL, work, (void *)1) != 0 || pthread_join(thread, &result) != 0) return 1;
    return result != NULL;
}
