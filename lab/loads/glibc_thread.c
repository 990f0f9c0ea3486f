// glibc_thread: each thread keeps a working set of blocks of random size and replaces random members of it.
// After the description of bench-malloc-thread in the benchmark tests of glibc: sizes from a few bytes to 32 KiB, and
// the number of requests falls with the size.
// glibc_thread [scale] [threads]: scale multiplies the replacements (10 million, dealt to the threads).
#include "load.h"

enum { WORKING_SET = 1024 };

struct job {
    struct rng rng;
    uint64_t replacements;
    uint64_t sum; // of the cookies freed
};

static void *body(void *arg) {
    struct job *job = arg;
    struct rng rng = job->rng;
    uint64_t sum = 0;
    void *blocks[WORKING_SET] = {NULL};
    for (uint64_t n = 0; n < job->replacements; n++) {
        void **slot = &blocks[rng_below(&rng, WORKING_SET)];
        if (*slot != NULL) sum += block_delete(*slot);
        *slot = block_new(rng_size_log(&rng, 3, 15), &rng);
    }
    for (int i = 0; i < WORKING_SET; i++)
        if (blocks[i] != NULL) sum += block_delete(blocks[i]);
    job->sum = sum;
    return NULL;
}

int main(int argc, char **argv) {
    const struct load load = load_begin(argc, argv, "glibc_thread", 1);
    static struct job jobs[LOAD_MAX_THREADS];
    const uint64_t replacements = load_scaled(&load, 10e6);
    for (int i = 0; i < load.threads; i++) {
        jobs[i].rng = rng_stream((uint64_t)i);
        jobs[i].replacements = load_share(replacements, load.threads, i);
    }
    load_run(load.threads, body, jobs, sizeof jobs[0]);
    uint64_t sum = 0;
    for (int i = 0; i < load.threads; i++) sum += jobs[i].sum;
    return load_end(&load, sum);
}
