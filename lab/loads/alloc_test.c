// alloc_test: random replacement in a big table of slots, with Pareto-distributed sizes and Pareto-distributed use.
// S. Ignatchenko et al. (ITHare.com): Testing memory allocators ... while trying to simulate real-world loads, 2018.
// alloc_test [scale] [threads]: scale multiplies the replacements (30 million, dealt to the threads); each thread has
// a table of its own. Run it with 1 and with N threads.
#include "load.h"

enum { SLOTS = 1 << 16, MAX_BYTES = 1024, CURVE_POINTS = 1 << 12 };

// Quantiles of the two distributions, so that a draw costs one load and not one power.
static uint32_t slot_curve[CURVE_POINTS]; // slot at the quantile: 80 % of the draws hit the first 20 % of the table
static uint16_t size_curve[CURVE_POINTS]; // bytes at the quantile: density falls with the square of the size

static void make_curves(void) {
    const double eighty_twenty = log(0.2) / log(0.8); // x -> x^e takes 0.8 to 0.2
    for (int i = 0; i < CURVE_POINTS; i++) {
        const double quantile = (i + 0.5) / CURVE_POINTS;
        const double bytes = BLOCK_MIN_BYTES / (1.0 - quantile * (1.0 - (double)BLOCK_MIN_BYTES / MAX_BYTES));
        slot_curve[i] = (uint32_t)(pow(quantile, eighty_twenty) * (SLOTS - SLOTS / 64));
        size_curve[i] = (uint16_t)bytes;
    }
}

struct job {
    struct rng rng;
    uint64_t replacements;
    uint64_t sum; // of the cookies freed
};

static void *body(void *arg) {
    struct job *job = arg;
    struct rng rng = job->rng;
    uint64_t sum = 0;
    void **slots = load_alloc(SLOTS * sizeof *slots);
    for (uint32_t i = 0; i < SLOTS; i++) slots[i] = NULL;
    for (uint64_t n = 0; n < job->replacements; n++) {
        const uint64_t draw = rng_next(&rng);
        // The offset spreads the few draws that fall on one point of the curve over its neighbourhood.
        void **slot = &slots[slot_curve[draw % CURVE_POINTS] + (draw >> 12) % (SLOTS / 64)];
        if (*slot != NULL) {
            sum += block_delete(*slot);
            *slot = NULL;
        } else {
            const uint32_t bytes = size_curve[(draw >> 20) % CURVE_POINTS];
            *slot = load_alloc(bytes);
            block_stamp(*slot, bytes, draw >> 32);
        }
    }
    for (uint32_t i = 0; i < SLOTS; i++)
        if (slots[i] != NULL) sum += block_delete(slots[i]);
    free(slots);
    job->sum = sum;
    return NULL;
}

int main(int argc, char **argv) {
    const struct load load = load_begin(argc, argv, "alloc_test", 1);
    static struct job jobs[LOAD_MAX_THREADS];
    const uint64_t replacements = load_scaled(&load, 30e6);
    make_curves();
    for (int i = 0; i < load.threads; i++) {
        jobs[i].rng = rng_stream((uint64_t)i);
        jobs[i].replacements = load_share(replacements, load.threads, i);
    }
    load_run(load.threads, body, jobs, sizeof jobs[0]);
    uint64_t sum = 0;
    for (int i = 0; i < load.threads; i++) sum += jobs[i].sum;
    return load_end(&load, sum);
}
