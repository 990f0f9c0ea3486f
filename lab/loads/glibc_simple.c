// glibc_simple: one thread, batches of equal blocks: allocate all, then free all in the order of allocation. The size
// and the length of each batch are random; one block of each batch survives the next batch, so that the heap never
// becomes empty (else the load would measure how an allocator returns memory to the system).
// After the description of bench-malloc-simple in the benchmark tests of glibc: short batches stay within a thread
// cache, long ones go past it.
// glibc_simple [scale]: scale multiplies the allocations (20 million).
#include "load.h"

enum { LONGEST_BATCH = 1600 };
static const uint32_t batch_lengths[] = {25, 100, 400, LONGEST_BATCH};

int main(int argc, char **argv) {
    const struct load load = load_begin(argc, argv, "glibc_simple", 0);
    static void *blocks[LONGEST_BATCH];
    struct rng rng = rng_stream(0);
    uint64_t left = load_scaled(&load, 20e6), sum = 0;
    void *survivor = NULL;
    while (left > 0) {
        const uint32_t bytes = rng_size_log(&rng, 3, 10);
        const uint32_t drawn = batch_lengths[rng_below(&rng, 4)];
        const uint32_t length = drawn < left ? drawn : (uint32_t)left;
        for (uint32_t i = 0; i < length; i++) {
            blocks[i] = load_alloc(bytes);
            block_stamp(blocks[i], bytes, i);
        }
        if (survivor != NULL) sum += block_delete(survivor);
        for (uint32_t i = 0; i < length - 1; i++) sum += block_delete(blocks[i]);
        survivor = blocks[length - 1];
        left -= length;
    }
    sum += block_delete(survivor);
    return load_end(&load, sum);
}
