// The functions of the real-time modes, one scenario for each name: prints what each call returned.
//
//   api NAME PROFILE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rtmalloc.h"

static const char *profile;

static void *seal(void *unused) {
  (void)unused;
  return (void *)(intptr_t)rtm_seal();
}

static void load_late(void) {
  // Blocks from before the load live on, and are freed after it.
  void *blocks[500];
  for (int i = 0; i < 500; i++) blocks[i] = malloc(100 + (size_t)i);
  printf("load %d\n", rtm_load_profile(profile, "pag"));
  for (int i = 0; i < 500; i++) free(blocks[i]);
  free(malloc(100));
  printf("again %d\n", rtm_load_profile(profile, "pag"));
}

static void seal_twice(void) {
  printf("load %d\n", rtm_load_profile(profile, "pag"));
  printf("seal %d\n", rtm_seal());
  printf("seal %d\n", rtm_seal());
  printf("load %d\n", rtm_load_profile(profile, "pag"));
  printf("unseal %d\n", rtm_unseal());
  printf("unseal %d\n", rtm_unseal());
}

static void seal_by_two_threads(void) {
  pthread_t threads[2];
  void *results[2];
  printf("load %d\n", rtm_load_profile(profile, "seg"));
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, seal, NULL);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], &results[i]);
  printf("sum %d\n", (int)((intptr_t)results[0] + (intptr_t)results[1]));
}

static void *rehearse(void *unused) {
  (void)unused;
  free(malloc(3000));
  return (void *)(intptr_t)rtm_rehearse();
}

static void rehearse_threads(void) {
  pthread_t thread;
  void *result;
  free(malloc(100));
  pthread_create(&thread, NULL, rehearse, NULL);
  pthread_join(thread, &result);
  printf("main %d\nthread %d\n", rtm_rehearse(), (int)(intptr_t)result);
}

static void seal_in_general(void) { printf("seal %d\n", rtm_seal()); }

static void bad_mode(void) {
  printf("load %d\n", rtm_load_profile(profile, "general"));
  printf("load %d\n", rtm_load_profile(profile, "fast"));
  printf("load %d\n", rtm_load_profile(NULL, "pag"));
}

static void fork_after_seal(void) {
  printf("load %d\n", rtm_load_profile(profile, "pag"));
  printf("seal %d\n", rtm_seal());
  fflush(stdout);
  char *block = malloc(100);
  strcpy(block, "kept");
  int status;
  if (!fork()) {
    char *other = malloc(100);
    int good = strcmp(block, "kept") == 0 && other && other != block;
    free(block);
    free(other);
    _exit(good ? 0 : 1);
  }
  wait(&status);
  printf("child %d\n", status);
  free(block);
}

// Huge blocks from before the load are freed, and resized, in the sealed process.
static void huge_before_load(void) {
  enum { BYTES = 3000000 };
  char *freed = malloc(BYTES), *resized = malloc(BYTES);
  resized[BYTES - 1] = 'x';
  if (profile[0]) {
    int load = rtm_load_profile(profile, "pag");
    printf("load %d\nseal %d\n", load, rtm_seal());
  }
  struct rtm_stats before, after;
  rtm_stats(&before);
  free(freed);
  resized = realloc(resized, 2 * BYTES);
  rtm_stats(&after);
  int calls = (int)(after.system_calls - before.system_calls);
  printf("%c, calls %d, misses %d\n", resized[BYTES - 1], calls, (int)rtm_misses());
  free(resized);
}

static void *make_block(void *unused) {
  (void)unused;
  return memset(malloc(3000000), 'y', 3000000);
}

static void resize_anothers(void) {
  pthread_t thread;
  void *block;
  pthread_create(&thread, NULL, make_block, NULL);
  pthread_join(thread, &block);
  block = realloc(block, 4500000);
  printf("%c\n", ((char *)block)[2999999]);
  free(block);
}

static pthread_barrier_t all_begun;
static void *begin(void *unused) {
  pthread_barrier_wait(&all_begun);
  return unused;
}

