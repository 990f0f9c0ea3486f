// replay: plays a plan (plan.h) on whatever malloc it finds, and times each operation.
//
//     LD_PRELOAD=allocator.so replay PLAN RESULT CYCLES
//
// RESULT: one JSON object. CYCLES: a uint32 for each operation, in the plan's order: cycles between two fenced readings of
// the counter, at most 2^32 - 1, the readings' own time (`overhead` in RESULT) not subtracted.
//
// Threads play their own operations as fast as they can, within two rules. A block is freed or resized only once it has been
// allocated. And the trace is cut into windows: nobody begins one before all have done everything up to the last but one,
// so that what is live stays near what it was. Waiting is not in the figures of an operation.
//
// A block's pages are touched outside the timed call, as a program would. The runner itself takes nothing from malloc
// between the start and the end.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan.h"
#include "ticks.h"

enum { EXIT_USAGE = 2, PAGE = 4096, SPINS = 100, YIELDS = 50 };

static const struct plan_header *plan;
static const struct plan_thread *plan_threads;
static const uint32_t *window_sizes;
static const struct plan_operation *operations;
static uint32_t *cycles;
static _Atomic(char *) *blocks;               // NULL: not allocated yet
static _Atomic uint32_t *window_done;         // operations done in each window
static _Atomic uint64_t windows_finished;     // all windows below this one are done
static _Atomic uint64_t failures;             // requests that got no memory
static pthread_barrier_t start_line, finish_line;
static int (*rehearse)(void);                 // or NULL: the allocator has no such function, or is not sealed
static char no_block;                         // stands for a block that there was no memory for

static void fail(const char *what, const char *name) {
  fprintf(stderr, "replay: %s '%s': %s\n", what, name, strerror(errno));
  exit(EXIT_USAGE);
}

static void *map(const char *name, size_t bytes, int file, int access, int flags) {
  void *mapped = mmap(NULL, bytes == 0 ? 1 : bytes, access, flags | MAP_POPULATE, file, 0);
  if (mapped == MAP_FAILED) { fail("no memory for", name); }
  return mapped;
}

