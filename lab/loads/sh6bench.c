// sh6bench: each thread stacks up runs of equal small blocks; part of them is freed last in, first out, part in the
// reverse order, oldest first.
// After the description of MicroQuill's SmartHeap benchmark sh6bench in the readme of mimalloc (D. Leijen, 2019).
// sh6bench [scale] [threads]: scale multiplies the runs (400000 of about 50 blocks, dealt to the threads).
#include "load.h"

enum { STACK_BLOCKS = 4096, LONGEST_RUN = 100 };

struct job {
    struct rng rng;
    uint64_t runs;
    uint64_t sum; // of the cookies freed
};

// The smaller the more frequent: 8 to 1000 bytes, half of them below 90.
static uint32_t run_bytes(struct rng *rng) { return rng_size_log(rng, 3, 10); }

static void *body(void *arg) {
    struct job *job = arg;
    struct rng rng = job->rng;
    uint64_t sum = 0;
    void *stack[STACK_BLOCKS];
    uint32_t height = 0;
    for (uint64_t n = 0; n < job->runs; n++) {
        const uint32_t bytes = run_bytes(&rng), length = rng_between(&rng, 1, LONGEST_RUN);
        if (height + length > STACK_BLOCKS) { // full: the older half goes, oldest first
            const uint32_t half = height / 2;
            for (uint32_t i = 0; i < half; i++) sum += block_delete(stack[i]);
            memmove(stack, stack + half, (height - half) * sizeof stack[0]);
            height -= half;
        }
        for (uint32_t i = 0; i < length; i++) {
            stack[height] = load_alloc(bytes);
            block_stamp(stack[height++], bytes, n + i);
        }
        if (n % 2 == 0) { // every other run, and a little of what was below it, goes at once, newest first
            const uint32_t wanted = length + length / 4, popped = wanted < height ? wanted : height;
            for (uint32_t i = 0; i < popped; i++) sum += block_delete(stack[--height]);
        }
    }
    for (uint32_t i = 0; i < height; i++) sum += block_delete(stack[i]);
    job->sum = sum;
    return NULL;
}

int main(int argc, char **argv) {
    const struct load load = load_begin(argc, argv, "sh6bench", 1);
    static struct job jobs[LOAD_MAX_THREADS];
    const uint64_t runs = load_scaled(&load, 400e3);
    for (int i = 0; i < load.threads; i++) {
        jobs[i].rng = rng_stream((uint64_t)i);
        jobs[i].runs = load_share(runs, load.threads, i);
    }
    load_run(load.threads, body, jobs, sizeof jobs[0]);
    uint64_t sum = 0;
    for (int i = 0; i < load.threads; i++) sum += jobs[i].sum;
    return load_end(&load, sum);
}
