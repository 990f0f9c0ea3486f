// Runs the tests of a program, each in a process of its own:  program [NAME ...]
// With --here NAME: that one, in this process (test_needs_option).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

enum { TESTS_MOST = 64 };
static struct {
  const char *name;
  test_function *run;
} tests[TESTS_MOST];
static int count;

void test_register(const char *name, test_function *run) {
  if (count == TESTS_MOST) abort();
  tests[count].name = name;
  tests[count++].run = run;
}

int test_in_child(test_function *run) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    run();
    exit(0);
  }
  int status = -1;
  if (child > 0) waitpid(child, &status, 0);
  return status;
}

static const char *current;
enum { SKIPPED = 77 };

void test_needs_option(const char *name, const char *value) {
  const char *now = getenv(name);
  if (now && strcmp(now, value) == 0) return;
  setenv(name, value, 1);
  execl("/proc/self/exe", "itself", "--here", current, (char *)NULL);
  printf("skipped: the program cannot run itself again with %s=%s\n", name, value);
  exit(SKIPPED);
}

static int run_here(const char *name) {
  for (int i = 0; i < count; i++) {
    if (strcmp(tests[i].name, name)) continue;
    current = name;
    tests[i].run();
    return 0;
  }
  return 1;
}

static bool chosen(const char *name, int names, char **wanted) {
  for (int i = 1; i < names; i++)
    if (strcmp(name, wanted[i]) == 0) return true;
  return names <= 1;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv) {
  int ran = 0, failed = 0;
  char seed[24];
  snprintf(seed, sizeof seed, "%llu", (unsigned long long)test_seed());
  setenv("RTM_TEST_SEED", seed, 1);
  if (argc == 3 && strcmp(argv[1], "--here") == 0) return run_here(argv[2]);
  for (int i = 0; i < count; i++) {
    if (!chosen(tests[i].name, argc, argv)) continue;
    double start = seconds();
    current = tests[i].name;
    int status = test_in_child(tests[i].run);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) continue;
    printf("%s %s (%.2f s)\n", status ? "FAILED" : "ok    ", tests[i].name, seconds() - start);
    if (status && WIFSIGNALED(status))
      printf("  %s; again with RTM_TEST_SEED=%llu %s %s\n", strsignal(WTERMSIG(status)),
             (unsigned long long)test_seed(), argv[0], tests[i].name);
    ran++;
    failed += status != 0;
  }
  printf("%d tests, %d failed\n", ran, failed);
  return failed > 0;
}