static void *own_memory(size_t bytes) {
  return map("the plan's blocks", bytes, -1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
}

static void load(const char *name) {
  const int file = open(name, O_RDONLY | O_CLOEXEC);
  struct stat found;
  if (file < 0 || fstat(file, &found) < 0) { fail("cannot read", name); }
  plan = map(name, (size_t)found.st_size, file, PROT_READ, MAP_PRIVATE);
  close(file);
  if ((size_t)found.st_size < sizeof *plan || plan->magic != PLAN_MAGIC || plan->version != PLAN_VERSION) {
    fprintf(stderr, "replay: '%s' is not a plan of version %d; rtlab replay makes them\n", name, PLAN_VERSION);
    exit(EXIT_USAGE);
  }
  plan_threads = (const struct plan_thread *)(plan + 1);
  window_sizes = (const uint32_t *)(plan_threads + plan->threads);
  operations = (const struct plan_operation *)(window_sizes + (plan->windows + 1) / 2 * 2);
  blocks = own_memory(plan->blocks * sizeof *blocks);
  cycles = own_memory(plan->operations * sizeof *cycles);
  window_done = own_memory(plan->windows * sizeof *window_done);
}

static void write_cycles(const char *name) {
  FILE *file = fopen(name, "we");
  if (file == NULL || fwrite(cycles, sizeof *cycles, plan->operations, file) != plan->operations || fclose(file) != 0) {
    fail("cannot write", name);
  }
}

// ---- Order ----------------------------------------------------------------------------------------------------------

static void wait_a_little(unsigned *turns) {
  if (++*turns % SPINS != 0) { return; }
  if (*turns < YIELDS * SPINS) {
    sched_yield();
  } else {
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  }
}

static void leave_window(uint32_t window, uint32_t done) {
  atomic_fetch_add_explicit(&window_done[window], done, memory_order_acq_rel);
  uint64_t finished = atomic_load_explicit(&windows_finished, memory_order_acquire);
  while (finished < plan->windows &&
         atomic_load_explicit(&window_done[finished], memory_order_acquire) == window_sizes[finished]) {
    atomic_compare_exchange_strong_explicit(&windows_finished, &finished, finished + 1, memory_order_acq_rel,
                                            memory_order_acquire);
    finished = atomic_load_explicit(&windows_finished, memory_order_acquire);
  }
}

static void enter_window(uint32_t window) {
  unsigned turns = 0;
  while (atomic_load_explicit(&windows_finished, memory_order_acquire) + 1 < window) { wait_a_little(&turns); }
}

// Acquire pairs with the release in `put`: the freeing thread sees what the allocating one wrote.
static char *block_of(uint32_t number) {
  char *block;
  unsigned turns = 0;
  while ((block = atomic_load_explicit(&blocks[number], memory_order_acquire)) == NULL) { wait_a_little(&turns); }
  return block;
}

static void put(uint32_t number, char *block, uint64_t size) {
  if (block == NULL) {
    if (size > 0) { atomic_fetch_add_explicit(&failures, 1, memory_order_relaxed); }
    block = &no_block;
  } else if (size > 0) {
    for (uint64_t at = 0; at < size; at += PAGE) { *(volatile char *)(block + at) = 1; }
    *(volatile char *)(block + size - 1) = 1;
  }
  atomic_store_explicit(&blocks[number], block, memory_order_release);
}

// ---- Playing --------------------------------------------------------------------------------------------------------

#define TIMED(index, call)                                                                \
  do {                                                                                    \
    const uint64_t before = ticks_before();                                               \
    call;                                                                                 \
    const uint64_t passed = ticks_after() - before;                                       \
    cycles[index] = passed < UINT32_MAX ? (uint32_t)passed : UINT32_MAX;                  \
  } while (0)

static char *aligned_block(const struct plan_operation *wanted) {
  void *block = NULL;
  const size_t alignment = (size_t)1 << wanted->alignment;
  return posix_memalign(&block, alignment < sizeof block ? sizeof block : alignment, wanted->size) == 0 ? block : NULL;
}

static void play(uint64_t index) {
  const struct plan_operation *const now = &operations[index];
  char *block = NULL, *old;
  switch ((enum plan_kind)now->kind) {
    case PLAN_MALLOC: TIMED(index, block = malloc(now->size)); break;
    case PLAN_CALLOC: TIMED(index, block = calloc(1, now->size)); break;
    case PLAN_ALIGNED: TIMED(index, block = aligned_block(now)); break;
    case PLAN_FREE:
      old = block_of(now->block);
      if (old != &no_block) { TIMED(index, free(old)); }
      return;
    case PLAN_RESIZE:
      old = block_of(now->old);
      if (old == &no_block) { old = NULL; }
      TIMED(index, block = realloc(old, now->size));
      if (block == NULL && old != NULL) { free(old); }
      break;
  }
  put(now->block, block, now->size);
}

static void *play_thread(void *argument) {
  const struct plan_thread *const thread = argument;
  const bool alone = plan->threads == 1;
  pthread_barrier_wait(&start_line);
  uint32_t window = 0, done = 0;
  for (uint64_t i = thread->first; i < thread->first + thread->count; i++) {
    if (!alone && operations[i].window != window) {
      leave_window(window, done);
      window = operations[i].window;
      done = 0;
      enter_window(window);
    }
    play(i);
    done++;
  }
  if (!alone) { leave_window(window, done); }
  pthread_barrier_wait(&finish_line);
  return NULL;
}

// Of the others: rtm_seal has rehearsed for the main thread.
static void *play_rehearsed(void *argument) {
  if (rehearse != NULL) { rehearse(); }
  return play_thread(argument);
}

// ---- What it took ---------------------------------------------------------------------------------------------------

// A figure of /proc/self/status in KiB.
static long status_kib(const char *name) {
  static char text[8192];
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0) { close(file); }
  text[length < 0 ? 0 : length] = '\0';
  const char *found = strstr(text, name);
  return found == NULL ? -1 : strtol(found + strlen(name), NULL, 10);
}

