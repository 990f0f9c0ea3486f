// A day of simulated time: a task set of the papers (taskset.h) on the malloc that the program runs with, and whether
// the memory that it takes grows.
//
//   LD_PRELOAD=build/librtmalloc.so build/paper/day --operations 1e9 --csv day.csv
//
// Layer: lab/paper, the loads; a program of its own, not a load of session.h, as it calls malloc and free.
//
// Time. One malloc or one free is an operation. The time unit of the task set is chosen so that 10^9 operations are
// 86,400 seconds, 5,787 mallocs a second, whatever the set; the summary says what periods that gives. At the end all
// blocks are freed.
//
// Contents. The first word of a block, and the first of every further 4 KiB of it, is marked, and checked at the free.
//
// Memory. Held memory is the anonymous memory of the process that is resident, less what it was before the first
// operation; it is read at 2,000 points in equal distance. The run is cut into 100 rows of equal length; F of a row is
// the papers' F, of that row alone: the most held / the most live requested bytes - 1. Where the malloc has rtm_stats,
// `mapped` is read too: it is coarser, whole segments, but the kernel has no part in it.
//
// The CSV has a line a row: time and operations at its end, the most live and the most held in it, F, the most mapped.
//
// Exit status 1: memory grows, or a block has lost its mark; 2: wrong usage; 3: no memory, no
// measure of it, or no room for the CSV.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rtmalloc.h"
#include "taskset.h"

enum { ROWS = 100, READINGS_A_ROW = 20, READINGS = ROWS * READINGS_A_ROW, PAGE = 4096 };

static const double operations_of_a_day = 1e9, seconds_of_a_day = 86400;

// Below it the first half is no steady state: blocks are held for up to 45 of 150 time units, and about one malloc
// comes in three units.
static const double least_operations = 1e6;
static const double most_operations = 1e15;  // counts are exact in a double

// How much more the last half may hold than the first did. A steady load's peaks creep too: the largest of 2 n random
// values lies above the largest of n, for each size class and for where blocks lie, and what was touched may stay
// resident. On nine task sets that was up to 3 % of what was held, most where little is live. A leak adds as much in
// the last half as in the first: at 1.05, what it adds in a half of the run must stay below 5.3 % of what the load
// needs. One block of 10,000 makes several times that within 10^8 operations. Mapped memory grows by whole segments, each
// far more than 5 %: one more, as a peak came late, is not yet growth.
static const double growth_allowed = 1.05;
static const size_t segment = (size_t)4 << 20;

struct row {
  double seconds;
  uint64_t operations;
  size_t live, held, mapped;  // bytes, the most in the row
};

struct day {
  double unit;       // seconds
  uint64_t now;      // time units
  uint64_t mallocs;  // in all
  uint64_t done[2];  // mallocs, frees
  uint64_t reading;  // number of the next
  uint64_t read_at;  // mallocs
  size_t live;
  void (*stats)(struct rtm_stats *);  // NULL: the malloc has none
  size_t start;                       // resident bytes before the first operation
  struct row row[ROWS];
};

_Noreturn static void fail(int status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "day: ");
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  va_end(arguments);
  exit(status);
}

// ---- memory ----

// Exact, where statm is some hundred KiB behind, and without the pages of programs and libraries, which come as they
// are called. Without stdio, which allocates.
static size_t resident_bytes(void) {
  char text[2048];
  int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  text[length < 0 ? 0 : length] = 0;
  const char *found = strstr(text, "\nAnonymous:");
  if (!found) fail(3, "/proc/self/smaps_rollup does not say how much memory is resident");
  return strtoull(strchr(found, ':') + 1, NULL, 10) << 10;
}

static size_t mapped_bytes(const struct day *day) {
  struct rtm_stats stats = {0};
  if (day->stats) day->stats(&stats);
  return stats.mapped;
}

static void set_next_reading(struct day *day) {
  day->read_at = (uint64_t)((double)day->mallocs * (double)(day->reading + 1) / READINGS);
}

static void take_reading(struct day *day) {
  struct row *row = &day->row[day->reading / READINGS_A_ROW];
  size_t resident = resident_bytes(), held = resident > day->start ? resident - day->start : 0;
  size_t mapped = mapped_bytes(day);
  if (held > row->held) row->held = held;
  if (mapped > row->mapped) row->mapped = mapped;
  row->seconds = (double)day->now * day->unit;
  row->operations = day->done[0] + day->done[1];
  day->reading++;
  set_next_reading(day);
}

