// wake: what the first malloc of a thread takes that has slept while two others worked.
//
//     LD_PRELOAD=allocator.so wake [PROCESSES]
//
// Each way to wake is tried in PROCESSES fresh processes (15 if not given); printed are the least and the median, in
// cycles, without the time of reading the counter. Ways:
//
//   line       no malloc: one load from a page of the thread's own, as a measure of what its own memory costs by then
//   malloc     one request of 4096 bytes, at once
//   small      the same, after malloc and free of 64 bytes
//   rehearsal  the same, after rtm_rehearse(), where the allocator has it
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ticks.h"

enum { WORKERS = 2, BLOCKS = 16384, SIZE_LEAST = 16, SIZE_SPREAD = 300, REQUEST = 4096, OWN_BYTES = 1 << 21 };
enum { SLEEP_US = 100000, PROCESSES = 15, PROCESSES_MOST = 1000, EXIT_USAGE = 2 };

extern char **environ;
static const char *const ways[] = {"line", "malloc", "small", "rehearsal"};
enum { WAYS = sizeof ways / sizeof *ways };

static void fail(const char *what, int error) {
  fprintf(stderr, "wake: %s: %s\n", what, strerror(error));
  exit(EXIT_FAILURE);
}

// ---- one process ----

static atomic_bool enough;

// Blocks of 16 to 315 bytes are freed and replaced in turn.
static void *work(void *argument) {
  static char *blocks[WORKERS][BLOCKS];
  const size_t worker = (size_t)argument;
  uint32_t seed = (uint32_t)worker;
  while (!atomic_load_explicit(&enough, memory_order_relaxed)) {
    for (size_t i = 0; i < BLOCKS; i++) {
      seed = seed * 1103515245 + 12345;
      free(blocks[worker][i]);
      blocks[worker][i] = malloc(SIZE_LEAST + seed / 65536 % SIZE_SPREAD);
      memset(blocks[worker][i], 1, SIZE_LEAST);
    }
  }
  for (size_t i = 0; i < BLOCKS; i++) free(blocks[worker][i]);
  return NULL;
}

static uint64_t cycles_of_way(const char *way) {
  int (*rehearse)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "rtm_rehearse");
  const uint64_t overhead = reading_overhead();
  volatile char *own = mmap(NULL, OWN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (own == MAP_FAILED) fail("no memory", errno);
  free(malloc(REQUEST));
  pthread_t workers[WORKERS];
  for (size_t i = 0; i < WORKERS; i++) {
    const int error = pthread_create(&workers[i], NULL, work, (void *)i);
    if (error != 0) fail("no thread", error);
  }
  usleep(SLEEP_US);
  void *block = NULL;
  if (strcmp(way, "small") == 0) free(malloc(64));
  if (strcmp(way, "rehearsal") == 0 && (rehearse == NULL || rehearse() != 0)) fail("no rehearsal", EINVAL);
  const uint64_t before = ticks_before();
  if (strcmp(way, "line") == 0)
    (void)own[OWN_BYTES / 2];
  else
    block = malloc(REQUEST);
  const uint64_t passed = ticks_after() - before;
  atomic_store(&enough, true);
  for (size_t i = 0; i < WORKERS; i++) pthread_join(workers[i], NULL);
  free(block);
  return passed > overhead ? passed - overhead : 0;
}

// ---- all of them ----

// What a fresh process prints that tries the way.
static uint64_t ask(const char *way) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("no pipe", errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  char *const arguments[] = {"wake", (char *)way, NULL};
  pid_t process;
  const int error = posix_spawn(&process, "/proc/self/exe", &actions, NULL, arguments, environ);
  if (error != 0) fail("no process", error);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  char answer[32] = {0};
  const ssize_t bytes = read(ends[0], answer, sizeof answer - 1);
  close(ends[0]);
  int status;
  waitpid(process, &status, 0);
  if (bytes <= 0 || status != 0) {
    fprintf(stderr, "wake: the process that was to try '%s' ended without a result (status %d)\n", way, status);
    exit(EXIT_FAILURE);
  }
  return strtoull(answer, NULL, 10);
}

static int by_value(const void *a, const void *b) {
  const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return (left > right) - (left < right);
}

static void try_all(unsigned processes) {
  static uint64_t passed[PROCESSES_MOST];
  int (*rehearse)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "rtm_rehearse");
  const bool rehearses = rehearse != NULL && getenv("RTMALLOC_PROFILE") != NULL && rehearse() == 0;
  printf("%-10s %8s %8s   cycles, %u processes\n", "way", "least", "median", processes);
  for (unsigned way = 0; way < WAYS; way++) {
    if (strcmp(ways[way], "rehearsal") == 0 && !rehearses) continue;
    for (unsigned i = 0; i < processes; i++) passed[i] = ask(ways[way]);
    qsort(passed, processes, sizeof *passed, by_value);
    const uint64_t median = (passed[(processes - 1) / 2] + passed[processes / 2]) / 2;
    printf("%-10s %8llu %8llu\n", ways[way], (unsigned long long)passed[0], (unsigned long long)median);
  }
}

// What was printed is written, or the process has failed.
static int ended(void) {
  if (fflush(stdout) != 0 || ferror(stdout)) fail("cannot write", errno);
  return EXIT_SUCCESS;
}

int main(int count, char **arguments) {
  for (unsigned way = 0; count == 2 && way < WAYS; way++) {
    if (strcmp(arguments[1], ways[way]) != 0) continue;
    printf("%llu\n", (unsigned long long)cycles_of_way(ways[way]));
    return ended();
  }
  char *end = NULL;
  const unsigned long processes = count == 2 ? strtoul(arguments[1], &end, 10) : PROCESSES;
  if (count > 2 || (end != NULL && *end != '\0') || processes < 1 || processes > PROCESSES_MOST) {
    fprintf(stderr, "wake: '%s': give a number of processes, 1 to %d: wake [PROCESSES]\n",
            count > 1 ? arguments[1] : "", PROCESSES_MOST);
    return EXIT_USAGE;
  }
  try_all((unsigned)processes);
  return ended();
}
