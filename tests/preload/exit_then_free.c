// 64 threads allocate and exit, main frees everything; several rounds, each with sizes of its own.
// What the ended threads held must serve the next round: peak resident memory stays within 1.5
// times the peak of live memory plus 8 MiB. While a profile is recorded, what is freed into an ended thread's heap waits for
// its next thread, as it does in the heap that is made of it: then it is 2.8 to 3.4 times, and may be 4 times what is live.
#include "check.h"

#include <pthread.h>
#include <sys/mman.h>

enum { THREADS = 64, ROUNDS = 8, BYTES_PER_THREAD = 2 * MIB, MOST_BLOCKS = BYTES_PER_THREAD / 64 };

struct worker {
    size_t index, round, count, bytes;
    void *blocks[MOST_BLOCKS];
};
static struct worker *workers;  // mapped: the table is no business of malloc

static size_t random_size(uint64_t *seed, size_t round) {
    switch (round % 4) {
    case 0: return random_between(seed, 64, 512);
    case 1: return random_between(seed, 1000, 9000);
    case 2: return random_log_between(seed, 64, 200 * KIB);
    default: return random_between(seed, 10000, 33000);
    }
}

static void *allocate(void *argument) {
    struct worker *worker = argument;
    uint64_t seed = worker->round * THREADS + worker->index + 1;
    worker->count = worker->bytes = 0;
    while (worker->bytes < BYTES_PER_THREAD && worker->count < MOST_BLOCKS) {
        size_t size = random_size(&seed, worker->round);
        void *block = malloc(size);
        CHECK(block != NULL);
        touch_pages(block, size);
        worker->blocks[worker->count++] = block;
        worker->bytes += size;
    }
    return NULL;
}

int main(void) {
    size_t table_bytes = THREADS * sizeof *workers, live_peak = 0;
    workers = mmap(NULL, table_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(workers != MAP_FAILED);
    reset_peak_resident();
    size_t baseline = resident_bytes();
    for (size_t round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        for (size_t i = 0; i < THREADS; i++) {
            workers[i].index = i;
            workers[i].round = round;
            CHECK(pthread_create(&threads[i], NULL, allocate, &workers[i]) == 0);
        }
        size_t live = 0;
        for (size_t i = 0; i < THREADS; i++) {
            CHECK(pthread_join(threads[i], NULL) == 0);
            live += workers[i].bytes;
        }
        if (live > live_peak) live_peak = live;
        for (size_t i = 0; i < THREADS; i++)
            for (size_t n = 0; n < workers[i].count; n++) free(workers[i].blocks[n]);
    }
    check_peak_memory(baseline, getenv("RTMALLOC_RECORD") ? live_peak * 8 / 3 : live_peak);
    return 0;
}
