// The task-set model and its profiles (taskset.h).
#include "taskset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "random.h"

// Held blocks wait on the day, time % DAYS, on which they are due.
enum { DAYS = 1 << 15, MAX_LIVE = 1 << 20 };

static const double deviation_of_mean = 0.1;

#define RANGES_2006 \
  {3, 10}, { 10, 150 }
#define RANGES_2008 \
  {3, 10}, { 20, 150 }
// Holding times: those of all printed task sets lie in 7 to 45 periods.
#define REST \
  {2, 5}, { 7, 45 }

#define NOT_FIXED \
  0, {{0}}, { 0, 0 }

const struct taskset_profile taskset_profiles[] = {
    {"2006-test-1", "2006, section 3.2, Test 1: large blocks", RANGES_2006, {2048, 20480}, REST, false, NOT_FIXED},
    {"2006-test-2", "2006, section 3.2, Test 2: small blocks", RANGES_2006, {8, 1024}, REST, false, NOT_FIXED},
    {"2006-test-3", "2006, section 3.2, Test 3: both", RANGES_2006, {8, 20480}, REST, false, NOT_FIXED},
    {"2006-test-3-of-three",
     "the same, three tasks: as many as the sets of Tables 3 and 4 have",
     {3, 3},
     {10, 150},
     {8, 20480},
     REST,
     false,
     NOT_FIXED},
    {"2006-test-4",
     "2006, sections 3.2 and 4.4, Test 4: a task set of Test 3 with periods of 45 to 140",
     {3, 10},
     {45, 140},
     {8, 20480},
     {2, 5},
     {30, 50},
     true,
     NOT_FIXED},
    // Requests a period: Gmax / Gavg, to the nearest.
    {.name = "2006-table-3",
     .source = "2006, Table 3",
     .fixed = 3,
     .task = {{10, 1, 10200, 300, {11, 43}}, {19, 2, 8471, 200, {7, 24}}, {29, 2, 6404, 150, {11, 21}}}},
    {.name = "2006-table-4",
     .source = "2006, Table 4",
     .fixed = 3,
     .task = {{23, 3, 235, 28, {14, 43}}, {50, 4, 31, 24, {9, 45}}, {60, 2, 169, 32, {12, 30}}}},
    {"2008-profile-1",
     "2008, section 7.2, Profile 1: large blocks",
     RANGES_2008,
     {8 << 10, 64 << 10},
     REST,
     false,
     NOT_FIXED},
    {"2008-profile-2",
     "2008, section 7.2, Profile 2: small blocks",
     RANGES_2008,
     {64, 8 << 10},
     REST,
     false,
     NOT_FIXED},
    {"2008-profile-3", "2008, section 7.2, Profile 3: both", RANGES_2008, {64, 48 << 10}, REST, false, NOT_FIXED},
    {.name = "2008-table-3",
     .source = "2008, Table III",
     .fixed = 5,
     .task = {{60, 1, 18198, 1000, {22, 35}},
              {96, 1, 41636, 1375, {25, 26}},
              {98, 1, 34613, 2500, {18, 25}},
              {120, 4, 13998, 1125, {21, 29}},
              {150, 4, 8614, 2000, {14, 32}}}},
    {0},
};

static const struct taskset_profile *find_sizes(const char *name) {
  static struct taskset_profile found;
  unsigned least, most;
  int length = 0;
  if (sscanf(name, "sizes-%2u-%2u%n", &least, &most, &length) != 2 || name[length]) return NULL;
  if (least < 3 || least >= most || most > 24) return NULL;
  found = (struct taskset_profile){.name = name,
                                   .source = "2008, conclusions",
                                   .tasks = {3, 10},
                                   .period = {20, 150},
                                   .budget = {1, 1},
                                   .requests = {2, 5},
                                   .hold = {7, 45},
                                   .sizes = {UINT64_C(1) << least, UINT64_C(1) << most}};
  return &found;
}

const struct taskset_profile *taskset_find(const char *name) {
  for (const struct taskset_profile *p = taskset_profiles; p->name; p++)
    if (strcmp(p->name, name) == 0) return p;
  return find_sizes(name);
}

static uint64_t draw(struct random_stream *random, struct taskset_range range) {
  return random_uniform(random, range.least, range.most);
}

static struct taskset_task make_task(const struct taskset_profile *profile, struct random_stream *random) {
  struct taskset_task task = {.period = draw(random, profile->period)};
  double budget = (double)draw(random, profile->budget);
  task.requests = draw(random, profile->requests);
  task.mean = budget / (double)task.requests;
  task.deviation = deviation_of_mean * task.mean;
  uint64_t a = draw(random, profile->hold), b = draw(random, profile->hold);
  task.sizes = profile->sizes;
  task.hold = a < b ? (struct taskset_range){a, b} : (struct taskset_range){b, a};
  return task;
}

