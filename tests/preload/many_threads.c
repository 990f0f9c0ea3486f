// 10,000 threads start and end, each with blocks of its own and one that it leaves to main. What an ended thread held
// must serve the next one: memory stays within 8 MiB of what the first threads held. Those wait for each other, so that
// from the start there are as many heaps as there ever will be, and each has what a heap begins with: in the modes
// without a profile that is a huge page of 2 MiB.
#include "check.h"

#include <pthread.h>

enum { THREADS = 10000, AT_ONCE = 20, BLOCKS = 20 };

static pthread_barrier_t all_hold_blocks;

static void *body(void *argument) {
    uint64_t seed = (uintptr_t)argument;
    void *blocks[BLOCKS];
    size_t sizes[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        sizes[i] = random_log_between(&seed, 1, 20 * KIB);
        blocks[i] = malloc(sizes[i]);
        CHECK(blocks[i] != NULL);
        mark_fill(blocks[i], sizes[i]);
    }
    if ((uintptr_t)argument <= AT_ONCE) pthread_barrier_wait(&all_hold_blocks);
    for (int i = 1; i < BLOCKS; i++) {
        CHECK(mark_holds(blocks[i], sizes[i]), "a block was overwritten");
        free(blocks[i]);
    }
    return blocks[0];
}

static void run_batch(size_t first) {
    pthread_t threads[AT_ONCE];
    for (size_t i = 0; i < AT_ONCE; i++)
        CHECK(pthread_create(&threads[i], NULL, body, (void *)(uintptr_t)(first + i + 1)) == 0);
    for (size_t i = 0; i < AT_ONCE; i++) {
        void *block;
        CHECK(pthread_join(threads[i], &block) == 0);
        free(block);
    }
}

int main(void) {
    CHECK(pthread_barrier_init(&all_hold_blocks, NULL, AT_ONCE) == 0);
    run_batch(0);
    size_t start = resident_bytes();
    for (size_t i = AT_ONCE; i < THREADS; i += AT_ONCE) run_batch(i);
    size_t end = resident_bytes();
    CHECK(end <= start + 8 * MIB, "%zu KiB resident after 10,000 threads, %zu at the start", end / KIB, start / KIB);
    return 0;
}
