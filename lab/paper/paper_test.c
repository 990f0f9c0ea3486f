// Tests of the task-set model: what the papers say of it holds, and the same seed gives the same operations.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "taskset.h"

#define CHECK(condition, ...)                                          \
  do {                                                                 \
    if (!(condition)) {                                                \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);  \
      fprintf(stderr, __VA_ARGS__), fprintf(stderr, "\n"), failures++; \
    }                                                                  \
  } while (0)

static int failures;

// What a run did.
struct record {
  uint64_t hash, mallocs, frees, live, peak;
  double sum, squares;  // of sizes
  size_t least;
};

static void *record_malloc(void *context, size_t bytes) {
  struct record *record = context;
  record->mallocs++;
  record->live += bytes;
  if (record->live > record->peak) record->peak = record->live;
  record->sum += (double)bytes, record->squares += (double)bytes * (double)bytes;
  if (bytes < record->least) record->least = bytes;
  record->hash = (record->hash ^ bytes) * 1099511628211u;
  return (void *)(uintptr_t)record->mallocs;
}

static void record_free(void *context, void *block, size_t bytes) {
  struct record *record = context;
  record->frees++;
  record->live -= bytes;
  record->hash = (record->hash ^ (uintptr_t)block) * 1099511628211u;
}

static struct record run(const struct taskset *set, struct taskset_options options) {
  struct record record = {.least = SIZE_MAX};
  taskset_run(set, &options, &(struct taskset_operations){record_malloc, record_free}, &record);
  return record;
}

static bool in(uint64_t value, struct taskset_range range) { return value >= range.least && value <= range.most; }

static void task_sets_are_in_the_ranges_of_their_profile(void) {
  for (const struct taskset_profile *p = taskset_profiles; p->name; p++) {
    for (uint64_t seed = 1; seed <= 50 && !p->fixed; seed++) {
      struct taskset set = taskset_make(p, seed);
      CHECK(in(set.tasks, p->tasks), "%s: %zu tasks", p->name, set.tasks);
      for (size_t i = 0; i < set.tasks; i++) {
        const struct taskset_task *t = &set.task[i];
        CHECK(in(t->period, p->period) && in(t->requests, p->requests), "%s", p->name);
        CHECK(in((uint64_t)round(t->mean * (double)t->requests), p->budget), "%s: mean %f", p->name, t->mean);
        CHECK(in(t->hold.least, p->hold) && in(t->hold.most, p->hold) && t->hold.least <= t->hold.most, "%s", p->name);
      }
    }
  }
}

static void the_same_seed_gives_the_same_operations(void) {
  for (const struct taskset_profile *p = taskset_profiles; p->name; p++) {
    struct taskset set = taskset_make(p, 7);
    struct record a = run(&set, (struct taskset_options){.seed = 7, .mallocs = 5000});
    struct record b = run(&set, (struct taskset_options){.seed = 7, .mallocs = 5000});
    struct record c = run(&set, (struct taskset_options){.seed = 8, .mallocs = 5000});
    CHECK(a.hash == b.hash, "%s", p->name);
    CHECK(a.hash != c.hash, "%s", p->name);
    CHECK(a.mallocs == 5000 && a.frees < 5000 && a.least >= TASKSET_REQUEST_LEAST, "%s", p->name);
  }
}

static void sizes_are_normal_around_the_mean(void) {
  struct taskset set = {.tasks = 1, .task = {{20, 2, 1000, 100, {2, 4}}}};
  struct record r = run(&set, (struct taskset_options){.seed = 3, .mallocs = 20000});
  double mean = r.sum / 20000, deviation = sqrt(r.squares / 20000 - mean * mean);
  CHECK(fabs(mean - 999.5) < 3, "mean %f", mean);
  CHECK(fabs(deviation - 100) < 3, "deviation %f", deviation);
}

// Two requests of 100 bytes every 10 units, held for exactly 3 periods: 6 blocks live.
static void blocks_are_freed_when_they_are_due(void) {
  struct taskset set = {.tasks = 1, .task = {{10, 2, 100, 0, {3, 3}}}};
  struct record at_once = run(&set, (struct taskset_options){.seed = 1, .mallocs = 1000});
  CHECK(at_once.peak == 600, "%llu", (unsigned long long)at_once.peak);
  // In time units they are gone before the next release.
  struct record in_time = run(&set, (struct taskset_options){.seed = 1, .mallocs = 1000, .hold_in_time = true});
  CHECK(in_time.peak == 200, "%llu", (unsigned long long)in_time.peak);
}

// The same with a deallocation task: due at 30, 40 ..., freed at multiples of 50, before the requests of that time.
static void a_deallocation_task_frees_at_its_releases(void) {
  struct taskset set = {.tasks = 1, .task = {{10, 2, 100, 0, {3, 3}}}};
  struct record r = run(&set, (struct taskset_options){.seed = 1, .mallocs = 1000, .server = 50});
  // Before the frees at 100: requested at 30 to 90; those at 0 to 20 went at 50. Then 7 releases of 200 bytes.
  CHECK(r.peak == 1400, "%llu", (unsigned long long)r.peak);
}

int main(void) {
  task_sets_are_in_the_ranges_of_their_profile();
  the_same_seed_gives_the_same_operations();
  sizes_are_normal_around_the_mean();
  blocks_are_freed_when_they_are_due();
  a_deallocation_task_frees_at_its_releases();
  if (!failures) printf("all hold\n");
  return failures != 0;
}