struct taskset taskset_make(const struct taskset_profile *profile, uint64_t seed) {
  struct taskset set = {.tasks = profile->fixed};
  memcpy(set.task, profile->task, sizeof profile->task);
  if (profile->fixed) return set;
  struct random_stream random = {seed};
  set.tasks = draw(&random, profile->tasks);
  for (size_t i = 0; i < set.tasks; i++) set.task[i] = make_task(profile, &random);
  if (profile->ends) {
    set.task[0].period = profile->period.least;
    set.task[1].period = profile->period.most;
  }
  return set;
}

struct held {
  void *block;
  size_t bytes;
  uint32_t next;  // on the same day; 0: none
};

// The blocks that are held; index 0 is none.
struct calendar {
  struct held held[MAX_LIVE + 1];
  uint32_t unused;  // list
  uint32_t first[DAYS], last[DAYS];
};

static struct calendar *calendar_make(void) {
  // Shared, so that the kernel gives the mapping a name: it is not taken for the malloc's (process_malloc.h).
  struct calendar *calendar =
      mmap(NULL, sizeof *calendar, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (calendar == MAP_FAILED) {
    fprintf(stderr, "taskset: no memory for the calendar\n");
    exit(2);
  }
  for (uint32_t i = MAX_LIVE; i > 0; i--) {
    calendar->held[i].next = calendar->unused;
    calendar->unused = i;
  }
  return calendar;
}

static void hold(struct calendar *calendar, void *block, size_t bytes, uint64_t time) {
  uint32_t i = calendar->unused, day = time % DAYS;
  if (!i) {
    fprintf(stderr, "taskset: more than %d blocks live\n", MAX_LIVE);
    exit(2);
  }
  calendar->unused = calendar->held[i].next;
  calendar->held[i] = (struct held){block, bytes, 0};
  if (calendar->first[day])
    calendar->held[calendar->last[day]].next = i;
  else
    calendar->first[day] = i;
  calendar->last[day] = i;
}

static void free_due(struct calendar *calendar, uint64_t time, const struct taskset_operations *operations,
                     void *context) {
  uint32_t day = time % DAYS, next;
  for (uint32_t i = calendar->first[day]; i; i = next) {
    struct held *held = &calendar->held[i];
    operations->free(context, held->block, held->bytes);
    next = held->next;
    held->next = calendar->unused;
    calendar->unused = i;
  }
  calendar->first[day] = 0;
}

// When a block allocated now is freed: when it is due, or at the server's next release.
static uint64_t free_time(const struct taskset_task *task, const struct taskset_options *options, uint64_t now,
                          struct random_stream *random) {
  uint64_t unit = options->hold_in_time ? 1 : task->period;
  uint64_t due = now + random_uniform(random, task->hold.least * unit, task->hold.most * unit);
  return options->server ? (due + options->server - 1) / options->server * options->server : due;
}

static size_t request_bytes(const struct taskset_task *task, struct random_stream *random) {
  if (task->sizes.most) return draw(random, task->sizes);
  double wanted = random_normal(random, task->mean, task->deviation);
  return wanted > TASKSET_REQUEST_LEAST ? (size_t)wanted : TASKSET_REQUEST_LEAST;
}

void taskset_run(const struct taskset *set, const struct taskset_options *options,
                 const struct taskset_operations *operations, void *context) {
  struct calendar *calendar = calendar_make();
  // Not the stream that the task set was drawn from, so that one task set can be run with many seeds.
  struct random_stream random = {options->seed ^ 0x6f70657261746f72};
  uint64_t mallocs = 0, time = 0, release[TASKSET_TASKS] = {0};
  for (; mallocs < options->mallocs; time++) {
    if (options->now) *options->now = time;
    free_due(calendar, time, operations, context);
    for (size_t t = 0; t < set->tasks; t++) {
      if (time != release[t]) continue;
      const struct taskset_task *task = &set->task[t];
      release[t] += task->period;
      for (uint64_t i = 0; i < task->requests && mallocs < options->mallocs; i++, mallocs++) {
        size_t bytes = request_bytes(task, &random);
        void *block = operations->malloc(context, bytes);
        hold(calendar, block, bytes, free_time(task, options, time, &random));
      }
    }
  }
  for (uint64_t end = time + DAYS; options->drain && time < end; time++) free_due(calendar, time, operations, context);
  munmap(calendar, sizeof *calendar);
}
