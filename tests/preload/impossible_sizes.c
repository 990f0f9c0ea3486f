// Sizes near SIZE_MAX and products that overflow give NULL and ENOMEM, from every function, and
// leave the block given to realloc as it was.
#define _GNU_SOURCE
#include "check.h"

#include <malloc.h>

#define CHECK_NO_MEMORY(call)                              \
    do {                                                   \
        errno = 0;                                         \
        void *got = (call);                                \
        CHECK(got == NULL, #call " gave %p", got);         \
        CHECK(errno == ENOMEM, #call " set errno %d", errno); \
    } while (0)

static void one_size(size_t size) {
    CHECK_NO_MEMORY(malloc(size));
    CHECK_NO_MEMORY(calloc(1, size));
    CHECK_NO_MEMORY(calloc(size, 1));
    CHECK_NO_MEMORY(realloc(NULL, size));
    CHECK_NO_MEMORY(aligned_alloc(64, size));
    CHECK_NO_MEMORY(aligned_alloc(8192, size));
    CHECK_NO_MEMORY(memalign(64, size));
    CHECK_NO_MEMORY(valloc(size));
    CHECK_NO_MEMORY(pvalloc(size));
    void *block = &block;
    CHECK(posix_memalign(&block, 64, size) == ENOMEM, "size %zu", size);
    CHECK(block == &block, "posix_memalign changed its result");
}

static void realloc_to(size_t size, size_t old_size) {
    unsigned char *block = malloc(old_size);
    CHECK(block != NULL);
    mark_fill(block, old_size);
    CHECK_NO_MEMORY(realloc(block, size));
    CHECK_NO_MEMORY(reallocarray(block, size, 2));
    CHECK(mark_holds(block, old_size), "the old block was changed");
    free(block);
}

int main(void) {
    // volatile: the compiler warns of such constants.
    static volatile size_t sizes[] = {SIZE_MAX,           SIZE_MAX - 1,    SIZE_MAX - 15,      SIZE_MAX - 16,
                                      SIZE_MAX - 4095,    SIZE_MAX - 4096, SIZE_MAX - 65536,   SIZE_MAX - (4u << 20) + 1,
                                      SIZE_MAX - (8u << 20), SIZE_MAX / 2 + 1, SIZE_MAX / 2, SIZE_MAX / 4};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        one_size(sizes[i]);
        realloc_to(sizes[i], 1);
        realloc_to(sizes[i], 100000);
        realloc_to(sizes[i], 10000000);
    }
    static volatile size_t half = (size_t)1 << 32, most = SIZE_MAX;  // half * half overflows to 0
    CHECK_NO_MEMORY(calloc(half, half));
    CHECK_NO_MEMORY(calloc(half + 1, half));
    CHECK_NO_MEMORY(calloc(most / 2 + 2, 2));
    CHECK_NO_MEMORY(calloc(most, most));
    CHECK_NO_MEMORY(reallocarray(NULL, half, half));
    CHECK_NO_MEMORY(reallocarray(NULL, most / 2 + 2, 2));
    CHECK_NO_MEMORY(reallocarray(NULL, most, most));
    void *block = malloc(100);  // the allocator goes on
    CHECK(block != NULL);
    free(block);
    return 0;
}
