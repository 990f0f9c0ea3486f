// rptest: several threads replace blocks in a table, with linearly or exponentially falling sizes, and hand a part of
// what they remove, as chains, to a neighbour who frees it.
// After the description of rpmalloc-benchmark (M. Jansson, 2017), in particular its cross-thread frees.
// rptest [scale] [threads]: scale multiplies the loops (5000, dealt to the threads; each replaces 800 blocks and
// makes a chain of 200).
#include "load.h"
#include <stdatomic.h>

enum { TABLE_BLOCKS = 8000, REPLACED_PER_LOOP = 800, CHAIN_BLOCKS = 200, MIN_BYTES = 16, MAX_BYTES = 16000 };

// A block of a chain: the link comes behind the cookie, so every size is at least MIN_BYTES.
struct link {
    uint64_t cookie;
    struct link *next;
};
_Static_assert(sizeof(struct link) <= MIN_BYTES, "a link fits into the smallest block");

// mailbox[t] holds one chain for thread t. Who puts one in frees the one it finds: memory stays bounded however the
// threads are scheduled, and every chain is freed once.
static _Atomic(struct link *) mailbox[LOAD_MAX_THREADS];

struct job {
    struct rng rng;
    int index, threads;
    uint64_t loops;
    uint64_t sum; // of the cookies freed
};

// Even threads: density falls linearly to 0 at MAX_BYTES. Odd threads: it halves with every 1/16 of the range.
static uint32_t draw_bytes(struct rng *rng, bool exponential) {
    const uint32_t range = MAX_BYTES - MIN_BYTES;
    if (exponential) {
        const uint32_t octave = (uint32_t)__builtin_ctzll(rng_next(rng) | UINT64_C(1) << 15);
        return MIN_BYTES + octave * (range / 16) + rng_below(rng, range / 16);
    }
    const uint32_t one = rng_below(rng, range), other = rng_below(rng, range);
    return MIN_BYTES + (one < other ? one : other);
}

// The last byte of a 16-byte block is part of the link, so chained blocks keep a cookie but no stamp at the end.
static struct link *chain_push(struct link *chain, uint32_t bytes, uint64_t tag) {
    struct link *block = load_alloc(bytes);
    block->cookie = tag << 32 | bytes;
    block->next = chain;
    return block;
}

static uint64_t chain_delete(struct link *chain) {
    uint64_t sum = 0;
    while (chain != NULL) {
        struct link *next = chain->next;
        if ((uint32_t)chain->cookie - MIN_BYTES >= MAX_BYTES) load_fail("damaged link, cookie", chain->cookie);
        sum += chain->cookie;
        free(chain);
        chain = next;
    }
    return sum;
}

// acq_rel: the release publishes the chain's links to the thread that takes it, whose acquire reads them.
static struct link *mailbox_swap(int index, struct link *chain) {
    return atomic_exchange_explicit(&mailbox[index], chain, memory_order_acq_rel);
}

static void *body(void *arg) {
    struct job *job = arg;
    struct rng rng = job->rng;
    const bool exponential = job->index % 2 == 1;
    uint64_t sum = 0;
    void **table = load_alloc(TABLE_BLOCKS * sizeof *table);
    for (int i = 0; i < TABLE_BLOCKS; i++) table[i] = NULL;
    uint32_t at = 0;
    for (uint64_t n = 0; n < job->loops; n++) {
        // A stride through the table, not a random walk: blocks live for about TABLE_BLOCKS allocations.
        const uint32_t stride = rng_between(&rng, 1, 7);
        for (int i = 0; i < REPLACED_PER_LOOP; i++) {
            at = (at + stride) % TABLE_BLOCKS;
            if (table[at] != NULL) sum += block_delete(table[at]);
            table[at] = block_new(draw_bytes(&rng, exponential), &rng);
        }
        struct link *chain = NULL;
        for (int i = 0; i < CHAIN_BLOCKS; i++)
            chain = chain_push(chain, draw_bytes(&rng, exponential), rng_next(&rng) >> 32);
        sum += chain_delete(mailbox_swap((job->index + 1) % job->threads, chain));
        sum += chain_delete(mailbox_swap(job->index, NULL));
    }
    for (int i = 0; i < TABLE_BLOCKS; i++)
        if (table[i] != NULL) sum += block_delete(table[i]);
    free(table);
    job->sum = sum;
    return NULL;
}

int main(int argc, char **argv) {
    const struct load load = load_begin(argc, argv, "rptest", 1);
    static struct job jobs[LOAD_MAX_THREADS];
    const uint64_t loops = load_scaled(&load, 5000);
    for (int i = 0; i < load.threads; i++) {
        jobs[i].rng = rng_stream((uint64_t)i);
        jobs[i].index = i;
        jobs[i].threads = load.threads;
        jobs[i].loops = load_share(loops, load.threads, i);
    }
    load_run(load.threads, body, jobs, sizeof jobs[0]);
    uint64_t sum = 0;
    for (int i = 0; i < load.threads; i++) sum += jobs[i].sum + chain_delete(mailbox_swap(i, NULL));
    return load_end(&load, sum);
}
