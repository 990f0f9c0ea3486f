// The body of cache_scratch.c and cache_thrash.c, which differ in one thing: whether each thread starts by freeing an
// object that the main thread allocated next to those of the other threads (passive) or with nothing (active).
#ifndef RTMALLOC_LAB_FALSE_SHARING_H
#define RTMALLOC_LAB_FALSE_SHARING_H

#include "load.h"

enum { OBJECT_BYTES = 8, WRITES = 1000 };

struct job {
    void *handed; // from the main thread, or NULL
    struct rng rng;
    uint64_t objects;
    uint64_t sum; // of the cookies freed
    pthread_barrier_t *start;
};

// Reads and writes each byte again and again; volatile, because the traffic to the cache line is what is measured.
static void hammer(void *object) {
    volatile unsigned char *bytes = object;
    for (int n = 0; n < WRITES; n++) bytes[n % OBJECT_BYTES]++;
}

// WRITES / OBJECT_BYTES increments of each byte, modulo 256, what hammer() leaves of a cookie.
static uint64_t hammered(uint64_t cookie) {
    unsigned char bytes[OBJECT_BYTES];
    memcpy(bytes, &cookie, sizeof bytes);
    hammer(bytes);
    memcpy(&cookie, bytes, sizeof bytes);
    return cookie;
}

static void *body(void *arg) {
    struct job *job = arg;
    struct rng rng = job->rng;
    uint64_t sum = 0;
    pthread_barrier_wait(job->start); // without it the first threads would be done before the last ones start
    if (job->handed != NULL) sum += block_delete(job->handed);
    for (uint64_t n = 0; n < job->objects; n++) {
        const uint64_t value = rng_next(&rng);
        uint64_t *object = load_alloc(OBJECT_BYTES);
        *object = value;
        hammer(object);
        sum += *object;
        if (n % 256 == 0 && *object != hammered(value)) load_fail("another thread wrote to this object", n);
        free(object);
    }
    job->sum = sum;
    return NULL;
}

static int false_sharing_main(int argc, char **argv, const char *name, bool passive) {
    const struct load load = load_begin(argc, argv, name, 1);
    static struct job jobs[LOAD_MAX_THREADS];
    const uint64_t objects = load_scaled(&load, 1.2e6);
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)load.threads);
    struct rng rng = rng_stream(LOAD_MAX_THREADS);
    for (int i = 0; i < load.threads; i++) {
        jobs[i].handed = passive ? block_new(OBJECT_BYTES, &rng) : NULL;
        jobs[i].rng = rng_stream((uint64_t)i);
        jobs[i].objects = load_share(objects, load.threads, i);
        jobs[i].start = &start;
    }
    load_run(load.threads, body, jobs, sizeof jobs[0]);
    pthread_barrier_destroy(&start);
    uint64_t sum = 0;
    for (int i = 0; i < load.threads; i++) sum += jobs[i].sum;
    return load_end(&load, sum);
}

#endif
