// Runs of loads and their measures (session.h).
#include "session.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <x86intrin.h>

#include "marks.h"
#include "random.h"

extern const struct algorithm algorithm_half_fit_above;  // half_fit.c with HALF_FIT_ABOVE 1

_Noreturn void session_fail(int status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "load: ");
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  va_end(arguments);
  exit(status);
}

static const struct algorithm *open_foreign(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) session_fail(2, "cannot open the allocator: %s", dlerror());
  const struct algorithm *found = dlsym(library, "algorithm_foreign");
  if (!found) session_fail(2, "%s has no algorithm_foreign; 'rtlab peers' makes libraries that have", path);
  return found;
}

static const struct algorithm *find_algorithm(const char *name) {
  if (strchr(name, '/')) return open_foreign(name);
  if (strcmp(name, algorithm_process_malloc.name) == 0) return &algorithm_process_malloc;
  if (strcmp(name, algorithm_half_fit_above.name) == 0) return &algorithm_half_fit_above;
  const struct algorithm *found = algorithms_find(name);
  if (found) return found;
  fprintf(stderr, "load: no allocator '%s'. Known: %s, %s", name, algorithm_process_malloc.name,
          algorithm_half_fit_above.name);
  for (const struct algorithm *const *a = algorithms_all(); *a; a++) fprintf(stderr, ", %s", (*a)->name);
  session_fail(2, ".");
}

// ---- options ----

static void set_option(struct session_options *options, const char *name, const char *text, const char *help) {
  const struct {
    const char *name;
    uint64_t *value;
  } known[] = {
      {"--seed", &options->seed},         {"--set-seed", &options->set_seed}, {"--mallocs", &options->mallocs},
      {"--area", &options->area},         {"--sample", &options->sample},     {"--points", &options->points},
      {"--replicas", &options->replicas}, {"--server", &options->server},     {"--hold-in-time", &options->in_time},
      {"--blocks", &options->blocks},     {"--copies", &options->copies}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(known[i].name, name) != 0) continue;
    char *end = NULL;
    *known[i].value = text ? strtoull(text, &end, 10) : 0;
    if (!end || end == text || *end) session_fail(2, "%s wants a number, got '%s'", name, text ? text : "");
    return;
  }
  fprintf(stderr, "load: no option '%s'. Known:", name);
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) fprintf(stderr, " %s", known[i].name);
  session_fail(2, "\n%s", help);
}

// ---- measures ----

// The time of everything before `first` has passed and nothing behind it has begun, and the other way round.
static inline uint64_t clock_begin(void) {
  _mm_lfence();
  uint64_t now = __rdtsc();
  _mm_lfence();
  return now;
}
static inline uint64_t clock_end(void) {
  unsigned processor;
  uint64_t now = __rdtscp(&processor);
  _mm_lfence();
  return now;
}

static uint64_t timer_cost(void) {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 10000; i++) {
    uint64_t begin = clock_begin(), cycles = clock_end() - begin;
    if (cycles < least) least = cycles;
  }
  return least;
}

static void keep_least(struct session *session, int kind, uint64_t index, uint64_t cycles) {
  cycles = cycles > session->timer ? cycles - session->timer : 0;
  uint32_t value = cycles < UINT32_MAX ? (uint32_t)cycles : UINT32_MAX;
  if (value < session->best[kind][index]) session->best[kind][index] = value;
}

static void choose_sample(struct session *session) {
  if (session->options.sample == 0) return;  // the load chooses
  struct random_stream stream = {session->sampling};
  bool chosen = random_uniform(&stream, 1, session->options.sample) == 1;
  session->sampling = stream.state;
  if (chosen)
    marks_start();
  else
    marks_stop();
}

void session_count_all(struct session *session, bool counting) {
  session->options.sample = 0;
  if (counting && session->measure == SESSION_COUNT)
    marks_start();
  else
    marks_stop();
}

static size_t reached(const struct session *session) {
  if (session->is_process) return session->most.in_use + session->metadata;
  return session->is_foreign ? session->reached : session->algorithm->usage(session->heap).reached;
}

