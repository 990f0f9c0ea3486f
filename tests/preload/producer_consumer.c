// One thread allocates, others free: blocks of mixed sizes, in phases that change the range, at
// most 10^4 blocks ahead. Peak resident memory stays within 1.5 times the peak of live memory
// (blocks in flight included) plus 8 MiB.
//   producer_consumer OPERATIONS CONSUMERS [stopped | medium | AHEAD]
// AHEAD: at most so many blocks ahead rather than 10^4; then little is live in many size classes.
// medium: blocks of 33 KB and more alone, at most 200 ahead: each has a span of its own.
// With `stopped`, signals put a random consumer to sleep for some ms, between any two of its
// instructions, while the others go on.
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum { AHEAD = 10000, MOST_CONSUMERS = 8, MOST_SIZE = MIB };

struct item {
    void *block;
    size_t size;
};

struct ring {  // one producer, one consumer
    _Alignas(64) atomic_size_t put;    // written by the producer
    _Alignas(64) atomic_size_t taken;  // written by the consumer
    atomic_size_t freed_bytes;         // written by the consumer
    size_t capacity;
    struct item items[AHEAD];
};

static struct ring rings[MOST_CONSUMERS];
static size_t consumers;
static atomic_bool done;

static void *consume(void *argument) {
    struct ring *ring = argument;
    size_t taken = 0, freed = 0;
    for (;;) {
        bool last = atomic_load(&done);
        size_t put = atomic_load_explicit(&ring->put, memory_order_acquire);
        if (put == taken) {
            if (last) return NULL;
            sched_yield();
        }
        while (taken != put) {
            struct item item = ring->items[taken % ring->capacity];
            freed += item.size;
            CHECK(*(unsigned char *)item.block == mark_of(item.block, item.size), "a block was overwritten");
            free(item.block);
            atomic_store_explicit(&ring->freed_bytes, freed, memory_order_relaxed);
            atomic_store_explicit(&ring->taken, ++taken, memory_order_release);
        }
    }
}

static bool try_put(struct ring *ring, struct item item) {
    size_t put = atomic_load_explicit(&ring->put, memory_order_relaxed);
    if (put - atomic_load_explicit(&ring->taken, memory_order_acquire) == ring->capacity) return false;
    ring->items[put % ring->capacity] = item;
    atomic_store_explicit(&ring->put, put + 1, memory_order_release);
    return true;
}

// The next consumer with room; one that is stopped is passed over, its blocks stay in flight.
static void hand_over(struct item item) {
    static size_t next;
    for (size_t tries = 0;; tries++) {
        next = next + 1 < consumers ? next + 1 : 0;
        if (try_put(&rings[next], item)) return;
        if (tries % consumers == consumers - 1) sched_yield();
    }
}

static size_t freed_bytes(void) {
    size_t sum = 0;
    for (size_t i = 0; i < consumers; i++) sum += atomic_load_explicit(&rings[i].freed_bytes, memory_order_relaxed);
    return sum;
}

static size_t medium_in_phase(uint64_t *seed, size_t phase) {
    switch (phase % 3) {
    case 0: return random_between(seed, 33000, 200000);
    case 1: return 100000;
    default: return random_log_between(seed, 33000, 300 * KIB);
    }
}

// Each phase has its own range of sizes, so that the memory of one must serve the next.
static size_t size_in_phase(uint64_t *seed, size_t phase) {
    switch (phase % 8) {
    case 0: return random_between(seed, 1, 128);
    case 1: return random_between(seed, 3000, 5000);
    case 2: return random_log_between(seed, 1, 64 * KIB);
    case 3: return random_between(seed, 4000, 12000);
    case 4: return random_between(seed, 100, 2000);
    case 5: return random_between(seed, 9000, 16000);
    case 6: return random_between(seed, 0, 999) < 2 ? random_between(seed, 100 * KIB, MOST_SIZE) : 48;
    default: return random_between(seed, 1, 33000);
    }
}

// Returns the peak of live bytes.
static size_t produce(size_t operations, bool medium) {
    enum { PHASE = 60000 };  // six times what can be in flight
    uint64_t seed = 1;
    size_t allocated = 0, peak = 0;
    for (size_t i = 0; i < operations; i++) {
        size_t size = medium ? medium_in_phase(&seed, i / PHASE) : size_in_phase(&seed, i / PHASE);
        struct item item = {malloc(size), size};
        CHECK(item.block != NULL, "operation %zu", i);
        touch_pages(item.block, size);
        *(unsigned char *)item.block = mark_of(item.block, size);
        allocated += size;
        size_t live = allocated - freed_bytes();
        if (live > peak) peak = live;
        hand_over(item);
    }
    return peak;
}

static void sleep_ms(long ms) {
    struct timespec time = {0, ms * 1000000};
    while (nanosleep(&time, &time) != 0) continue;
}

static void sleep_in_handler(int signal) {
    (void)signal;
    int saved = errno;
    static atomic_uint calls;
    sleep_ms(1 + (long)(atomic_fetch_add(&calls, 1) * 7 % 10));
    errno = saved;
}


static void *stop_at_random(void *argument) {
    pthread_t *threads = argument;
    uint64_t seed = 5;
    while (!atomic_load(&done)) {
        CHECK(pthread_kill(threads[random_between(&seed, 0, consumers - 1)], SIGUSR1) == 0);
        struct timespec pause = {0, (long)random_between(&seed, 100 * 1000, 20 * 1000 * 1000)};
        nanosleep(&pause, NULL);
    }
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 3 || argc == 4, "usage: producer_consumer OPERATIONS CONSUMERS [stopped | medium | AHEAD]");
    size_t operations = (size_t)atof(argv[1]);  // 1e8 is readable
    consumers = (size_t)atoi(argv[2]);
    CHECK(consumers >= 1 && consumers <= MOST_CONSUMERS, "1 to %d consumers", MOST_CONSUMERS);
    bool stopped = argc == 4 && strcmp(argv[3], "stopped") == 0;
    bool medium = argc == 4 && strcmp(argv[3], "medium") == 0;
    size_t ahead = medium ? 200 : argc == 4 && !stopped ? (size_t)atoi(argv[3]) : AHEAD;
    CHECK(ahead >= consumers && ahead <= AHEAD, "%zu to %d blocks ahead", consumers, AHEAD);
    struct sigaction action = {.sa_handler = sleep_in_handler};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    memset(rings, 0xFF, sizeof rings);  // resident before the baseline is taken
    memset(rings, 0, sizeof rings);
    pthread_t threads[MOST_CONSUMERS], stopper;
    for (size_t i = 0; i < consumers; i++) {
        rings[i].capacity = ahead / consumers;
        CHECK(pthread_create(&threads[i], NULL, consume, &rings[i]) == 0);
    }
    if (stopped) CHECK(pthread_create(&stopper, NULL, stop_at_random, threads) == 0);
    reset_peak_resident();
    size_t baseline = resident_bytes();
    size_t live_peak = produce(operations, medium);
    atomic_store(&done, true);
    if (stopped) CHECK(pthread_join(stopper, NULL) == 0);
    for (size_t i = 0; i < consumers; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    check_peak_memory(baseline, live_peak);
    return 0;
}
