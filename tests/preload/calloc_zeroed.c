// calloc gives zeros, also where the memory was used before, for sizes up to 64 MiB.
#include "check.h"

enum { AT_ONCE = 8 };

static void dirty_then_calloc(size_t size) {
    unsigned char *blocks[AT_ONCE];
    size_t count = size < 8 * MIB ? AT_ONCE : 2;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 0xA5, size);
    }
    for (size_t i = 0; i < count; i++) free(blocks[i]);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = i % 2 == 0 ? calloc(1, size) : calloc(size, 1);
        CHECK(blocks[i] != NULL);
        CHECK(all_bytes_are(blocks[i], 0, size), "calloc of %zu bytes is not zero", size);
        memset(blocks[i], 0x5A, size);
    }
    for (size_t i = 0; i < count; i++) free(blocks[i]);
}

int main(void) {
    for (size_t size = 1; size <= 2 * KIB; size++) dirty_then_calloc(size);
    for (size_t size = 2 * KIB; size <= 64 * MIB; size += size / 3) dirty_then_calloc(size);
    dirty_then_calloc(64 * MIB);
    // Memory that was freed as one size and comes back as another.
    uint64_t seed = 7;
    void *blocks[200] = {NULL};
    for (int i = 0; i < 20000; i++) {
        size_t slot = random_between(&seed, 0, 199), size = random_log_between(&seed, 1, 300 * KIB);
        free(blocks[slot]);
        blocks[slot] = calloc(size, 1);
        CHECK(blocks[slot] != NULL);
        CHECK(all_bytes_are(blocks[slot], 0, size), "calloc of %zu bytes is not zero", size);
        memset(blocks[slot], 0xFF, size);
    }
    for (int i = 0; i < 200; i++) free(blocks[i]);
    return 0;
}
