// realloc keeps the contents as blocks grow and shrink from 1 byte to 64 MiB, over every boundary
// between kinds of blocks, with other blocks in the way and without.
#include "check.h"

#include <malloc.h>

static unsigned char pattern_at(size_t offset) { return (unsigned char)(offset * 31 + (offset >> 8) * 7 + (offset >> 16)); }

static void fill(unsigned char *block, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) block[i] = pattern_at(i);
}

// The ends in full, between them one byte in 509: the whole would take long at 64 MiB.
static void check(const unsigned char *block, size_t size) {
    for (size_t i = 0; i < size; i += i < 4096 || i + 4096 > size ? 1 : 509)
        CHECK(block[i] == pattern_at(i), "byte %zu of %zu is %d", i, size, block[i]);
}

static unsigned char *resize(unsigned char *block, size_t from, size_t to) {
    block = realloc(block, to);
    CHECK(block != NULL, "realloc from %zu to %zu", from, to);
    CHECK((uintptr_t)block % 16 == 0 && malloc_usable_size(block) >= to);
    check(block, from < to ? from : to);
    if (to > from) fill(block, from, to);
    return block;
}

// Grows by a third (and one) up to `most` and back; `others` blocks are allocated on the way.
static void chain(size_t most, bool others) {
    void *in_the_way[200] = {NULL};
    int count = 0;
    unsigned char *block = NULL;
    size_t size = 0;
    while (size < most) {
        size_t larger = size + size / 3 + 1 < most ? size + size / 3 + 1 : most;
        block = resize(block, size, larger);
        size = larger;
        if (others) CHECK((in_the_way[count++] = malloc(size % 300000 + 1)) != NULL);
    }
    while (size > 1) {
        size_t smaller = size - size / 4 - 1;
        if (smaller == 0) smaller = 1;
        block = resize(block, size, smaller);
        size = smaller;
    }
    free(block);
    while (count > 0) free(in_the_way[--count]);
}

static void around_boundaries(void) {
    for (size_t boundary = 8; boundary <= 8 * MIB; boundary *= 2)
        for (size_t step = 1; step <= boundary / 2 && step <= 5000; step = step * 5 + 1) {
            unsigned char *block = resize(NULL, 0, boundary - step);
            block = resize(block, boundary - step, boundary);
            block = resize(block, boundary, boundary + step);
            block = resize(block, boundary + step, boundary - step);
            free(block);
        }
}

static void random_walk(void) {
    enum { BLOCKS = 50 };
    unsigned char *blocks[BLOCKS] = {NULL};
    size_t sizes[BLOCKS] = {0};
    uint64_t seed = 3;
    for (int i = 0; i < 20000; i++) {
        size_t slot = random_between(&seed, 0, BLOCKS - 1);
        size_t size = random_log_between(&seed, 1, i % 100 == 0 ? 3 * MIB : 40 * KIB);
        blocks[slot] = resize(blocks[slot], sizes[slot], size);
        sizes[slot] = size;
    }
    for (int i = 0; i < BLOCKS; i++) {
        check(blocks[i], sizes[i]);
        free(blocks[i]);
    }
}

int main(void) {
    chain(64 * MIB, false);
    chain(64 * MIB, true);
    around_boundaries();
    random_walk();
    return 0;
}
