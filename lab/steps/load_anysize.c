/* Random sizes below huge, over a live set of a given size: the worst case of the general mode.
 *
 * Layer: lab/steps, a load (run by stepcount). Sizes are log-uniform in [--min, --max]. It first makes --live
 * blocks (counted only with --cold), then random mallocs and frees of random blocks, so that the live set stays
 * near its size, and at last frees all. The first blocks' sizes are bounded so that they take about half of
 * --memory, later ones so that all live blocks stay within it. The worst count must not depend on --live.
 */
#include "load.h"

static struct load_block *live;
static uint64_t live_count, live_bytes;

static void allocate(uint64_t min, uint64_t max, uint64_t memory)
{
    uint64_t left = memory > live_bytes ? memory - live_bytes : 0;
    size_t size = random_log_uniform(min, max);
    if (size > left)
        size = min;
    void *block = load_use(load_allocate_to_free(BY_MALLOC, &size), size);
    live[live_count++] = (struct load_block){block, size, 0};
    live_bytes += size;
}

static void free_one(void)
{
    uint64_t i = random_uniform(0, live_count - 1);
    struct load_block block = live[i];
    live[i] = live[--live_count];
    live_bytes -= block.size;
    load_free_marked(load_free[load_free_by].kind, block.address, block.size);
}

/* The largest size, a power of two or max, with which `count` log-uniform blocks fit into `memory`. */
static uint64_t largest_that_fits(uint64_t min, uint64_t max, uint64_t count, uint64_t memory)
{
    uint64_t largest = max;
    for (uint64_t power = 1ull << 62;; power >>= 1) {
        double mean = (double)(largest - min) / log((double)(largest + 1) / (double)min);
        if (largest <= min || mean * (double)count <= (double)memory)
            return largest > min ? largest : min;
        while (power >= largest)
            power >>= 1;
        largest = power;
    }
}

int main(int argument_count, char **arguments)
{
    (void)argument_count;
    uint64_t seed = 1, min = 1, max = 2 << 20, live_target = 10000, operations = 20000, memory = 4ull << 30, cold = 0;
    uint64_t warmup = 0;
    const struct load_option options[] = {
        {"seed", &seed, "of sizes and order", false},
        {"min", &min, "smallest request, bytes, at least 1", false},
        {"max", &max, "largest request, bytes", false},
        {"live", &live_target, "blocks live when the random part starts", false},
        {"operations", &operations, "random mallocs and frees to count", false},
        {"memory", &memory, "most bytes live at once", false},
        {"warmup", &warmup, "random mallocs and frees before counting starts", false},
        {"free-by", &load_free_by, load_free_by_help, false},
        {"cold", &cold, "count the first blocks too", true},
    };
    LOAD_OPTIONS(arguments, options);
    if (min == 0 || min > max || live_target == 0)
        load_fail("wanted 1 <= min <= max and 1 <= live");

    marks_open();
    load_look_up_free();
    uint64_t most = live_target + live_target / 2 + 16;
    live = load_table(most * sizeof *live);
    load_random_state = seed;

    snprintf(marks_note, sizeof marks_note, "first %llu blocks", (unsigned long long)live_target);
    if (cold)
        marks_start();
    uint64_t first_max = largest_that_fits(min, max, live_target, memory / 2);
    while (live_count < live_target)
        allocate(min, first_max, memory);

    snprintf(marks_note, sizeof marks_note, "random part, about %llu live", (unsigned long long)live_target);
    for (uint64_t done = 0; done < warmup + operations; done++) {
        if (done == warmup)
            marks_start();
        bool grow = random_bits() & 1;
        if (live_count == 0 || (grow && live_count < most))
            allocate(min, max, memory);
        else
            free_one();
    }

    snprintf(marks_note, sizeof marks_note, "freeing the last blocks");
    for (uint64_t i = 0; live_count > 0; i++) {
        if (i == operations)
            marks_stop(); /* enough of the same */
        free_one();
    }
    return 0;
}
