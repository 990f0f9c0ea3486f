// mstress: threads that keep some items for long, free most soon, and swap items with each other through shared slots,
// for several rounds of new threads. Every item is an array of words that are checked before it is freed.
// After the description of mimalloc's own stress test (D. Leijen, 2018): objects migrate between threads at any age.
// mstress [scale] [threads]: scale multiplies the allocations (15 million, dealt to the threads and the rounds).
#include "load.h"
#include <stdatomic.h>

enum { ROUNDS = 10, SHARED_SLOTS = 1000, RETAINED = 4000, SHORT_LIVED = 64, WORD_BYTES = 8 };

// An item in a shared slot belongs to nobody; the exchange that takes it out makes its contents visible
// (acq_rel: the release publishes what we put in, the acquire sees what its writer wrote).
static _Atomic(void *) shared[SHARED_SLOTS];

struct job {
    struct rng rng;
    uint64_t allocations;
    uint64_t sum; // of the cookies freed
};

// Mostly a few words, sometimes up to 100 times as many, rarely up to 1000 times.
static uint32_t item_words(struct rng *rng) {
    const uint32_t words = rng_between(rng, 1, 16);
    const uint32_t luck = rng_below(rng, 4096);
    return luck == 0 ? words * rng_between(rng, 1, 1000) : luck < 40 ? words * rng_between(rng, 1, 100) : words;
}

// The words behind the cookie are the item's tag plus their place; long items have only the first ones written.
static uint32_t written_words(uint32_t size) {
    const uint32_t words = (size - 1) / WORD_BYTES; // the last byte is the block's own check
    return words < 16 ? words : 16;
}

static void *item_new(struct rng *rng) {
    const uint32_t size = item_words(rng) * WORD_BYTES;
    uint64_t *item = block_new(size, rng);
    for (uint32_t i = 1; i < written_words(size); i++) item[i] = item[0] + i;
    return item;
}

static uint64_t item_delete(uint64_t *item) {
    if (item == NULL) return 0;
    const uint32_t written = written_words(block_size(item));
    for (uint32_t i = 1; i < written; i++)
        if (item[i] != item[0] + i) load_fail("damaged item, at word", i);
    return block_delete(item);
}

static void *body(void *arg) {
    struct job *job = arg;
    struct rng rng = job->rng;
    uint64_t sum = 0;
    void *retained[RETAINED] = {NULL};
    void *short_lived[SHORT_LIVED] = {NULL};
    for (uint64_t n = 0; n < job->allocations; n++) {
        void *item = item_new(&rng);
        const uint32_t luck = rng_below(&rng, 16);
        if (luck == 0) { // swap: what comes back may be anybody's, of any age
            item = atomic_exchange_explicit(&shared[rng_below(&rng, SHARED_SLOTS)], item, memory_order_acq_rel);
        }
        void **slot = luck < 4 ? &retained[rng_below(&rng, RETAINED)] : &short_lived[n % SHORT_LIVED];
        sum += item_delete(*slot);
        *slot = item;
    }
    for (int i = 0; i < RETAINED; i++) sum += item_delete(retained[i]);
    for (int i = 0; i < SHORT_LIVED; i++) sum += item_delete(short_lived[i]);
    job->sum = sum;
    return NULL;
}

int main(int argc, char **argv) {
    const struct load load = load_begin(argc, argv, "mstress", 1);
    static struct job jobs[LOAD_MAX_THREADS];
    const int parts = ROUNDS * load.threads;
    const uint64_t allocations = load_scaled(&load, 15e6);
    uint64_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < load.threads; i++) {
            const int part = round * load.threads + i;
            jobs[i].rng = rng_stream((uint64_t)part);
            jobs[i].allocations = load_share(allocations, parts, part);
        }
        load_run(load.threads, body, jobs, sizeof jobs[0]);
        for (int i = 0; i < load.threads; i++) sum += jobs[i].sum;
        // Between rounds half of the shared items go, so that some outlive the threads that made them by many rounds.
        for (int i = round % 2; i < SHARED_SLOTS; i += 2)
            sum += item_delete(atomic_exchange_explicit(&shared[i], NULL, memory_order_acq_rel));
    }
    for (int i = 0; i < SHARED_SLOTS; i++)
        sum += item_delete(atomic_exchange_explicit(&shared[i], NULL, memory_order_acq_rel));
    return load_end(&load, sum);
}
