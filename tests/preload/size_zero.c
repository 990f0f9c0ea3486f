// Size 0 gives a block of its own, not NULL, that can be freed; realloc(p, 0) frees and returns
// NULL as in glibc; realloc(NULL, n) is malloc(n); free(NULL) does nothing.
#define _GNU_SOURCE
#include "check.h"

#include <malloc.h>

enum { BLOCKS = 1000, KINDS = 9 };

static void *of_size_zero(int kind) {
    void *block = NULL;
    switch (kind) {
    case 0: return malloc(0);
    case 1: return calloc(0, 8);
    case 2: return calloc(8, 0);
    case 3: return realloc(NULL, 0);
    case 4: return reallocarray(NULL, 0, 8);
    case 5: return aligned_alloc(64, 0);
    case 6: return memalign(32, 0);
    case 7: return valloc(0);
    default: return posix_memalign(&block, 64, 0) == 0 ? block : NULL;
    }
}

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;
    return (x > y) - (x < y);
}

int main(void) {
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = of_size_zero(i % KINDS);
        CHECK(blocks[i] != NULL, "kind %d", i % KINDS);
    }
    qsort(blocks, BLOCKS, sizeof *blocks, by_address);
    for (int i = 1; i < BLOCKS; i++) CHECK(blocks[i] != blocks[i - 1], "%p was given twice", blocks[i]);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);

    static const size_t sizes[] = {0, 1, 100, 5000, 100000, 1000000, 20000000};
    volatile size_t zero = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *block = realloc(NULL, sizes[i]);
        CHECK(block != NULL, "size %zu", sizes[i]);
        mark_fill(block, sizes[i]);
        CHECK(realloc(block, zero) == NULL, "size %zu", sizes[i]);
        block = malloc(sizes[i]);
        CHECK(block != NULL);
        CHECK(reallocarray(block, zero, 8) == NULL, "size %zu", sizes[i]);
    }
    size_t before = resident_bytes();  // realloc to 0 really frees
    for (int i = 0; i < 1000; i++) {
        void *block = malloc(100000);
        CHECK(block != NULL);
        touch_pages(block, 100000);
        CHECK(realloc(block, zero) == NULL);
    }
    CHECK(resident_bytes() < before + 16 * MIB, "realloc(p, 0) kept the memory");
    free(NULL);
    return 0;
}
