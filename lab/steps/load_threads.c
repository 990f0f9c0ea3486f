/* Threads start and end, so that what an allocator does for that can be counted (stepcount --watch).
 *
 * Layer: lab/steps, a load (run by stepcount). In each round some threads are started, allocate, and end; with --starters
 * several threads do so side by side, and race for what is ready for a new one; with --chain each thread starts the next
 * one of its own routine, leaves it its blocks and ends before that allocates. --first counts each thread's first malloc,
 * as `function`, and with --late one more, in a destructor that runs after the thread has left its heap; with --standard
 * they are started by thrd_create, which an allocator need not see.
 */
#include "load_thread.h"

#include <threads.h>

enum { MAX_THREADS = 64, BLOCKS = 8 };

static uint64_t seed = 1, rounds = 20, threads = 4, starters, chain, first, standard, alike, leave, late, min = 16,
    max = 1 << 20;

/* What a thread of a chain does with regard to the one that started it. */
enum link { LINK_AFTER, /* allocates when that has ended */ LINK_EARLY, /* before it ends */ LINK_IDLE, /* not at all */ LINKS };

struct worker {
    pthread_t handle;
    thrd_t standard;
    uint64_t size[BLOCKS];
    void *block[BLOCKS];
    struct worker *before; /* of a chain: who started this one */
    uint64_t left;         /* links that follow */
    enum link link;
    bool waits;            /* until all threads of all starters are there: a recorded run has seen the most */
};

static pthread_key_t late_key; /* younger than the allocator's, if it has one: its destructor comes later */
static sem_t chain_ended, has_allocated;
static pthread_barrier_t all_live;

static void wait_for(sem_t *event)
{
    while (sem_wait(event) != 0) { /* interrupted by a signal */
    }
}

static void start(struct worker *worker, void *(*routine)(void *))
{
    int error = pthread_create(&worker->handle, NULL, routine, worker);
    if (error != 0)
        load_fail("cannot start a thread: %s", strerror(error));
}

static void *first_malloc(uint64_t size)
{
    return load_use(first ? (void *)marks_call(MARKED_FUNCTION, marks_malloc, size, 0, size) : malloc(size), size);
}

static void allocate(struct worker *worker)
{
    worker->block[0] = first_malloc(worker->size[0]);
    for (int i = 1; i < BLOCKS; i++)
        worker->block[i] = load_use(malloc(worker->size[i]), worker->size[i]);
}

static void release(struct worker *worker)
{
    for (int i = 0; i < BLOCKS; i++) {
        free(worker->block[i]);
        worker->block[i] = NULL;
    }
}

static void allocate_late(void *argument)
{
    struct worker *self = argument;
    free(first_malloc(self->size[0]));
}

static void *work(void *argument)
{
    struct worker *self = argument;
    if (late)
        pthread_setspecific(late_key, self);
    allocate(self);
    if (self->waits)
        pthread_barrier_wait(&all_live);
    if (!leave)
        release(self);
    return NULL;
}

static int work_standard(void *argument)
{
    work(argument);
    return 0;
}

/* Each joins the one before, and frees its blocks. One that allocates early lets that one wait. */
static void *link_of_chain(void *argument)
{
    struct worker *self = argument, *before = self->before;
    if (self->link == LINK_EARLY) {
        allocate(self);
        sem_post(&has_allocated);
    }
    if (before != NULL)
        pthread_join(before->handle, NULL);
    if (self->link == LINK_AFTER)
        allocate(self);
    if (before != NULL)
        release(before);
    if (self->left == 0) {
        release(self);
        sem_post(&chain_ended);
        return NULL;
    }
    struct worker *next = self + 1;
    next->before = self;
    next->left = self->left - 1;
    start(next, link_of_chain);
    if (next->link == LINK_EARLY)
        wait_for(&has_allocated);
    return NULL;
}