// Threads of which many have been started before the first has run.
static void start_many(void) {
  enum { THREADS = 200 };
  pthread_t threads[THREADS];
  pthread_barrier_init(&all_begun, NULL, THREADS);
  for (unsigned i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, begin, NULL);
  for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void *hold_some(void *count) {
  enum { MOST = 2000 };
  void **blocks = calloc(MOST, sizeof *blocks);
  for (uintptr_t i = 0; i < (uintptr_t)count; i++) blocks[i] = malloc(500);
  pthread_barrier_wait(&all_begun);
  for (uintptr_t i = 0; i < (uintptr_t)count; i++) free(blocks[i]);
  free(blocks);
  return NULL;
}

// Two threads that are alike, of which the first needs more; then what they needed is saved again and again.
static void save_often(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  pthread_t threads[2];
  pthread_barrier_init(&all_begun, NULL, 2);
  for (uintptr_t i = 0; i < 2; i++) pthread_create(&threads[i], NULL, hold_some, (void *)(2000 - i * 1000));
  for (unsigned i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  for (unsigned i = 0; i < 6; i++) printf("save %d\n", rtm_save_profile(profile));
}

// Children that end as the parent does, before it has the threads that it will have.
static void fork_before_threads(void) {
  for (unsigned i = 0; i < 2; i++) {
    if (!fork()) exit(0);
    wait(NULL);
  }
  save_often();
}

static void *save_always(void *unused) {
  for (;;) rtm_save_profile(profile);
  return unused;
}

static void *hold_a_while(void *bytes) {
  void *block = malloc((size_t)bytes);
  usleep(100000);
  free(block);
  return NULL;
}

static void *start_always(void *stop) {
  enum { MOST = 3000 };
  static pthread_t threads[MOST];
  uintptr_t count = 0;
  while (count < MOST && !*(_Atomic bool *)stop &&
         pthread_create(&threads[count], NULL, hold_a_while, (void *)(16 + count)) == 0)
    count++;
  for (uintptr_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
  return NULL;
}

// Another thread starts threads, each of which has a heap of its own, while this one saves.
static void save_beside_starts(void) {
  static _Atomic bool stop;
  unsigned failed = 0;
  pthread_t starter;
  pthread_create(&starter, NULL, start_always, &stop);
  for (unsigned i = 0; i < 300; i++) failed += rtm_save_profile(profile) != 0;
  stop = true;
  pthread_join(starter, NULL);
  printf("save %u\n", failed);
}

// The process ends while other threads save elsewhere.
static void save_at_end(void) {
  pthread_t thread;
  for (unsigned i = 0; i < 3; i++) pthread_create(&thread, NULL, save_always, NULL);
  usleep(20000);
}

// Children that end at one time, each of which needs another size.
static void save_in_children(void) {
  enum { CHILDREN = 12, BLOCKS = 700 };
  int go[2], failed = 0, status;
  if (pipe(go)) abort();
  for (size_t child = 0; child < CHILDREN; child++) {
    if (fork()) continue;
    for (unsigned i = 0; i < BLOCKS; i++) memset(malloc(1000 + 500 * child), 1, 8);
    close(go[1]);
    char end;
    if (read(go[0], &end, 1)) abort();  // the other end is closed
    exit(0);
  }
  close(go[1]);
  while (wait(&status) > 0) failed += status != 0;
  printf("children %d\n", failed);
}

static pthread_barrier_t begun;
static void *fill_often(void *unused) {
  static void *blocks[1000];
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < 1000; i++) memset(blocks[i] = malloc(20000), round, 20000);
    for (int i = 0; i < 1000; i++) free(blocks[i]);
    if (round) continue;
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&begun);
  }
  return unused;
}

// A thread that has begun before keeps its heap: counted, and what it has had stays.
static void load_beside_a_thread(void) {
  pthread_t thread;
  struct rtm_stats before, after;
  pthread_barrier_init(&begun, NULL, 2);
  pthread_create(&thread, NULL, fill_often, NULL);
  pthread_barrier_wait(&begun);
  printf("load %d\n", rtm_load_profile(profile, "seg"));
  printf("seal %d, threads missed %llu\n", rtm_seal(), (unsigned long long)rtm_misses_of(RTM_MISS_THREAD));
  rtm_stats(&before);
  pthread_barrier_wait(&begun);
  pthread_join(thread, NULL);
  rtm_stats(&after);
  printf("given back %d\n", after.purged != before.purged);
}

static void save_without_record(void) { printf("save %d\n", rtm_save_profile("/tmp/never")); }

int main(int count, char **arguments) {
  static const struct {
    const char *name;
    void (*run)(void);
  } scenarios[] = {{"load_late", load_late},
                   {"load_beside_a_thread", load_beside_a_thread},
                   {"seal_twice", seal_twice},
                   {"seal_by_two_threads", seal_by_two_threads},
                   {"rehearse_threads", rehearse_threads},
                   {"seal_in_general", seal_in_general},
                   {"bad_mode", bad_mode},
                   {"huge_before_load", huge_before_load},
                   {"resize_anothers", resize_anothers},
                   {"start_many", start_many},
                   {"fork_after_seal", fork_after_seal},
                   {"save_often", save_often},
                   {"fork_before_threads", fork_before_threads},
                   {"save_in_children", save_in_children},
                   {"save_at_end", save_at_end},
                   {"save_beside_starts", save_beside_starts},
                   {"save_without_record", save_without_record}};
  if (count != 3) return 2;
  profile = arguments[2];
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
    if (strcmp(arguments[1], scenarios[i].name) == 0) {
      scenarios[i].run();
      return 0;
    }
  return 2;
}