static void print_space(const struct session *session) {
  printf("%llu,%zu,%zu,%zu\n", (unsigned long long)session->mallocs, session->live, session->peak, reached(session));
}

static void print_parts(const struct session *session) {
  const struct session_use *most = &session->most;
  printf("peak_live,live,usable,in_use,reserve,metadata\n%zu,%zu,%zu,%zu,%zu,%zu\n", session->peak, most->live,
         most->usable, most->in_use, most->reserve, session->metadata);
}

static void note_process_memory(struct session *session, char *block) {
  struct session_use *use = &session->use;
  size_t usable = process_usable_size(block);
  use->usable += usable;
  if (!session->lowest || block < session->lowest) session->lowest = block;
  if (block + usable > session->highest) session->highest = block + usable;
  struct process_memory now = process_memory_now();
  use->live = session->live;
  use->in_use = now.in_use;
  use->reserve = now.reserve;
  if (use->in_use > session->most.in_use) session->most = *use;
  enum { SEGMENT = 4 << 20 };
  if (session->mallocs == session->options.mallocs) {
    char *low = session->lowest - (uintptr_t)session->lowest % SEGMENT;
    char *high = session->highest + (-(uintptr_t)session->highest % SEGMENT);
    session->metadata = process_metadata(low, high);
  }
}

// What the allocator does not count itself.
static void note_memory(struct session *session, char *block) {
  if (session->is_process) note_process_memory(session, block);
  if (!session->is_foreign) return;
  size_t end = (size_t)(block - session->memory) + session->algorithm->usable_size(session->heap, block);
  if (end > session->reached) session->reached = end;
}

void *session_malloc(struct session *session, size_t bytes) {
  void *block;
  const struct algorithm *algorithm = session->algorithm;
  if (session->measure == SESSION_COUNT) {
    choose_sample(session);
    block = (void *)(session->is_process ? marks_call(MARKED_MALLOC, (void *)malloc, bytes, 0, bytes)
                                         : marks_call(MARKED_MALLOC, (void *)algorithm->malloc,
                                                      (uintptr_t)session->heap, bytes, bytes));
  } else if (session->measure == SESSION_CYCLES) {
    uint64_t begin = clock_begin();
    block = algorithm->malloc(session->heap, bytes);
    keep_least(session, 0, session->mallocs, clock_end() - begin);
  } else {
    block = algorithm->malloc(session->heap, bytes);
  }
  if (!block)
    session_fail(3, "%s: no memory for %zu bytes at malloc %llu, with %zu of %llu bytes live", algorithm->name, bytes,
                 (unsigned long long)session->mallocs, session->live, (unsigned long long)session->options.area);
  memset(block, 0x5a, bytes < 16 ? bytes : 16);  // what a program does first with a block
  session->live += bytes;
  if (session->live > session->peak) session->peak = session->live;
  session->mallocs++;
  if (session->measure <= SESSION_PARTS) note_memory(session, block);
  uint64_t every = session->options.mallocs / session->options.points;
  if (session->measure == SESSION_SIZES) printf("%zu\n", bytes);
  if (session->measure == SESSION_SPACE && session->mallocs % (every ? every : 1) == 0) print_space(session);
  return block;
}

void session_free(struct session *session, void *block, size_t bytes) {
  const struct algorithm *algorithm = session->algorithm;
  bool freed = true;
  if (session->measure == SESSION_COUNT) {
    choose_sample(session);
    if (session->is_process)
      marks_call(MARKED_FREE, (void *)free, (uintptr_t)block, 0, bytes);
    else
      marks_call(MARKED_FREE, (void *)algorithm->free, (uintptr_t)session->heap, (uintptr_t)block, bytes);
  } else if (session->measure == SESSION_CYCLES) {
    uint64_t begin = clock_begin();
    freed = algorithm->free(session->heap, block);
    keep_least(session, 1, session->frees, clock_end() - begin);
  } else {
    if (session->is_process && session->measure <= SESSION_PARTS) session->use.usable -= process_usable_size(block);
    freed = algorithm->free(session->heap, block);
  }
  if (!freed) session_fail(1, "%s: refused to free a live block", algorithm->name);
  session->live -= bytes;
  session->frees++;
}

