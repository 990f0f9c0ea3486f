// Runs of loads and their measures (session.h).
#include "session.h"

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

static const struct algorithm *find_algorithm(const char *name) {
  if (strcmp(name, algorithm_half_fit_above.name) == 0) return &algorithm_half_fit_above;
  const struct algorithm *found = algorithms_find(name);
  if (found) return found;
  fprintf(stderr, "load: no allocator '%s'. Known: %s", name, algorithm_half_fit_above.name);
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
      {"--blocks", &options->blocks}};
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

static void print_space(const struct session *session) {
  printf("%llu,%zu,%zu,%zu\n", (unsigned long long)session->mallocs, session->live, session->peak,
         session->algorithm->usage(session->heap).reached);
}

void *session_malloc(struct session *session, size_t bytes) {
  void *block;
  const struct algorithm *algorithm = session->algorithm;
  if (session->measure == SESSION_COUNT) {
    choose_sample(session);
    block = (void *)marks_call(MARKED_MALLOC, (void *)algorithm->malloc, (uintptr_t)session->heap, bytes, bytes);
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
    marks_call(MARKED_FREE, (void *)algorithm->free, (uintptr_t)session->heap, (uintptr_t)block, bytes);
  } else if (session->measure == SESSION_CYCLES) {
    uint64_t begin = clock_begin();
    freed = algorithm->free(session->heap, block);
    keep_least(session, 1, session->frees, clock_end() - begin);
  } else {
    freed = algorithm->free(session->heap, block);
  }
  if (!freed) session_fail(1, "%s: refused to free a live block", algorithm->name);
  session->live -= bytes;
  session->frees++;
}

// ---- runs ----

static void run_once(struct session *session, const struct load *load) {
  size_t bytes = session->options.area;
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) session_fail(3, "the system has no %zu bytes for the area", bytes);
  session->heap = session->algorithm->init(memory, bytes);
  if (!session->heap) session_fail(3, "%s: an area of %zu bytes is too small", session->algorithm->name, bytes);
  session->mallocs = session->frees = session->live = session->peak = 0;
  session->sampling = session->options.seed;
  load->run(session);
  munmap(memory, bytes);
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
    session_fail(2, "usage: %s ALGORITHM space|cycles|sizes|count PROFILE [--option N]...\n%s", arguments[0],
                 load->help);
  struct session session = {
      .algorithm = find_algorithm(arguments[1]),
      .profile = arguments[3],
      .options = {
          .seed = 1, .mallocs = 10000, .area = 64 << 20, .sample = 1, .points = 1, .replicas = 2, .blocks = 1 << 15}};
  const char *const measures[] = {"space", "cycles", "sizes", "count"};
  size_t measure = 0;
  while (measure < 4 && strcmp(arguments[2], measures[measure]) != 0) measure++;
  if (measure == 4) session_fail(2, "no measure '%s': space, cycles, sizes or count", arguments[2]);
  session.measure = (enum session_measure)measure;
  for (char **argument = arguments + 4; *argument; argument += argument[1] ? 2 : 1)
    set_option(&session.options, argument[0], argument[1], load->help);
  if (session.options.points == 0 || session.options.mallocs == 0)
    session_fail(2, "--points and --mallocs are at least 1");

  if (session.measure == SESSION_CYCLES) {
    run_cycles(&session, load);
    return 0;
  }
  if (session.measure == SESSION_COUNT) marks_open();
  if (session.measure == SESSION_SPACE) printf("mallocs,live,peak_live,reached\n");
  if (session.measure == SESSION_SIZES) printf("bytes\n");
  run_once(&session, load);
  return 0;
}
