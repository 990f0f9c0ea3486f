/* Remote frees: threads allocate and wait, the main thread frees their blocks, each free counted.
 *
 * Layer: lab/steps, a load (run by stepcount). Three variants: the owners are alive and idle (default); they
 * allocate again after each round, so that what was freed is collected (--keep-allocating: their mallocs are
 * counted too); they have exited before the first free (--orphan). Threads run one at a time: same seed, same order.
 * --together: the owners allocate at the same time, all blocks of one size, and hand others over to the next
 * owner meanwhile, who frees them.
 * Of threads that race one may need much, and which it is is chance: with --rich the others have an eighth of the blocks.
 */
#include "load_thread.h"

#include <stdatomic.h>

enum { MAX_THREADS = 64 };

static uint64_t seed = 1, min = 16, max = 1 << 20, block_count = 200, threads = 4;
static uint64_t by = BY_MALLOC; /* enum load_function */
static struct load_thread owners[MAX_THREADS];
static uint64_t rich = MAX_THREADS, together;
static struct load_block *blocks; /* of all owners; owner t has [t * block_count, (t + 1) * block_count) */

static uint64_t blocks_of(uint64_t owner) { return rich == MAX_THREADS || rich == owner ? block_count : block_count / 8; }

/* Of the next owner: what realloc takes. */
static struct load_block *live_neighbour(const struct load_block *block)
{
    uint64_t i = (uint64_t)(block - blocks) + block_count;
    struct load_block *other = &blocks[i % (threads * block_count)];
    return by == BY_REALLOC && other != block && other->address != NULL ? other : NULL;
}

/* Fills the owner's empty entries. */
static void allocate(void *first_block)
{
    struct load_block *block = first_block;
    uint64_t count = blocks_of((uint64_t)(block - blocks) / block_count);
    for (uint64_t i = 0; i < count; i++, block++) {
        if (block->address != NULL)
            continue;
        block->size = random_log_uniform(min, max);
        struct load_block *other = live_neighbour(block);
        void *address = other != NULL ? load_realloc(other->address, other->size, block->size)
                                      : load_allocate_to_free((enum load_function)by, &block->size);
        if (other != NULL)
            other->address = NULL;
        block->address = load_use(address, block->size);
    }
}

/* The same of one size; and then each block is replaced once on average, and the next owner frees it. */
static void allocate_beside_others(void *first_block)
{
    static _Atomic(void *) handed[MAX_THREADS]; /* to whom */
    struct load_block *block = first_block;
    uint64_t owner = (uint64_t)(block - blocks) / block_count, count = blocks_of(owner), random = seed + owner;
    for (uint64_t i = 0; i < 2 * count; i++) {
        struct load_block *chosen = &block[i < count ? i : random_bits_of(&random) % count];
        if (i < count && chosen->address != NULL)
            continue;
        void *late = i < count ? NULL : atomic_exchange(&handed[(owner + 1) % threads], chosen->address);
        if (late != NULL)
            marked_free(late, max);
        void *address = load_use(load_allocate((enum load_function)by, &max), max);
        *chosen = (struct load_block){.address = address, .size = max};
        void *other = atomic_exchange(&handed[owner], NULL);
        if (other != NULL)
            marked_remote_free(other, max);
    }
    void *other = atomic_exchange(&handed[owner], NULL);
    if (other != NULL)
        marked_remote_free(other, max);
}

static void allocate_all(void)
{
    for (uint64_t t = 0; !together && t < threads; t++)
        load_thread_run(&owners[t], allocate, &blocks[t * block_count]);
    for (uint64_t t = 0; together && t < threads; t++)
        load_thread_begin(&owners[t], allocate_beside_others, &blocks[t * block_count]);
    for (uint64_t t = 0; together && t < threads; t++)
        load_thread_wait(&owners[t]);
}

static void free_shuffled(uint64_t *order, uint64_t count, uint64_t share_percent)
{
    for (uint64_t i = count; i > 1; i--) {
        uint64_t j = random_uniform(0, i - 1), swap = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swap;
    }
    for (uint64_t i = 0; i < count * share_percent / 100; i++) {
        struct load_block *block = &blocks[order[i]];
        if (block->address == NULL)
            continue;
        load_free_marked(load_free[load_free_by].remote, block->address, block->size);
        block->address = NULL;
    }
}

int main(int argument_count, char **arguments)
{
    (void)argument_count;
    uint64_t keep_allocating = 0, orphan = 0, pending = 0, rounds = 6;
    const struct load_option options[] = {
        {"seed", &seed, "of sizes and order", false},
        {"threads", &threads, "owners, 1 to 64", false},
        {"blocks", &block_count, "blocks of each owner", false},
        {"min", &min, "smallest request, bytes", false},
        {"max", &max, "largest request, bytes", false},
        {"by", &by, load_by_help, false},
        {"free-by", &load_free_by, load_free_by_help, false},
        {"alignment", &load_alignment, "of aligned_alloc, at most; 16 or more", false},
        {"rich", &rich, "the owner that has all its blocks, the others an eighth; from 0; 64: all have", false},
        {"keep-allocating", &keep_allocating, "owners allocate again after each round", true},
        {"together", &together, "the owners allocate at the same time; min and max are the same", true},
        {"rounds", &rounds, "rounds with --keep-allocating", false},
        {"orphan", &orphan, "owners have exited before their blocks are freed", true},
        {"pending", &pending, "half of them are freed before, not counted", true},
    };
    LOAD_OPTIONS(arguments, options);
    if (threads == 0 || threads > MAX_THREADS || min == 0 || min > max || (keep_allocating && orphan))
        load_fail("wanted 1 <= threads <= %d, 1 <= min <= max, and not both --orphan and --keep-allocating", MAX_THREADS);
    if (by >= LOAD_FUNCTIONS)
        load_fail("wanted --by of 0 to %d", LOAD_FUNCTIONS - 1);
    if (load_free_by != FREE_BY_FREE && (together || by == BY_REALLOC))
        load_fail("wanted no --free-by but %d with --together or --by %d", FREE_BY_FREE, BY_REALLOC);

    if (together && (threads < 2 || min != max || by == BY_REALLOC))
        load_fail("wanted --threads 2 or more and --min and --max alike with --together, and not --by %d", BY_REALLOC);

    marks_open();
    load_look_up_new(by);
    load_look_up_free();
    uint64_t count = threads * block_count;
    uint64_t *order = load_table(count * sizeof *order);
    blocks = load_table(count * sizeof *blocks);
    load_random_state = seed;
    for (uint64_t i = 0; i < count; i++)
        order[i] = i;
    for (uint64_t t = 0; t < threads; t++)
        load_thread_start(&owners[t]);
    allocate_all();
    if (pending)
        free_shuffled(order, count, 50);
    if (orphan)
        for (uint64_t t = 0; t < threads; t++)
            load_thread_end(&owners[t]);

    marks_start();
    for (uint64_t round = 0; keep_allocating && round < rounds; round++) {
        snprintf(marks_note, sizeof marks_note, "round %llu of %llu owners", (unsigned long long)round,
                 (unsigned long long)threads);
        free_shuffled(order, count, random_uniform(10, 100));
        allocate_all();
    }
    snprintf(marks_note, sizeof marks_note, "freeing all, %llu owners %s", (unsigned long long)threads,
             orphan ? "gone" : "alive");
    free_shuffled(order, count, 100);
    marks_stop();
    if (!orphan)
        for (uint64_t t = 0; t < threads; t++)
            load_thread_end(&owners[t]);
    return 0;
}