// ---- operations ----

static inline uint64_t mark(const char *block, size_t at, size_t bytes) {
  return ((uint64_t)(uintptr_t)block + at) ^ (bytes * 0x9e3779b97f4a7c15);
}

static void *day_malloc(void *context, size_t bytes) {
  struct day *day = context;
  if (day->done[0] == 0) day->start = resident_bytes();
  char *block = malloc(bytes);
  if (!block)
    fail(3, "malloc(%zu) is NULL after %llu mallocs, with %zu bytes live", bytes, (unsigned long long)day->done[0],
         day->live);
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += PAGE) {
    uint64_t word = mark(block, at, bytes);
    memcpy(block + at, &word, sizeof word);
  }
  day->live += bytes;
  struct row *row = &day->row[day->reading / READINGS_A_ROW];
  if (day->live > row->live) row->live = day->live;
  if (++day->done[0] == day->read_at) take_reading(day);
  return block;
}

static void day_free(void *context, void *block, size_t bytes) {
  struct day *day = context;
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += PAGE) {
    uint64_t word;
    memcpy(&word, (char *)block + at, sizeof word);
    if (word != mark(block, at, bytes))
      fail(1, "the block of %zu bytes at %p has lost its mark at offset %zu, after %llu operations", bytes, block, at,
           (unsigned long long)(day->done[0] + day->done[1]));
  }
  free(block);
  day->live -= bytes;
  day->done[1]++;
}

// ---- what comes out ----

static double factor_f(const struct row *row) { return (double)row->held / (double)row->live - 1; }

static struct row largest(const struct row *row, size_t rows) {
  struct row most = {0};
  for (size_t i = 0; i < rows; i++) {
    if (row[i].live > most.live) most.live = row[i].live;
    if (row[i].held > most.held) most.held = row[i].held;
    if (row[i].mapped > most.mapped) most.mapped = row[i].mapped;
  }
  return most;
}

static double largest_f(const struct row *row, size_t rows) {
  double most = -1;
  for (size_t i = 0; i < rows; i++) most = fmax(most, factor_f(&row[i]));
  return most;
}

static void write_csv(FILE *file, const char *name, const struct day *day) {
  fprintf(file, "time_s,operations,live_bytes,held_bytes,F,mapped_bytes\n");
  for (const struct row *row = day->row; row < day->row + ROWS; row++)
    fprintf(file, "%.3f,%llu,%zu,%zu,%.4f,%zu\n", row->seconds, (unsigned long long)row->operations, row->live,
            row->held, factor_f(row), row->mapped);
  bool written = !ferror(file);
  if (fclose(file) != 0 || !written) fail(3, "cannot write %s: %m", name);
}

static void print_task_set(const struct taskset_profile *profile, const struct taskset *set, uint64_t seed,
                           double unit) {
  uint64_t least = UINT64_MAX, most = 0;
  for (const struct taskset_task *task = set->task; task < set->task + set->tasks; task++) {
    if (task->period < least) least = task->period;
    if (task->period > most) most = task->period;
  }
  printf("load            %s, seed %llu: %zu tasks, periods of %.2f to %.2f ms\n", profile->name,
         (unsigned long long)seed, set->tasks, (double)least * unit * 1e3, (double)most * unit * 1e3);
}

// `step`: in which the memory grows, bytes.
static bool print_most(const char *what, size_t first, size_t last, size_t step) {
  printf("most %-11sfirst half: %zu, last half: %zu bytes\n", what, first, last);
  return (double)last > growth_allowed * (double)first + (double)step;
}

