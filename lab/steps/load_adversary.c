/* A random search for slow paths: bursts that exhaust, release, coalesce and collect; every operation counted.
 *
 * Layer: lab/steps, a load (run by stepcount). It keeps groups of blocks. A burst takes a group and
 * - fills it: with one size (pages run full), with granule multiples (spans side by side), with a step a
 *   class (every class changes its page), or with any sizes;
 * - or frees it by a pattern: every second block (no page gets empty, and the other half's frees then find
 *   free neighbours on both sides), all in either order or shuffled (pages, spans and segments are released).
 * Now and then all groups are freed. A quarter of the bursts run in a second thread, which makes remote frees
 * and their collection; at times that thread exits with blocks left, and a new one takes its place.
 * With --by all fills go through calloc, aligned_alloc or realloc, which takes the blocks of another group, one by one.
 * The note names the burst, so the worst operation's cause can be read off and replayed by its seed.
 */
#include "load_thread.h"

enum { GROUPS = 32, GROUP_BLOCKS = 4096, GRANULE = 4096 };

struct group {
    struct load_block blocks[GROUP_BLOCKS]; /* address NULL: freed */
    size_t used;                            /* entries in use, freed ones included */
    uint64_t bytes;                         /* live */
};

enum fill { FILL_ONE_SIZE, FILL_SPANS, FILL_CLASSES, FILL_ANY, FILL_ALIGNED, FILL_FAMILY, FILLS };
enum drain { DRAIN_EVERY_SECOND, DRAIN_FORWARD, DRAIN_BACKWARD, DRAIN_SHUFFLED, DRAIN_HALF, DRAIN_REPLACE, DRAINS };

/* One burst, as told to the thread that runs it. */
struct burst {
    struct group *group;
    int pattern; /* enum fill or enum drain */
    size_t count;
    uint64_t size;
    struct group *donor; /* by realloc: whose blocks become the new ones */
};

static const char *const fill_names[FILLS] = {
    "one size", "spans", "all classes", "any sizes", "aligned", "calloc and realloc"};
static const char *const drain_names[DRAINS] = {
    "every second", "forward", "backward", "shuffled", "random half", "replaced one by one"};

static uint64_t max = 2 << 20, memory = 512 << 20, operations = 10000, ends = 3, done, helper_generation = 1;
static uint64_t by = BY_MALLOC; /* enum load_function */
static struct group *groups;
static uint64_t live_bytes;
static int self = 0; /* 0: the main thread; else the helper's generation. Only one thread runs at a time. */

static void leave(struct group *group, struct load_block *block)
{
    block->address = NULL;
    group->bytes -= block->size;
    live_bytes -= block->size;
}

/* The last block of the group that is live; NULL if none is. */
static struct load_block *last_of(struct group *group)
{
    while (group->used > 0 && group->blocks[group->used - 1].address == NULL)
        group->used--;
    return group->used > 0 ? &group->blocks[group->used - 1] : NULL;
}

static void add_block(struct group *group, size_t size, enum load_function function, struct group *donor)
{
    if (group->used == GROUP_BLOCKS || live_bytes + size > memory)
        return;
    struct load_block *old = donor != NULL ? last_of(donor) : NULL;
    void *address;
    int owner = self;
    if (old != NULL) {
        address = load_realloc(old->address, old->size, size);
        owner = address == old->address ? old->owner : self;
        leave(donor, old);
    } else {
        address = load_allocate(function, &size);
    }
    group->blocks[group->used++] = (struct load_block){load_use(address, size), size, owner};
    group->bytes += size;
    live_bytes += size;
    done++;
}

static void remove_block(struct group *group, struct load_block *block)
{
    if (block->address == NULL)
        return;
    if (block->owner == self)
        marked_free(block->address, block->size);
    else
        marked_remote_free(block->address, block->size);
    leave(group, block);
    done++;
}

/* Of one's own block. */
static void resize(struct group *group, struct load_block *block, size_t size)
{
    if (block->address == NULL || block->owner != self || live_bytes + size > memory)
        return;
    block->address = load_use(load_realloc(block->address, block->size, size), size);
    group->bytes += size - block->size;
    live_bytes += size - block->size;
    block->size = size;
    done++;
}

static enum load_function function_of(int pattern)
{
    if (by != BY_MALLOC)
        return (enum load_function)by;
    if (pattern == FILL_ALIGNED)
        return BY_ALIGNED_ALLOC;
    return pattern == FILL_FAMILY && (random_bits() & 1) ? BY_CALLOC : BY_MALLOC;
}

static void fill(void *argument)
{
    const struct burst *burst = argument;
    struct group *group = burst->group;
    for (size_t i = 0; i < burst->count; i++) {
        size_t size = burst->size;
        if (burst->pattern == FILL_SPANS)
            size = GRANULE * random_uniform(1, 1 + burst->size / GRANULE);
        else if (burst->pattern == FILL_CLASSES)
            size = 16 + (uint64_t)(16 * (pow(1.09, (double)(i % 128)) - 1));
        else if (burst->pattern == FILL_ANY)
            size = random_log_uniform(1, max);
        add_block(group, size < max ? size : max, function_of(burst->pattern), burst->donor);
    }
    for (size_t i = 0; burst->pattern == FILL_FAMILY && i < group->used; i += 2)
        resize(group, &group->blocks[i], random_log_uniform(1, GRANULE));
}

