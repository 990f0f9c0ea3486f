/* RT-Mimalloc's synthetic load (Giannessi et al. 2023, section IV-B): periodic requests of 8 to 20480 bytes.
 *
 * Layer: lab/steps, a load (run by stepcount). Each period frees the blocks that are due, then makes a
 * fixed number of requests; each request's size is uniform, and so is the number of periods its block is held.
 * The paper gives the sizes and 18,000 allocations; the burst and the holding time are our choice.
 */
#include "load.h"

enum { MAX_BURST = 64, MAX_HOLD = 256 };

/* blocks[p % MAX_HOLD] holds those due in period p; each of MAX_HOLD earlier bursts may all be due at once. */
static struct load_block (*blocks)[MAX_HOLD * MAX_BURST];
static size_t due_count[MAX_HOLD];

int main(int argument_count, char **arguments)
{
    (void)argument_count;
    uint64_t seed = 1, min = 8, max = 20480, mallocs = 18000, warmup = 0, burst = 5, periods = 16;
    const struct load_option options[] = {
        {"seed", &seed, "of the sizes and holding times", false},
        {"min", &min, "smallest request, bytes", false},
        {"max", &max, "largest request, bytes", false},
        {"mallocs", &mallocs, "mallocs to count", false},
        {"warmup", &warmup, "mallocs before counting starts", false},
        {"burst", &burst, "requests a period", false},
        {"hold", &periods, "longest holding time, periods", false},
    };
    LOAD_OPTIONS(arguments, options);
    if (min > max || burst == 0 || burst > MAX_BURST || periods == 0 || periods >= MAX_HOLD)
        load_fail("wanted min <= max, 1 <= burst <= %d, 1 <= hold < %d", MAX_BURST, MAX_HOLD);

    marks_open();
    blocks = load_table(MAX_HOLD * sizeof *blocks);
    load_random_state = seed;
    uint64_t done = 0;
    for (uint64_t period = 0; done < warmup + mallocs; period++) {
        size_t today = period % MAX_HOLD;
        for (size_t i = 0; i < due_count[today]; i++)
            marked_free(blocks[today][i].address, blocks[today][i].size);
        due_count[today] = 0;
        for (uint64_t i = 0; i < burst && done < warmup + mallocs; i++, done++) {
            if (done == warmup)
                marks_start();
            size_t size = random_uniform(min, max);
            void *block = load_use(marked_malloc(size), size);
            size_t day = (period + random_uniform(1, periods)) % MAX_HOLD;
            blocks[day][due_count[day]++] = (struct load_block){block, size, 0};
        }
    }
    return 0;
}