// The status to exit with.
static int print_summary(const struct day *day) {
  const struct row *halves[2] = {day->row, day->row + ROWS / 2};
  struct row first = largest(halves[0], ROWS / 2), last = largest(halves[1], ROWS / 2);
  const char *preload = getenv("LD_PRELOAD");
  printf("malloc          %s\n", preload && *preload ? preload : "the system's");
  printf("operations      %llu\n", (unsigned long long)(day->done[0] + day->done[1]));
  printf("simulated time  %.0f s\n", day->row[ROWS - 1].seconds);
  printf("F               at 1 %%: %.4f, at 10 %%: %.4f, at 50 %%: %.4f, at 100 %%: %.4f\n", factor_f(&day->row[0]),
         factor_f(&day->row[9]), factor_f(&day->row[49]), factor_f(&day->row[99]));
  printf("largest F       first half: %.4f, last half: %.4f\n", largest_f(halves[0], ROWS / 2),
         largest_f(halves[1], ROWS / 2));
  print_most("live", first.live, last.live, 0);
  bool held = print_most("held", first.held, last.held, 0);
  bool mapped = day->stats && print_most("mapped", first.mapped, last.mapped, segment);
  if (held || mapped)
    printf("GROWTH          the last half %s more than %.2f times the most of the first half\n",
           held ? "held" : "mapped", growth_allowed);
  else
    printf("no growth       the last half held at most %.2f times the most of the first half\n", growth_allowed);
  return held || mapped;
}

// ---- command line ----

static void print_usage(FILE *file) {
  fprintf(file,
          "usage: day [--operations N] [--profile NAME] [--seed N] [--csv FILE]\n"
          "N operations (1e8) of a task set of the papers (2008-profile-3) on the malloc in use.\n"
          "Profiles:");
  for (const struct taskset_profile *p = taskset_profiles; p->name; p++) fprintf(file, " %s", p->name);
  fprintf(file, "\n");
}

// A whole number in [least, most]; 1e8 is one.
static uint64_t read_number(const char *option, const char *text, double least, double most) {
  char *end = NULL;
  double value = text ? strtod(text, &end) : 0;
  if (!end || end == text || *end || !(value >= least) || !(value <= most) || value != floor(value))
    fail(2, "%s wants a whole number from %.0f to %.0f, got '%s'", option, least, most, text ? text : "");
  return (uint64_t)value;
}

int main(int count, char **arguments) {
  double operations = 1e8;
  uint64_t seed = 1;
  const char *csv = NULL, *name = "2008-profile-3";
  for (int i = 1; i < count; i += 2) {
    const char *option = arguments[i], *value = arguments[i + 1];  // the last is NULL
    if (strcmp(option, "--help") == 0) {
      print_usage(stdout);
      return 0;
    }
    if (strcmp(option, "--operations") == 0) {
      operations = (double)read_number(option, value, least_operations, most_operations);
    } else if (strcmp(option, "--seed") == 0) {
      seed = read_number(option, value, 0, most_operations);
    } else if (strcmp(option, "--profile") == 0 && value) {
      name = value;
    } else if (strcmp(option, "--csv") == 0 && value) {
      csv = value;
    } else if (strcmp(option, "--profile") == 0 || strcmp(option, "--csv") == 0) {
      fail(2, "%s wants a value", option);
    } else {
      print_usage(stderr);
      fail(2, "no option '%s'", option);
    }
  }
  const struct taskset_profile *profile = taskset_find(name);
  if (!profile) {
    print_usage(stderr);
    fail(2, "no profile '%s'", name);
  }
  FILE *file = csv ? fopen(csv, "w") : NULL;  // at the start: nobody wants to hear of it a quarter of an hour later
  if (csv && !file) fail(2, "cannot write %s: %m", csv);

  struct taskset set = taskset_make(profile, seed);
  double mallocs_a_unit = 0;
  for (const struct taskset_task *task = set.task; task < set.task + set.tasks; task++)
    mallocs_a_unit += (double)task->requests / (double)task->period;
  static struct day day;
  day.unit = mallocs_a_unit * seconds_of_a_day / (operations_of_a_day / 2);
  day.mallocs = (uint64_t)(operations / 2);
  set_next_reading(&day);
  print_task_set(profile, &set, seed, day.unit);
  fflush(stdout);
  void *stats = dlsym(RTLD_DEFAULT, "rtm_stats");
  memcpy(&day.stats, &stats, sizeof stats);  // ISO C has no cast from an object's address to a function's
  taskset_run(&set, &(struct taskset_options){.seed = seed, .mallocs = day.mallocs, .drain = true, .now = &day.now},
              &(struct taskset_operations){day_malloc, day_free}, &day);
  if (day.live != 0) fail(1, "%zu bytes are live at the end", day.live);

  int status = print_summary(&day);
  fflush(stdout);
  if (file) write_csv(file, csv, &day);
  return status;
}