// ---- runs ----

static void map_area(struct session *session) {
  size_t bytes = session->is_process ? 1 : session->options.area;
  // Times are of memory that is there, as on the papers' systems: all of it is touched.
  int populate = session->measure == SESSION_CYCLES ? MAP_POPULATE : 0;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | populate;
  session->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (session->memory == MAP_FAILED) session_fail(3, "the system has no %zu bytes for the area", bytes);
}

static void run_once(struct session *session, const struct load *load) {
  size_t bytes = session->options.area;
  session->heap = session->algorithm->init(session->memory, bytes);
  if (!session->heap)
    session_fail(3, "%s cannot have an area of %zu bytes: too small, or too large", session->algorithm->name, bytes);
  session->mallocs = session->frees = session->live = session->peak = 0;
  session->sampling = session->options.seed;
  load->run(session);
}

static void run_cycles(struct session *session, const struct load *load) {
  for (int kind = 0; kind < 2; kind++) {
    size_t bytes = (session->options.mallocs + 1) * sizeof(uint32_t);
    session->best[kind] = malloc(bytes);
    if (!session->best[kind]) session_fail(3, "the system has no %zu bytes for the times", bytes);
    memset(session->best[kind], 0xff, bytes);
  }
  session->timer = timer_cost();
  for (uint64_t i = 0; i < session->options.replicas; i++) run_once(session, load);
  printf("operation,cycles\n");
  for (uint64_t i = 0; i < session->mallocs; i++) printf("malloc,%u\n", session->best[0][i]);
  for (uint64_t i = 0; i < session->frees; i++) printf("free,%u\n", session->best[1][i]);
}

int session_main(int count, char **arguments, const struct load *load) {
  if (count < 4)
    session_fail(2, "usage: %s ALGORITHM space|parts|cycles|sizes|count PROFILE [--option N]...\n%s", arguments[0],
                 load->help);
  struct session session = {.algorithm = find_algorithm(arguments[1]),
                            .profile = arguments[3],
                            .is_foreign = strchr(arguments[1], '/') != NULL,
                            .options = {.seed = 1,
                                        .mallocs = 10000,
                                        .area = 64 << 20,
                                        .sample = 1,
                                        .points = 1,
                                        .replicas = 2,
                                        .blocks = 1 << 15,
                                        .copies = 1}};
  session.is_process = session.algorithm == &algorithm_process_malloc;
  const char *const measures[] = {"space", "parts", "cycles", "sizes", "count"};
  enum { MEASURES = sizeof measures / sizeof measures[0] };
  size_t measure = 0;
  while (measure < MEASURES && strcmp(arguments[2], measures[measure]) != 0) measure++;
  if (measure == MEASURES) session_fail(2, "no measure '%s': space, parts, cycles, sizes or count", arguments[2]);
  session.measure = (enum session_measure)measure;
  for (char **argument = arguments + 4; *argument; argument += argument[1] ? 2 : 1)
    set_option(&session.options, argument[0], argument[1], load->help);
  if (session.options.points == 0 || session.options.mallocs == 0)
    session_fail(2, "--points and --mallocs are at least 1");
  if (session.measure == SESSION_PARTS && !session.is_process)
    session_fail(2, "'parts' are of the allocator 'malloc' alone, got '%s'", arguments[1]);
  if (session.is_process && session.measure <= SESSION_PARTS && !process_has_stats())
    session_fail(2, "the malloc here has no rtm_stats: run with LD_PRELOAD=build/librtmalloc.so");

  map_area(&session);
  if (session.measure == SESSION_CYCLES) {
    run_cycles(&session, load);
    return 0;
  }
  if (session.measure == SESSION_COUNT) marks_open();
  if (session.measure == SESSION_SPACE) printf("mallocs,live,peak_live,reached\n");
  if (session.measure == SESSION_SIZES) printf("bytes\n");
  run_once(&session, load);
  if (session.measure == SESSION_PARTS) print_parts(&session);
  return 0;
}
