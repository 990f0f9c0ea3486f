// sh8bench: like sh6bench, runs of equal small blocks freed in both orders, but by another thread: while a thread
// makes its next batch, it frees the batch that its neighbour made in the step before.
// After the description of MicroQuill's SmartHeap benchmark sh8bench in the readme of mimalloc (D. Leijen, 2019).
// sh8bench [scale] [threads]: scale multiplies the batches (400 of 20000 blocks, dealt to the threads).
#include "load.h"

enum { BATCH_BLOCKS = 20000, LONGEST_RUN = 100 };

struct batch {
    void *blocks[BATCH_BLOCKS];
    uint32_t freed_from_front, freed_from_back; // their sum is at most BATCH_BLOCKS
};

struct job {
    struct rng rng;
    int index, threads;
    uint64_t batches;
    uint64_t sum; // of the cookies freed
    pthread_barrier_t *step;
    struct batch **made; // [2][threads]: of this step and of the one before, in turn
};

// Frees up to `count` blocks of a batch, newest or oldest first.
static uint64_t free_some(struct batch *batch, uint32_t count, bool newest_first) {
    uint64_t sum = 0;
    while (count-- > 0 && batch->freed_from_front + batch->freed_from_back < BATCH_BLOCKS) {
        const uint32_t at =
            newest_first ? BATCH_BLOCKS - 1 - batch->freed_from_back++ : batch->freed_from_front++;
        sum += block_delete(batch->blocks[at]);
    }
    return sum;
}

// While it makes a batch, it frees as much of a foreign one (if there is one), and adds the cookies to *sum.
static struct batch *make_batch(struct rng *rng, struct batch *foreign, uint64_t *sum) {
    struct batch *batch = load_alloc(sizeof *batch);
    batch->freed_from_front = batch->freed_from_back = 0;
    for (uint32_t filled = 0; filled < BATCH_BLOCKS;) {
        const uint32_t bytes = rng_size_log(rng, 3, 10), drawn = rng_between(rng, 1, LONGEST_RUN);
        const uint32_t length = drawn < BATCH_BLOCKS - filled ? drawn : BATCH_BLOCKS - filled;
        for (uint32_t i = 0; i < length; i++) batch->blocks[filled++] = block_new(bytes, rng);
        if (foreign != NULL) *sum += free_some(foreign, length, rng_below(rng, 2) == 0);
    }
    return batch;
}

static void *body(void *arg) {
    struct job *job = arg;
    struct rng rng = job->rng;
    uint64_t sum = 0;
    for (uint64_t n = 0; n < job->batches; n++) {
        struct batch **before = job->made + (n + 1) % 2 * (uint64_t)job->threads;
        struct batch **now = job->made + n % 2 * (uint64_t)job->threads;
        struct batch *foreign = n > 0 ? before[(job->index + 1) % job->threads] : NULL;
        now[job->index] = make_batch(&rng, foreign, &sum);
        if (foreign != NULL) {
            sum += free_some(foreign, BATCH_BLOCKS, true);
            free(foreign);
        }
        pthread_barrier_wait(job->step); // all batches of this step are made, all of the step before are free
    }
    job->sum = sum;
    return NULL;
}

int main(int argc, char **argv) {
    const struct load load = load_begin(argc, argv, "sh8bench", 1);
    static struct job jobs[LOAD_MAX_THREADS];
    static struct batch *made[2 * LOAD_MAX_THREADS];
    // Every thread takes part in every step, so all make the same number of batches, at least 2.
    const uint64_t dealt = load_scaled(&load, 400) / (uint64_t)load.threads, batches = dealt < 2 ? 2 : dealt;
    pthread_barrier_t step;
    pthread_barrier_init(&step, NULL, (unsigned)load.threads);
    for (int i = 0; i < load.threads; i++) {
        jobs[i].rng = rng_stream((uint64_t)i);
        jobs[i].index = i;
        jobs[i].threads = load.threads;
        jobs[i].batches = batches;
        jobs[i].step = &step;
        jobs[i].made = made;
    }
    load_run(load.threads, body, jobs, sizeof jobs[0]);
    pthread_barrier_destroy(&step);
    uint64_t sum = 0;
    for (int i = 0; i < load.threads; i++) {
        struct batch *last = made[(batches - 1) % 2 * (uint64_t)load.threads + (uint64_t)i];
        sum += jobs[i].sum + free_some(last, BATCH_BLOCKS, false);
        free(last);
    }
    return load_end(&load, sum);
}
