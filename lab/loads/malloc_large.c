// malloc_large: 16 live blocks of 5 to 25 MiB, replaced at random, each page of each block written once.
// After the load of that name in mimalloc-bench (D. Leijen, 2019), as described in its readme. It shows what an
// allocator pays for giving big blocks back to the system and getting them again.
// malloc_large [scale]: scale multiplies the replacements (500).
#include "load.h"

enum { LIVE_BLOCKS = 16, PAGE_BYTES = 4096 };
static const uint32_t min_bytes = UINT32_C(5) << 20, max_bytes = UINT32_C(25) << 20;

// One byte a page, in the middle of it: neither the cookie in front nor the last byte.
static void touch_pages(unsigned char *block, uint32_t size) {
    for (uint32_t at = PAGE_BYTES / 2; at < size - PAGE_BYTES; at += PAGE_BYTES) block[at] = (unsigned char)(at >> 12);
}

static void check_pages(const unsigned char *block, uint32_t size) {
    for (uint32_t at = PAGE_BYTES / 2; at < size - PAGE_BYTES; at += PAGE_BYTES)
        if (block[at] != (unsigned char)(at >> 12)) load_fail("damaged page at offset", at);
}

static uint64_t empty(void **slot) {
    if (*slot == NULL) return 0;
    check_pages(*slot, block_size(*slot));
    const uint64_t cookie = block_delete(*slot);
    *slot = NULL;
    return cookie;
}

int main(int argc, char **argv) {
    const struct load load = load_begin(argc, argv, "malloc_large", 0);
    const uint64_t replacements = load_scaled(&load, 500);
    struct rng rng = rng_stream(0);
    void *blocks[LIVE_BLOCKS] = {NULL};
    uint64_t sum = 0;
    for (uint64_t n = 0; n < replacements; n++) {
        void **slot = &blocks[rng_below(&rng, LIVE_BLOCKS)];
        const uint32_t bytes = rng_between(&rng, min_bytes, max_bytes);
        sum += empty(slot);
        *slot = block_new(bytes, &rng);
        touch_pages(*slot, bytes);
    }
    for (int i = 0; i < LIVE_BLOCKS; i++) sum += empty(&blocks[i]);
    return load_end(&load, sum);
}
