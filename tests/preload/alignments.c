// Aligned allocation: every power of two is kept up to 1 GiB, others are refused with EINVAL where
// the manual pages say so, impossible ones give ENOMEM; realloc keeps the contents of aligned blocks.
#define _GNU_SOURCE
#include "check.h"

#include <malloc.h>

static const size_t sizes[] = {0, 1, 17, 100, 1000, 5000, 33000, 100000, 2100000, 5000000};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void check_aligned(void *block, size_t size, size_t alignment, const char *function) {
    CHECK(block != NULL, "%s(%zu, %zu)", function, alignment, size);
    CHECK((uintptr_t)block % alignment == 0, "%s(%zu, %zu) gave %p", function, alignment, size, block);
    CHECK(malloc_usable_size(block) >= size, "%s(%zu, %zu)", function, alignment, size);
    mark_fill(block, size);
}

static void *by_posix(size_t alignment, size_t size) {
    void *block = NULL;
    int error = posix_memalign(&block, alignment, size);
    CHECK(error == 0 || block == NULL, "posix_memalign changed its result on error %d", error);
    errno = error;
    return block;
}

static void powers_of_two(size_t alignment) {
    for (int i = 0; i < SIZES; i++) {
        size_t size = sizes[i];
        void *blocks[6] = {aligned_alloc(alignment, size), memalign(alignment, size), memalign(alignment, size),
                           aligned_alloc(alignment, size), memalign(alignment, size), NULL};
        if (alignment >= sizeof(void *)) blocks[5] = by_posix(alignment, size);
        for (int n = 0; n < (blocks[5] != NULL ? 6 : 5); n++) check_aligned(blocks[n], size, alignment, "aligned");
        for (int n = 0; n < 4; n++) CHECK(mark_holds(blocks[n], size), "aligned blocks overlap");
        unsigned char mark = mark_of(blocks[0], size);
        blocks[0] = realloc(blocks[0], 2 * size + 1);
        CHECK(blocks[0] != NULL && all_bytes_are(blocks[0], mark, size), "realloc lost the contents");
        for (int n = 0; n < 6; n++) free(blocks[n]);
    }
}

static void huge_alignment(size_t alignment, size_t size) {
    void *block = aligned_alloc(alignment, size);
    if (block == NULL) {  // allowed, where addresses are short
        CHECK(errno == ENOMEM, "errno is %d", errno);
        return;
    }
    CHECK((uintptr_t)block % alignment == 0, "%p", block);
    mark_fill(block, size);
    CHECK(mark_holds(block, size));
    free(block);
}

static void impossible_alignment(size_t alignment) {
    errno = 0;
    CHECK(aligned_alloc(alignment, 100) == NULL && (errno == ENOMEM || errno == EINVAL), "errno is %d", errno);
    errno = 0;
    CHECK(memalign(alignment, 100) == NULL && (errno == ENOMEM || errno == EINVAL), "errno is %d", errno);
    void *block = NULL;
    CHECK(posix_memalign(&block, alignment, 100) == ENOMEM && block == NULL);
}

// posix_memalign(3): EINVAL if not a power of two or not a multiple of sizeof(void *).
static void refused(size_t alignment) {
    void *block = &block;
    errno = 0;
    CHECK(posix_memalign(&block, alignment, 100) == EINVAL, "alignment %zu", alignment);
    CHECK(block == &block, "posix_memalign changed its result");
    CHECK(errno == 0, "posix_memalign set errno");
}

int main(void) {
    for (size_t alignment = 1; alignment <= 32 * (size_t)MIB; alignment *= 2) powers_of_two(alignment);
    huge_alignment((size_t)1 << 30, 1);
    huge_alignment((size_t)1 << 30, 5 * MIB);
    impossible_alignment((size_t)1 << 62);
    impossible_alignment((size_t)1 << 63);
    static const size_t bad[] = {0, 1, 2, 4, 3, 9, 12, 24, 48, 100, 4095, 4097, ((size_t)1 << 62) + 8, SIZE_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refused(bad[i]);
    // C23 7.24.3.1: aligned_alloc with an alignment that is not supported fails. glibc before 2.38
    // rounds it up instead; EINVAL or a block that can be used are both right.
    static const volatile size_t odd[] = {3, 24, 100, 4097};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        errno = 0;
        void *block = aligned_alloc(odd[i], 100);
        CHECK(block != NULL || errno == EINVAL, "aligned_alloc(%zu) set errno %d", odd[i], errno);
        if (block != NULL) mark_fill(block, 100);
        free(block);
        errno = 0;
        block = memalign(odd[i], 100);
        CHECK(block != NULL || errno == EINVAL, "memalign(%zu) set errno %d", odd[i], errno);
        if (block != NULL) mark_fill(block, 100);
        free(block);
    }
    return 0;
}
