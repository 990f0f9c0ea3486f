// A program that peaks at so many MiB and frees all returns to within 16 MiB of where it started,
// one segment (4 MiB) more for each live thread.
//   memory_returns MIB ORDER alone         one thread does it all
//   memory_returns MIB ORDER own THREADS   each thread frees its own blocks
//   memory_returns MIB ORDER main THREADS  the threads exit, main frees all
// ORDER of the frees: forward, reverse or random.
#include "check.h"

#include <pthread.h>
#include <sys/mman.h>

enum { MOST_THREADS = 8 };

struct share {
    size_t index, bytes, count;
    void **blocks;  // mapped: the table is no business of malloc
    size_t most_blocks;
};
static struct share shares[MOST_THREADS];
static const char *order;
static pthread_barrier_t together;  // main and the threads, when these free their own blocks

// By bytes: a quarter small blocks, half medium ones, a quarter huge ones.
static size_t random_size(uint64_t *seed, size_t i) {
    if (i % 4000 == 0) return random_between(seed, 2 * MIB, 20 * MIB);
    if (i % 100 == 0) return random_log_between(seed, 32 * KIB, 2 * MIB);
    return random_log_between(seed, 16, 16 * KIB);
}

static void allocate(struct share *share) {
    uint64_t seed = share->index + 1;
    size_t bytes = 0;
    for (share->count = 0; bytes < share->bytes; share->count++) {
        CHECK(share->count < share->most_blocks, "the table is too small");
        size_t size = random_size(&seed, share->count + 1);
        void *block = malloc(size);
        CHECK(block != NULL);
        touch_pages(block, size);
        share->blocks[share->count] = block;
        bytes += size;
    }
}

static void swap(void **a, void **b) {
    void *kept = *a;
    *a = *b;
    *b = kept;
}

static void free_all(struct share *share) {
    uint64_t seed = share->index + 100;
    size_t last = share->count - 1;
    if (strcmp(order, "reverse") == 0)
        for (size_t i = 0; i < share->count / 2; i++) swap(&share->blocks[i], &share->blocks[last - i]);
    if (strcmp(order, "random") == 0)
        for (size_t i = last; i > 0; i--) swap(&share->blocks[i], &share->blocks[random_between(&seed, 0, i)]);
    for (size_t i = 0; i < share->count; i++) free(share->blocks[i]);
}

static void check_peak(size_t start, size_t total) {
    size_t peak = resident_bytes();
    CHECK(peak >= start + total, "the blocks are not resident: %zu MiB of %zu", (peak - start) / MIB, total / MIB);
}

static void check_end(size_t start, size_t live_threads) {
    size_t end = resident_bytes(), allowed = (16 + 4 * live_threads) * MIB;
    if (getenv("RTM_TEST_VERBOSE") != NULL) dprintf(2, "%.1f MiB left\n", ((double)end - (double)start) / MIB);
    CHECK(end <= start + allowed, "%zu MiB resident more than at the start, %zu allowed", (end - start) / MIB,
          allowed / MIB);
}

static void *own(void *argument) {
    allocate(argument);
    pthread_barrier_wait(&together);  // main looks at the peak
    pthread_barrier_wait(&together);
    free_all(argument);
    pthread_barrier_wait(&together);  // main looks at what is left; the threads still live
    pthread_barrier_wait(&together);
    return NULL;
}

static void *allocate_and_exit(void *argument) {
    allocate(argument);
    return NULL;
}

static void start_threads(pthread_t *ids, size_t threads, void *(*body)(void *)) {
    for (size_t i = 0; i < threads; i++) CHECK(pthread_create(&ids[i], NULL, body, &shares[i]) == 0);
}

static void join_threads(const pthread_t *ids, size_t threads) {
    for (size_t i = 0; i < threads; i++) CHECK(pthread_join(ids[i], NULL) == 0);
}

static void threads_free_their_own(size_t start, size_t total, size_t threads) {
    pthread_t ids[MOST_THREADS];
    CHECK(pthread_barrier_init(&together, NULL, (unsigned)threads + 1) == 0);
    start_threads(ids, threads, own);
    pthread_barrier_wait(&together);
    check_peak(start, total);
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    check_end(start, threads);
    pthread_barrier_wait(&together);
    join_threads(ids, threads);
}

static void threads_exit_and_main_frees(size_t start, size_t total, size_t threads) {
    pthread_t ids[MOST_THREADS];
    start_threads(ids, threads, allocate_and_exit);
    join_threads(ids, threads);
    check_peak(start, total);
    for (size_t i = 0; i < threads; i++) free_all(&shares[i]);
    check_end(start, 0);
}

static void main_does_all(size_t start, size_t total) {
    allocate(&shares[0]);
    check_peak(start, total);
    free_all(&shares[0]);
    check_end(start, 0);
}

static void prepare(size_t total, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct share *share = &shares[i];
        share->index = i;
        share->bytes = total / count;
        share->most_blocks = share->bytes / 1000 + 1000;
        size_t table = share->most_blocks * sizeof(void *);
        share->blocks = mmap(NULL, table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        CHECK(share->blocks != MAP_FAILED);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 4 || argc == 5, "usage: memory_returns MIB ORDER alone|own|main [THREADS]");
    size_t total = (size_t)atoi(argv[1]) * MIB, threads = argc == 5 ? (size_t)atoi(argv[4]) : 1;
    CHECK(threads >= 1 && threads <= MOST_THREADS, "1 to %d threads", MOST_THREADS);
    order = argv[2];
    prepare(total, threads);
    size_t start = resident_bytes();
    if (strcmp(argv[3], "own") == 0) threads_free_their_own(start, total, threads);
    else if (strcmp(argv[3], "main") == 0) threads_exit_and_main_frees(start, total, threads);
    else main_does_all(start, total);
    return 0;
}
