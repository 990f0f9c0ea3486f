/* The task-set load of Masmano et al. 2006 (section 3) and 2008 (section 7), immediate deallocation.
 *
 * Layer: lab/steps, a load (run by stepcount). 3 to 10 tasks; each has a period, a budget of g bytes a
 * period and n requests a period, all uniform. At each release a task makes n requests whose sizes are
 * normal around g/n with a deviation of 10 %, at least 8 bytes, and each block is freed after a time that
 * is uniform between the task's shortest and longest holding time. One seed is one task set.
 *
 * Our reading where the papers leave it open: n is drawn once a task (their tables give one mean size a task);
 * a task's two holding times are drawn from [--hold-min, --hold-max]; blocks due are freed before the requests
 * of the same time; the sum of a period's sizes may pass g by their deviation.
 */
#include "load.h"

enum { MAX_TASKS = 10, CALENDAR_DAYS = 1024, MAX_LIVE = 1 << 20 };

struct task {
    uint64_t period;   /* time units */
    uint64_t requests; /* a period */
    double mean, deviation; /* bytes */
    uint64_t hold_min, hold_max;
};

/* A held block, in the list of the day on which it is due. Index 0 is no block. */
struct held {
    struct load_block block;
    uint32_t next;
};

static struct task tasks[MAX_TASKS];
static uint64_t task_count;
static struct held *held;
static uint32_t unused; /* list of unused entries of held[] */
static uint32_t due[CALENDAR_DAYS], due_last[CALENDAR_DAYS];

static void make_tasks(uint64_t budget_min, uint64_t budget_max, uint64_t hold_min, uint64_t hold_max)
{
    task_count = random_uniform(3, MAX_TASKS);
    for (struct task *task = tasks; task < tasks + task_count; task++) {
        double budget = (double)random_uniform(budget_min, budget_max);
        task->period = random_uniform(10, 150);
        task->requests = random_uniform(2, 5);
        task->mean = budget / (double)task->requests;
        task->deviation = 0.1 * task->mean;
        uint64_t a = random_uniform(hold_min, hold_max), b = random_uniform(hold_min, hold_max);
        task->hold_min = a < b ? a : b;
        task->hold_max = a < b ? b : a;
    }
}

static void free_due(uint64_t day, uint64_t *operations)
{
    uint32_t next;
    for (uint32_t i = due[day]; i != 0; i = next) {
        marked_free(held[i].block.address, held[i].block.size);
        next = held[i].next;
        held[i].next = unused;
        unused = i;
        ++*operations;
    }
    due[day] = due_last[day] = 0;
}

static void hold(void *address, size_t size, uint64_t day)
{
    uint32_t i = unused;
    if (i == 0)
        load_fail("more than %d blocks live", MAX_LIVE);
    unused = held[i].next;
    held[i] = (struct held){.block = {address, size, 0}};
    if (due[day] == 0)
        due[day] = i;
    else
        held[due_last[day]].next = i; /* first in, first out within a day */
    due_last[day] = i;
}

int main(int argument_count, char **arguments)
{
    (void)argument_count;
    uint64_t seed = 1, budget_min = 8, budget_max = 1024, mallocs = 18000, warmup = 0, hold_min = 30, hold_max = 50;
    const struct load_option options[] = {
        {"seed", &seed, "of the task set and its requests", false},
        {"min", &budget_min, "smallest budget, bytes a period", false},
        {"max", &budget_max, "largest budget, bytes a period", false},
        {"mallocs", &mallocs, "mallocs to count", false},
        {"warmup", &warmup, "operations before counting starts", false},
        {"hold-min", &hold_min, "shortest holding time, time units", false},
        {"hold-max", &hold_max, "longest holding time, time units", false},
    };
    LOAD_OPTIONS(arguments, options);
    if (budget_min == 0 || budget_min > budget_max || hold_min > hold_max || hold_min == 0 || hold_max >= CALENDAR_DAYS)
        load_fail("wanted 0 < min <= max and 0 < hold-min <= hold-max < %d", CALENDAR_DAYS);

    marks_open();
    held = load_table((MAX_LIVE + 1) * sizeof *held);
    for (uint32_t i = MAX_LIVE; i > 0; i--) {
        held[i].next = unused;
        unused = i;
    }
    load_random_state = seed;
    make_tasks(budget_min, budget_max, hold_min, hold_max);

    uint64_t operations = 0, counted = 0;
    for (uint64_t time = 0; counted < mallocs; time++) {
        free_due(time % CALENDAR_DAYS, &operations);
        for (struct task *task = tasks; task < tasks + task_count; task++) {
            for (uint64_t i = 0; time % task->period == 0 && i < task->requests && counted < mallocs; i++) {
                if (operations++ >= warmup) {
                    marks_start();
                    counted++;
                }
                double wanted = random_normal(task->mean, task->deviation);
                size_t size = wanted > 8 ? (size_t)wanted : 8;
                void *block = load_use(marked_malloc(size), size);
                hold(block, size, (time + random_uniform(task->hold_min, task->hold_max)) % CALENDAR_DAYS);
            }
        }
    }
    return 0;
}