static void one_round(struct worker *workers, bool waits)
{
    for (uint64_t t = 0; t < threads; t++) {
        workers[t].waits = waits;
        if (standard && thrd_create(&workers[t].standard, work_standard, &workers[t]) != thrd_success)
            load_fail("cannot start a thread");
        if (!standard)
            start(&workers[t], work);
    }
    for (uint64_t t = 0; t < threads; t++) {
        if (standard)
            thrd_join(workers[t].standard, NULL);
        else
            pthread_join(workers[t].handle, NULL);
        release(&workers[t]);
    }
}

static void *start_and_join(void *argument)
{
    struct worker *workers = argument;
    for (uint64_t round = 0; round < rounds; round++)
        one_round(workers, round == 0);
    return NULL;
}

static void one_chain(struct worker *workers)
{
    for (uint64_t i = 0; i < chain; i++)
        workers[i].link = i == 0 ? LINK_AFTER : (enum link)random_uniform(0, LINKS - 1);
    workers[0].before = NULL;
    workers[0].left = chain - 1;
    start(&workers[0], link_of_chain);
    wait_for(&chain_ended);
    pthread_join(workers[chain - 1].handle, NULL);
}

int main(int argument_count, char **arguments)
{
    (void)argument_count;
    const struct load_option options[] = {
        {"seed", &seed, "of sizes and links", false},
        {"rounds", &rounds, "of threads that start and end", false},
        {"threads", &threads, "in each round, at most 64", false},
        {"starters", &starters, "threads that do so side by side, at most 64; 0: the main thread", false},
        {"chain", &chain, "threads of which each starts the next, at most 64, once a round", false},
        {"min", &min, "smallest request, bytes", false},
        {"max", &max, "largest request, bytes", false},
        {"alike", &alike, "all threads of the rounds need the same: which gets which heap does not matter", true},
        {"leave", &leave, "blocks are freed by who has joined the thread", true},
        {"first", &first, "count each thread's first malloc", true},
        {"late", &late, "each thread allocates when it has left its heap, too", true},
        {"standard", &standard, "threads are started by thrd_create", true},
    };
    LOAD_OPTIONS(arguments, options);
    if (threads > MAX_THREADS || starters > MAX_THREADS || chain > MAX_THREADS || chain == 1 || min < 16 || min > max)
        load_fail("wanted at most %d threads, starters and links, a chain of 2 or more, and 16 <= min <= max", MAX_THREADS);

    marks_open();
    sem_init(&chain_ended, 0, 0);
    sem_init(&has_allocated, 0, 0);
    load_random_state = seed;
    struct worker *workers = load_table((starters + 2) * MAX_THREADS * sizeof *workers);
    struct worker *end = workers + (starters + 2) * MAX_THREADS;
    struct worker *parents = load_table(MAX_THREADS * sizeof *parents);
    for (uint64_t i = 0; i < (starters + 2) * MAX_THREADS; i++)
        for (int k = 0; k < BLOCKS; k++)
            workers[i].size[k] = random_log_uniform(min, max);
    struct worker *others = workers + MAX_THREADS; /* those of a chain come first */
    for (struct worker *worker = others + 1; alike && worker < end; worker++)
        memcpy(worker->size, others->size, sizeof worker->size);
    if (threads > 0)
        pthread_barrier_init(&all_live, NULL, (unsigned)(threads * (starters > 0 ? starters : 1)));
    void *warm = malloc(max);
    pthread_key_create(&late_key, allocate_late);
    marks_start();
    marked_free(load_use(warm, max), max);
    for (uint64_t round = 0; chain > 0 && round < rounds; round++)
        one_chain(workers);
    for (uint64_t s = 0; s < starters; s++)
        pthread_create(&parents[s].handle, NULL, start_and_join, &others[s * MAX_THREADS]);
    if (starters == 0)
        start_and_join(others);
    for (uint64_t s = 0; s < starters; s++)
        pthread_join(parents[s].handle, NULL);
    marks_stop();
    return 0;
}
