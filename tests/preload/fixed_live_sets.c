// 16 threads each keep a live set of fixed size, replacing blocks at random, while one thread that
// never allocates does all the freeing (mimalloc's issue 1364). Peak resident memory stays within
// 1.5 times the peak of live memory (blocks in flight included) plus 8 MiB.
//   fixed_live_sets REPLACEMENTS   (of all threads together)
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { WORKERS = 16, SET = 2000, IN_FLIGHT = 500 };

struct item {
    void *block;
    size_t size;
};

struct worker {
    _Alignas(64) atomic_size_t put;    // written by the worker
    _Alignas(64) atomic_size_t taken;  // written by the freeing thread
    struct item in_flight[IN_FLIGHT];
    struct item set[SET];
    size_t replacements;
};
static struct worker workers[WORKERS];
static atomic_size_t live, live_peak;
static atomic_int running = WORKERS;

static void count_live(size_t size) {
    size_t now = atomic_fetch_add(&live, size) + size, peak = atomic_load(&live_peak);
    while (now > peak && !atomic_compare_exchange_weak(&live_peak, &peak, now)) continue;
}

static struct item allocate(uint64_t *seed) {
    size_t size = random_log_between(seed, 16, 16 * KIB);
    struct item item = {malloc(size), size};
    CHECK(item.block != NULL);
    touch_pages(item.block, size);
    *(unsigned char *)item.block = mark_of(item.block, size);
    count_live(size);
    return item;
}

static void *work(void *argument) {
    struct worker *worker = argument;
    uint64_t seed = (uint64_t)(worker - workers) + 1;
    for (size_t i = 0; i < SET; i++) worker->set[i] = allocate(&seed);
    for (size_t i = 0; i < worker->replacements; i++) {
        size_t put = atomic_load_explicit(&worker->put, memory_order_relaxed);
        while (put - atomic_load_explicit(&worker->taken, memory_order_acquire) == IN_FLIGHT) sched_yield();
        struct item *slot = &worker->set[random_between(&seed, 0, SET - 1)];
        worker->in_flight[put % IN_FLIGHT] = *slot;
        atomic_store_explicit(&worker->put, put + 1, memory_order_release);
        *slot = allocate(&seed);
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static size_t free_what_came(struct worker *worker) {
    size_t put = atomic_load_explicit(&worker->put, memory_order_acquire);
    size_t taken = atomic_load_explicit(&worker->taken, memory_order_relaxed), count = put - taken;
    for (; taken != put; taken++) {
        struct item item = worker->in_flight[taken % IN_FLIGHT];
        CHECK(*(unsigned char *)item.block == mark_of(item.block, item.size), "a block was overwritten");
        free(item.block);
        atomic_fetch_sub(&live, item.size);
        atomic_store_explicit(&worker->taken, taken + 1, memory_order_release);
    }
    return count;
}

static void *free_for_all(void *unused) {
    for (;;) {
        bool last = atomic_load(&running) == 0;
        size_t freed = 0;
        for (int i = 0; i < WORKERS; i++) freed += free_what_came(&workers[i]);
        if (freed == 0 && last) return unused;
        if (freed == 0) sched_yield();
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 2, "usage: fixed_live_sets REPLACEMENTS");
    memset(workers, 0xFF, sizeof workers);  // resident before the baseline is taken
    memset(workers, 0, sizeof workers);
    reset_peak_resident();
    size_t baseline = resident_bytes();
    pthread_t threads[WORKERS], freeing;
    CHECK(pthread_create(&freeing, NULL, free_for_all, NULL) == 0);
    for (int i = 0; i < WORKERS; i++) {
        workers[i].replacements = (size_t)atof(argv[1]) / WORKERS;
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < WORKERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(pthread_join(freeing, NULL) == 0);
    check_peak_memory(baseline, atomic_load(&live_peak));
    for (int i = 0; i < WORKERS; i++)
        for (int n = 0; n < SET; n++) free(workers[i].set[n].block);
    return 0;
}