static void shuffle(struct group *group)
{
    for (size_t i = group->used; i > 1; i--) {
        size_t j = random_uniform(0, i - 1);
        struct load_block swap = group->blocks[i - 1];
        group->blocks[i - 1] = group->blocks[j];
        group->blocks[j] = swap;
    }
}

static void drain(void *argument)
{
    const struct burst *burst = argument;
    struct group *group = burst->group;
    size_t n = group->used;
    if (burst->pattern == DRAIN_SHUFFLED)
        shuffle(group);
    for (size_t i = 0; i < n; i++) {
        bool skip = (burst->pattern == DRAIN_EVERY_SECOND && i % 2 == 1) ||
                    (burst->pattern == DRAIN_HALF && (random_bits() & 1));
        if (skip)
            continue;
        struct load_block *block = &group->blocks[burst->pattern == DRAIN_BACKWARD ? n - 1 - i : i];
        size_t size = block->size;
        bool was_live = block->address != NULL;
        if (burst->pattern == DRAIN_REPLACE && by == BY_REALLOC && block->owner == self) {
            resize(group, block, random_log_uniform(1, max));
            continue;
        }
        remove_block(group, block);
        if (burst->pattern == DRAIN_REPLACE && was_live)
            add_block(group, size, (enum load_function)by, NULL);
    }
    size_t kept = 0;
    for (size_t i = 0; i < group->used; i++)
        if (group->blocks[i].address != NULL)
            group->blocks[kept++] = group->blocks[i];
    group->used = kept;
}

/* Runs a burst in the main thread or, one time in four, in the helper. */
static void run(struct load_thread *helper, void (*job)(void *), struct burst *burst, const char *what,
                const char *pattern)
{
    bool remote = random_uniform(0, 3) == 0;
    snprintf(marks_note, sizeof marks_note, "%s group %d, %s, %zu blocks, size %llu, by %s", what,
             (int)(burst->group - groups), pattern, burst->count, (unsigned long long)burst->size,
             remote ? "the helper" : "main");
    if (remote) {
        self = (int)helper_generation;
        load_thread_run(helper, job, burst);
        self = 0;
    } else {
        job(burst);
    }
}

static void run_fill(struct load_thread *helper, struct group *group)
{
    struct burst burst = {.group = group, .pattern = (int)random_uniform(0, FILLS - 1)};
    uint64_t largest = burst.pattern == FILL_FAMILY || burst.pattern == FILL_ALIGNED ? 2 * GRANULE : max;
    burst.size = random_log_uniform(burst.pattern == FILL_SPANS ? GRANULE : 1, largest);
    uint64_t room = (64 << 20) / (burst.pattern == FILL_ANY ? max / 16 + 1 : burst.size);
    burst.count = random_log_uniform(1, room < 2 ? 2 : room < GROUP_BLOCKS ? room : GROUP_BLOCKS);
    if (by == BY_REALLOC)
        burst.donor = &groups[random_uniform(0, GROUPS - 1)];
    if (burst.donor == group) /* its blocks would become its own */
        burst.donor = NULL;
    run(helper, fill, &burst, "fill", fill_names[burst.pattern]);
}

static void run_drain(struct load_thread *helper, struct group *group)
{
    struct burst burst = {.group = group, .pattern = (int)random_uniform(0, DRAINS - 1), .count = group->used};
    run(helper, drain, &burst, "drain", drain_names[burst.pattern]);
}

static void drain_everything(struct load_thread *helper)
{
    for (struct group *group = groups; group < groups + GROUPS; group++) {
        struct burst burst = {.group = group, .pattern = DRAIN_FORWARD, .count = group->used};
        if (group->used > 0)
            run(helper, drain, &burst, "release", drain_names[DRAIN_FORWARD]);
    }
}

int main(int argument_count, char **arguments)
{
    (void)argument_count;
    uint64_t seed = 1;
    const struct load_option options[] = {
        {"seed", &seed, "of everything", false},
        {"max", &max, "largest request, bytes", false},
        {"memory", &memory, "most bytes live at once", false},
        {"operations", &operations, "operations to count", false},
        {"by", &by, load_by_help, false},
        {"alignment", &load_alignment, "of aligned_alloc, at most; 16 or more", false},
        {"ends", &ends, "ends of the second thread, for each 100 bursts", false},
    };
    LOAD_OPTIONS(arguments, options);
    if (max < GRANULE || by >= LOAD_FUNCTIONS || load_alignment < 16)
        load_fail("wanted --max of at least %d, --by of 0 to %d, and --alignment of at least 16", GRANULE, LOAD_FUNCTIONS - 1);

    marks_open();
    load_look_up_new(by);
    groups = load_table(GROUPS * sizeof *groups);
    load_random_state = seed;
    struct load_thread helper;
    load_thread_start(&helper);
    marks_start();
    while (done < operations) {
        uint64_t chance = random_uniform(0, 99);
        struct group *group = &groups[random_uniform(0, GROUPS - 1)];
        if (chance < 3) {
            drain_everything(&helper);
        } else if (chance < 3 + ends) {
            load_thread_end(&helper);
            load_thread_start(&helper);
            helper_generation++;
        } else if (group->used == 0 || chance < 40) {
            run_fill(&helper, group);
        } else {
            run_drain(&helper, group);
        }
    }
    drain_everything(&helper);
    marks_stop();
    load_thread_end(&helper);
    return 0;
}