static void forget_peak(void) {
  const int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file < 0) { return; }
  (void)!write(file, "5", 1);                 // resets VmHWM (proc(5))
  close(file);
}

// A call that nobody makes, for count_calls.c to see where the replay begins and ends.
static void mark(void) { (void)personality(0xffffffff); }

// A program for real time sets itself up, and then seals (docs/real-time.md).
static void seal(void) {
  if (getenv("RTLAB_SEAL") == NULL) { return; }
  int (*const rtm_seal)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "rtm_seal");
  if (rtm_seal == NULL || rtm_seal() != 0) {
    fprintf(stderr, "replay: RTLAB_SEAL is set, and the allocator cannot be sealed\n");
    exit(EXIT_USAGE);
  }
}

static bool pin(void) {
  cpu_set_t one;
  CPU_ZERO(&one);
  const int processor = sched_getcpu();
  if (processor < 0) { return false; }
  CPU_SET(processor, &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

int main(int count, char **arguments) {
  if (count != 4) {
    fprintf(stderr, "usage: replay PLAN RESULT CYCLES\n");
    return EXIT_USAGE;
  }
  load(arguments[1]);
  const bool pinned = plan->threads == 1 && pin();
  const uint64_t overhead = reading_overhead();
  pthread_t *const threads = own_memory(plan->threads * sizeof *threads);
  if (getenv("RTLAB_SEAL") != NULL) { rehearse = (int (*)(void))dlsym(RTLD_DEFAULT, "rtm_rehearse"); }
  const unsigned others = (unsigned)(plan->threads > 0 ? plan->threads - 1 : 0);
  pthread_barrier_init(&start_line, NULL, others + 1);
  pthread_barrier_init(&finish_line, NULL, others + 1);
  for (unsigned i = 0; i < others; i++) {
    errno = pthread_create(&threads[i], NULL, play_rehearsed, (void *)&plan_threads[i + 1]);
    if (errno != 0) { fail("cannot start a thread of", arguments[1]); }
  }
  struct rusage before, after;
  forget_peak();
  const long start_kib = status_kib("VmRSS:");
  seal();
  getrusage(RUSAGE_SELF, &before);
  const uint64_t start_ns = now_ns(), start_ticks = ticks_after();
  mark();
  static const struct plan_thread nobody;
  play_thread((void *)(plan->threads > 0 ? &plan_threads[0] : &nobody));
  mark();
  const uint64_t wall_ticks = ticks_after() - start_ticks, wall_ns = now_ns() - start_ns;
  getrusage(RUSAGE_SELF, &after);
  const long peak_kib = status_kib("VmHWM:");
  for (unsigned i = 0; i < others; i++) { pthread_join(threads[i], NULL); }

  write_cycles(arguments[3]);
  FILE *result = fopen(arguments[2], "we");
  if (result == NULL) { fail("cannot write", arguments[2]); }
  fprintf(result,
          "{\"wall_ns\": %llu, \"wall_ticks\": %llu, \"overhead\": %llu, \"start_kib\": %ld, \"peak_kib\": %ld, "
          "\"minor_faults\": %ld, \"major_faults\": %ld, \"failures\": %llu, \"pinned\": %s}\n",
          (unsigned long long)wall_ns, (unsigned long long)wall_ticks, (unsigned long long)overhead, start_kib, peak_kib,
          after.ru_minflt - before.ru_minflt, after.ru_majflt - before.ru_majflt, (unsigned long long)failures,
          pinned ? "true" : "false");
  return fclose(result) == 0 ? 0 : EXIT_USAGE;
}
