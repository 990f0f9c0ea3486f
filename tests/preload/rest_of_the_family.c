// The functions of the family that few programs call: free_sized, free_aligned_sized (C23, looked
// up by name as glibc 2.36 lacks them), valloc, pvalloc, malloc_trim, mallinfo2.
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <malloc.h>

static const size_t sizes[] = {1, 16, 100, 1000, 4096, 5000, 40000, 300000, 3000000, 20000000};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void sized_frees(void) {
    void (*free_sized)(void *, size_t), (*free_aligned_sized)(void *, size_t, size_t);
    *(void **)&free_sized = dlsym(RTLD_DEFAULT, "free_sized");
    *(void **)&free_aligned_sized = dlsym(RTLD_DEFAULT, "free_aligned_sized");
    CHECK(free_sized != NULL, "no free_sized");
    CHECK(free_aligned_sized != NULL, "no free_aligned_sized");
    free_sized(NULL, 0);
    free_aligned_sized(NULL, 0, 0);
    for (int round = 0; round < 100; round++)
        for (int i = 0; i < SIZES; i++) {
            void *block = round % 2 == 0 ? malloc(sizes[i]) : calloc(sizes[i], 1);
            CHECK(block != NULL);
            free_sized(block, sizes[i]);
            size_t alignment = (size_t)1 << (round % 17);
            size_t size = (sizes[i] + alignment - 1) / alignment * alignment;
            block = aligned_alloc(alignment, size);
            CHECK(block != NULL);
            free_aligned_sized(block, alignment, size);
        }
}

static void page_aligned(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < SIZES; i++) {
        void *block = valloc(sizes[i]), *whole_pages = pvalloc(sizes[i]);
        CHECK(block != NULL && whole_pages != NULL);
        CHECK((uintptr_t)block % page == 0 && (uintptr_t)whole_pages % page == 0, "size %zu", sizes[i]);
        size_t rounded = (sizes[i] + page - 1) / page * page;
        CHECK(malloc_usable_size(whole_pages) >= rounded, "pvalloc(%zu)", sizes[i]);
        mark_fill(whole_pages, rounded);
        mark_fill(block, sizes[i]);
        CHECK(mark_holds(whole_pages, rounded) && mark_holds(block, sizes[i]));
        free(block);
        free(whole_pages);
    }
}

static void information(void) {
    enum { BLOCKS = 1000, SIZE = 5000 };
    static void *blocks[BLOCKS];
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = malloc(SIZE)) != NULL);
        touch_pages(blocks[i], SIZE);
    }
    struct mallinfo2 during = mallinfo2();
    size_t in_use_before = before.uordblks + before.hblkhd, in_use = during.uordblks + during.hblkhd;
    CHECK(in_use >= in_use_before + BLOCKS * (size_t)SIZE, "mallinfo2 counts %zu bytes in use for %d, %zu before",
          in_use, BLOCKS * SIZE, in_use_before);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    int trimmed = malloc_trim(0);
    CHECK(trimmed == 0 || trimmed == 1);
    struct mallinfo2 after = mallinfo2();
    CHECK(after.uordblks + after.hblkhd < in_use, "mallinfo2 does not see frees");
}

int main(void) {
    page_aligned();
    information();
    sized_frees();
    return 0;
}
