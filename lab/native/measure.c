// measure: runs one command and reports the time and the memory it used. Called by rtlab/measuring.py.
//
//     RTLAB_PRELOAD=lib.so measure RESULT SECONDS COMMAND [ARGUMENT...]
//
// Writes one JSON object to RESULT: wall, user and system time (ns), peak resident memory (KiB), and how it ended.
// SECONDS is the time limit. SIGTERM is passed on to the command (a server is stopped that way);
// SIGINT and the time limit kill the command with everything it started.
//
// Why not from Python: Linux carries the peak memory of the process that called exec into the new program's figure
// (setmax_mm_hiwater_rss in exec_mmap), so a child of Python with pandas loaded never shows less than Python's own
// 100 MiB. This program is small, so what it adds is below 1 MiB.

#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, EXIT_CANNOT_START = 127 };

static volatile pid_t command_pid;            // written before the handlers are installed
static volatile sig_atomic_t timed_out;

static void pass_on(int signal) { kill(command_pid, signal); }

static void kill_all(int signal) {
  if (signal == SIGALRM) { timed_out = 1; }
  kill(-command_pid, SIGKILL);                // the command leads a process group of its own
}

static void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(signal, &action, NULL);
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t to_ns(struct timeval time) { return ((int64_t)time.tv_sec * 1000000 + time.tv_usec) * 1000; }

// The host of a virtual machine takes free memory back after a while, huge pages first; the next touch then costs up to
// 2.5 ms a MiB, some 50 times as much. So that no run pays for the pause before it, as much memory as most programs need
// is touched, and given back, just before: by a child, whose peak is nobody's.
static void warm_memory(void) {
  enum { WARM_MIB = 512, PART_OF_FREE = 4 };
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), most = (size_t)sysconf(_SC_AVPHYS_PAGES) / PART_OF_FREE * page;
  const size_t size = most < ((size_t)WARM_MIB << 20) ? most : (size_t)WARM_MIB << 20;
  const pid_t child = fork();
  if (child == 0) {
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) { _exit(0); }
    madvise(memory, size, MADV_HUGEPAGE);
    for (size_t at = 0; at < size; at += page) { ((volatile char *)memory)[at] = 1; }
    _exit(0);
  }
  if (child > 0) { waitpid(child, NULL, 0); }
}

// In the child: becomes the command. Returns only by ending the process.
static void become(char **command, const sigset_t *mask) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);           // no stray program if measure itself is killed
  sigprocmask(SIG_SETMASK, mask, NULL);
  const char *preload = getenv("RTLAB_PRELOAD");
  if (preload != NULL && *preload != '\0') { setenv("LD_PRELOAD", preload, 1); }
  unsetenv("RTLAB_PRELOAD");
  execvp(command[0], command);
  fprintf(stderr, "measure: cannot start '%s': %s\n", command[0], strerror(errno));
  _exit(EXIT_CANNOT_START);
}

int main(int count, char **arguments) {
  char *rest = NULL;
  const long seconds = count >= 4 ? strtol(arguments[2], &rest, 10) : 0;
  if (count < 4 || seconds < 1 || *rest != '\0') {
    fprintf(stderr, "usage: measure RESULT SECONDS COMMAND [ARGUMENT...]; SECONDS is a whole number from 1\n");
    return EXIT_USAGE;
  }
  FILE *result = fopen(arguments[1], "we");
  if (result == NULL) {
    fprintf(stderr, "measure: cannot write '%s': %s\n", arguments[1], strerror(errno));
    return EXIT_USAGE;
  }

  sigset_t handled, before;                   // held back until command_pid is known
  sigemptyset(&handled);
  sigaddset(&handled, SIGTERM);
  sigaddset(&handled, SIGINT);
  sigaddset(&handled, SIGALRM);
  sigprocmask(SIG_BLOCK, &handled, &before);

  warm_memory();
  const int64_t start = now_ns();
  command_pid = fork();
  if (command_pid < 0) {
    fprintf(stderr, "measure: cannot fork: %s\n", strerror(errno));
    return EXIT_USAGE;
  }
  if (command_pid == 0) { become(&arguments[3], &before); }
  setpgid(command_pid, command_pid);          // in both processes, whichever comes first
  handle(SIGTERM, pass_on);
  handle(SIGINT, kill_all);
  handle(SIGALRM, kill_all);
  sigprocmask(SIG_SETMASK, &before, NULL);
  alarm((unsigned)seconds);

  int status = 0;
  struct rusage usage;
  while (wait4(command_pid, &status, 0, &usage) < 0 && errno == EINTR) {}
  const int64_t wall = now_ns() - start;
  alarm(0);
  kill(-command_pid, SIGKILL);                // what the command left behind must not disturb the next run

  fprintf(result,
          "{\"wall_ns\": %lld, \"user_ns\": %lld, \"system_ns\": %lld, \"peak_kib\": %ld, "
          "\"exit\": %d, \"signal\": %d, \"timed_out\": %s}\n",
          (long long)wall, (long long)to_ns(usage.ru_utime), (long long)to_ns(usage.ru_stime), usage.ru_maxrss,
          WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          timed_out ? "true" : "false");
  return fclose(result) == 0 ? 0 : EXIT_USAGE;
}
