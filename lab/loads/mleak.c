// mleak: generations of short-lived threads. Each thread allocates, keeps some blocks in thread-specific data, which
// a destructor frees while the thread exits, and leaves some to the main thread, which frees them after the join.
// After the load of that name in mimalloc-bench (D. Leijen, 2019), as described in its readme: an allocator that loses
// a dead thread's memory, or does not adopt it, grows with the generations.
// mleak [scale] [threads]: scale multiplies the threads started in all (16000); threads is the size of a generation.
#include "load.h"

enum { WORK_BLOCKS = 100, LOCAL_BLOCKS = 50, LEFT_BLOCKS = 25 };

struct job {
    struct rng rng;
    uint64_t sum;             // of the cookies freed by the thread and its destructor
    void *left[LEFT_BLOCKS];  // to the main thread
};

// What the thread-specific key points to.
struct local {
    struct job *job;
    void *blocks[LOCAL_BLOCKS];
};

static pthread_key_t local_key;

static void free_local(void *value) {
    struct local *local = value;
    for (int i = 0; i < LOCAL_BLOCKS; i++) local->job->sum += block_delete(local->blocks[i]);
    free(local);
}

static void *body(void *arg) {
    struct job *job = arg;
    struct rng *rng = &job->rng;
    struct local *local = load_alloc(sizeof *local);
    local->job = job;
    for (int i = 0; i < LOCAL_BLOCKS; i++) local->blocks[i] = block_new(rng_size_log(rng, 3, 13), rng);
    if (pthread_setspecific(local_key, local) != 0) load_fail("pthread_setspecific", 0);

    void *work[WORK_BLOCKS];
    for (int i = 0; i < WORK_BLOCKS; i++) work[i] = block_new(rng_size_log(rng, 3, 11), rng);
    for (int i = 0; i < WORK_BLOCKS; i++) job->sum += block_delete(work[i]);
    for (int i = 0; i < LEFT_BLOCKS; i++) job->left[i] = block_new(rng_size_log(rng, 3, 13), rng);
    return NULL;
}

int main(int argc, char **argv) {
    const struct load load = load_begin(argc, argv, "mleak", 1);
    const uint64_t threads = load_scaled(&load, 16000);
    if (pthread_key_create(&local_key, free_local) != 0) load_fail("pthread_key_create", 0);
    static struct job jobs[LOAD_MAX_THREADS];
    uint64_t sum = 0;
    for (uint64_t started = 0; started < threads; started += (uint64_t)load.threads) {
        const uint64_t left = threads - started;
        const int generation = left < (uint64_t)load.threads ? (int)left : load.threads;
        for (int i = 0; i < generation; i++) {
            jobs[i].rng = rng_stream(started + (uint64_t)i);
            jobs[i].sum = 0;
        }
        load_run(generation, body, jobs, sizeof jobs[0]);
        for (int i = 0; i < generation; i++) {
            sum += jobs[i].sum;
            for (int k = 0; k < LEFT_BLOCKS; k++) sum += block_delete(jobs[i].left[k]);
        }
    }
    pthread_key_delete(local_key);
    return load_end(&load, sum);
}
