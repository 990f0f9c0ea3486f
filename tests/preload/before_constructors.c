// malloc works before any constructor of the program or of the library itself has run: in
// .preinit_array (the first code of a program after the dynamic linker), and in constructors of
// the highest priority; the blocks stay usable to the end.
#include "check.h"

enum { BLOCKS = 64 };
static void *early[BLOCKS], *first[BLOCKS];

static size_t size_of(int i) { return (size_t)1 << (i % 21); }  // 1 byte to 1 MiB

static void allocate(void **blocks) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = i % 2 == 0 ? malloc(size_of(i)) : calloc(1, size_of(i));
        CHECK(blocks[i] != NULL, "block %d", i);
        mark_fill(blocks[i], size_of(i));
    }
    for (int i = 0; i < BLOCKS; i += 4) {  // holes, so that the free lists are in use too
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

static void before_everything(int argc, char **argv, char **environment) {
    (void)argc, (void)argv, (void)environment;
    allocate(early);
}
__attribute__((section(".preinit_array"), used)) static void (*preinit)(int, char **, char **) = before_everything;

__attribute__((constructor(101))) static void first_constructor(void) {
    CHECK(early[1] != NULL, "the .preinit_array function did not run");
    allocate(first);
}

static void check_and_free(void **blocks) {
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(blocks[i] == NULL || mark_holds(blocks[i], size_of(i)), "block %d was overwritten", i);
        free(blocks[i]);
    }
}

int main(void) {
    check_and_free(first);
    check_and_free(early);
    return 0;
}
