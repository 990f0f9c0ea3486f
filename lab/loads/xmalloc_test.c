// xmalloc_test: half of the threads only allocate, the other half only free what the first half made.
// C. Lever, D. Boreham: malloc() performance in a multithreaded Linux environment. USENIX 2000; the asymmetric
// variant as described in the readme of mimalloc. Here the work is fixed, not the time, and the queue is bounded, so
// that memory does not grow with the speed of the producers.
// xmalloc_test [scale] [threads]: scale multiplies the number of batches (60000 of 120 blocks); threads, at least 2, is
// producers and consumers together.
#include "load.h"

enum { BATCH_BLOCKS = 120, QUEUE_BATCHES = 64 };

struct batch {
    void *blocks[BATCH_BLOCKS];
};

// A ring of batches. A full ring stops the producers, an empty one the consumers until producers_left is 0.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    struct batch *ring[QUEUE_BATCHES];
    uint32_t first, count;
    int producers_left;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .not_empty = PTHREAD_COND_INITIALIZER,
           .not_full = PTHREAD_COND_INITIALIZER};

static void queue_put(struct batch *batch) {
    pthread_mutex_lock(&queue.lock);
    while (queue.count == QUEUE_BATCHES) pthread_cond_wait(&queue.not_full, &queue.lock);
    queue.ring[(queue.first + queue.count++) % QUEUE_BATCHES] = batch;
    pthread_cond_signal(&queue.not_empty);
    pthread_mutex_unlock(&queue.lock);
}

static void queue_close(void) {
    pthread_mutex_lock(&queue.lock);
    queue.producers_left--;
    pthread_cond_broadcast(&queue.not_empty);
    pthread_mutex_unlock(&queue.lock);
}

// NULL when nothing is left and nothing will come.
static struct batch *queue_take(void) {
    struct batch *batch = NULL;
    pthread_mutex_lock(&queue.lock);
    while (queue.count == 0 && queue.producers_left > 0) pthread_cond_wait(&queue.not_empty, &queue.lock);
    if (queue.count > 0) {
        batch = queue.ring[queue.first];
        queue.first = (queue.first + 1) % QUEUE_BATCHES;
        queue.count--;
        pthread_cond_signal(&queue.not_full);
    }
    pthread_mutex_unlock(&queue.lock);
    return batch;
}

struct job {
    bool producer;
    struct rng rng;
    uint64_t batches; // to produce
    uint64_t sum;     // of the cookies freed
};

// Mostly small objects, as in a message-passing program; one in sixteen is a buffer.
static uint32_t object_bytes(struct rng *rng) {
    return rng_below(rng, 16) == 0 ? rng_between(rng, 513, 4096) : rng_between(rng, 8, 512);
}

static void produce(struct job *job) {
    struct rng rng = job->rng;
    for (uint64_t n = 0; n < job->batches; n++) {
        struct batch *batch = load_alloc(sizeof *batch);
        for (int i = 0; i < BATCH_BLOCKS; i++) batch->blocks[i] = block_new(object_bytes(&rng), &rng);
        queue_put(batch);
    }
    queue_close();
}

static void consume(struct job *job) {
    uint64_t sum = 0;
    struct batch *batch;
    while ((batch = queue_take()) != NULL) {
        for (int i = 0; i < BATCH_BLOCKS; i++) sum += block_delete(batch->blocks[i]);
        free(batch);
    }
    job->sum = sum;
}

static void *body(void *arg) {
    struct job *job = arg;
    if (job->producer) produce(job);
    else consume(job);
    return NULL;
}

int main(int argc, char **argv) {
    const struct load load = load_begin(argc, argv, "xmalloc_test", 2);
    static struct job jobs[LOAD_MAX_THREADS];
    const uint64_t batches = load_scaled(&load, 60000);
    const int producers = load.threads / 2;
    queue.producers_left = producers;
    for (int i = 0; i < load.threads; i++) {
        jobs[i].producer = i < producers;
        jobs[i].rng = rng_stream((uint64_t)i);
        jobs[i].batches = i < producers ? load_share(batches, producers, i) : 0;
    }
    load_run(load.threads, body, jobs, sizeof jobs[0]);
    uint64_t sum = 0;
    for (int i = 0; i < load.threads; i++) sum += jobs[i].sum;
    return load_end(&load, sum);
}
