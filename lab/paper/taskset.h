// The task-set model of Masmano et al. 2006 (section 3) and 2008 (section 7), and the task sets that the papers give.
//
// Layer: lab/paper, the loads; used by load_taskset.c, day.c and the tests. Deterministic: the same seeds give the same
// operations on any machine with IEEE floating point.
//
// 3 to 10 tasks. Each has a period, a budget of g bytes a period and n requests a period, all uniform in the profile's
// ranges. At each release it makes n requests, normal around g / n with a deviation of 10 %, at least 8 bytes, and
// each block is held for a time uniform between the task's shortest and longest.
//
// Holding times are in periods of the task (2006: 'in the period range'), and drawn from 7 to 45, where all those of
// the printed task sets lie; the text's 30 to 50 is kept for Test 4. The evidence is in docs/paper-tables.md.
#ifndef PAPER_TASKSET_H
#define PAPER_TASKSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TASKSET_TASKS = 10, TASKSET_REQUEST_LEAST = 8 };

struct taskset_range {
  uint64_t least, most;  // both included
};

struct taskset_task {
  uint64_t period;             // time units
  uint64_t requests;           // a period
  double mean, deviation;      // bytes of a request
  struct taskset_range hold;   // periods
  struct taskset_range sizes;  // bytes; if `most` is not 0, requests are uniform in it, not normal
};

// Ranges that a task set is drawn from; or, where `fixed` is not 0, the task set itself.
struct taskset_profile {
  const char *name, *source;
  struct taskset_range tasks, period, budget, requests, hold;
  bool ends;     // the first task has the shortest period of the range, the second the longest (2006, Test 4)
  size_t fixed;  // tasks
  struct taskset_task task[5];
  struct taskset_range sizes;  // of all tasks: taskset_task
};

struct taskset {
  size_t tasks;
  struct taskset_task task[TASKSET_TASKS];
};

// All profiles, ended by one without a name. NULL if there is none of that name. 'sizes-I-J', 3 <= I < J <= 24, is one
// too, the last that was asked for: task sets as of 2008, with requests uniform in 2^I to 2^J bytes, as its conclusions
// speak of 'all possible combinations of power of 2 subranges'.
extern const struct taskset_profile taskset_profiles[];
const struct taskset_profile *taskset_find(const char *name);

// The task set of a seed. Of a fixed one: the same for all seeds.
struct taskset taskset_make(const struct taskset_profile *profile, uint64_t seed);

struct taskset_options {
  uint64_t seed;      // of the requests
  uint64_t mallocs;   // how many, then the run ends, with blocks held unless `drain`
  uint64_t server;    // period of the deallocation task in time units; 0: each block is freed when it is due
  bool hold_in_time;  // holding times in time units, to see what that would give
  bool drain;         // at the end the blocks that are held are freed, in the order in which they are due
  uint64_t *now;      // where the run keeps its time, in time units; NULL: nowhere
};

// What a run calls. `context` is handed through.
struct taskset_operations {
  void *(*malloc)(void *context, size_t bytes);
  void (*free)(void *context, void *block, size_t bytes);
};

// At each time unit first the frees that are due, oldest first, then the requests, task by task. The run's own data is
// 24 MiB from mmap, touched before the first operation: none of it comes from a malloc that is measured.
void taskset_run(const struct taskset *set, const struct taskset_options *options,
                 const struct taskset_operations *operations, void *context);

#endif
