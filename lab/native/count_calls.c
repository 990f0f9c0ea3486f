// count_calls: runs `replay` and counts the system calls for memory that it makes between its two marks.
//
//     LD_PRELOAD is set for the command by RTLAB_PRELOAD, as in measure.c
//     count_calls RESULT COMMAND [ARGUMENT...]
//
// Writes one JSON object to RESULT: how often each of the calls below was made. A seccomp filter stops the command at
// these calls only, so it runs at nearly full speed otherwise. The mark is personality(0xffffffff), which nobody else
// calls. Exit status: the command's, 2 if it cannot be traced.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
  long number;
  const char *name;
} calls[] = {{SYS_mmap, "mmap"},       {SYS_munmap, "munmap"},     {SYS_mremap, "mremap"}, {SYS_madvise, "madvise"},
             {SYS_mprotect, "mprotect"}, {SYS_brk, "brk"},           {SYS_mlock, "mlock"},   {SYS_munlock, "munlock"}};
enum { CALLS = sizeof calls / sizeof calls[0], MARK = CALLS, EXIT_USAGE = 2 };

static void fail(const char *what) {
  fprintf(stderr, "count_calls: %s: %s\n", what, strerror(errno));
  exit(EXIT_USAGE);
}

// In the child: stops for the tracer at each call of the table and at the mark, with its index as the message.
static void install_filter(void) {
  struct sock_filter program[2 + 2 * (CALLS + 1)];
  unsigned length = 0;
  program[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (unsigned i = 0; i <= CALLS; i++) {
    const long number = i == MARK ? SYS_personality : calls[i].number;
    program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1);
    program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | i);
  }
  program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog filter = {.len = (unsigned short)length, .filter = program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    fail("no seccomp filter");
  }
}

static void become(char **command) {
  const char *preload = getenv("RTLAB_PRELOAD");
  if (preload != NULL && *preload != '\0') { setenv("LD_PRELOAD", preload, 1); }
  unsetenv("RTLAB_PRELOAD");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) { fail("ptrace is not permitted"); }
  raise(SIGSTOP);
  install_filter();
  execv(command[0], command);
  fail(command[0]);
}

int main(int count, char **arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: count_calls RESULT COMMAND [ARGUMENT...]\n");
    return EXIT_USAGE;
  }
  const pid_t child = fork();
  if (child < 0) { fail("cannot fork"); }
  if (child == 0) { become(&arguments[2]); }
  int status;
  if (waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status)) { return EXIT_USAGE; }
  const long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
  if (ptrace(PTRACE_SETOPTIONS, child, NULL, options) != 0) { fail("ptrace is not permitted"); }
  ptrace(PTRACE_CONT, child, NULL, NULL);

  unsigned long counts[CALLS] = {0}, marks = 0;
  pid_t stopped;
  int child_status = EXIT_USAGE << 8;
  while ((stopped = waitpid(-1, &status, __WALL)) > 0) {
    if (!WIFSTOPPED(status)) {
      if (stopped == child) { child_status = status; }
      continue;
    }
    const int event = status >> 16;
    long pass_on = 0;
    if (event == PTRACE_EVENT_SECCOMP) {
      unsigned long which = 0;
      ptrace(PTRACE_GETEVENTMSG, stopped, NULL, &which);
      if (which == MARK) {
        marks++;
      } else if (which < CALLS && marks == 1) {
        counts[which]++;
      }
    } else if (event == 0 && WSTOPSIG(status) != SIGSTOP && WSTOPSIG(status) != SIGTRAP) {
      pass_on = WSTOPSIG(status);             // SIGSTOP: a new thread's first stop; SIGTRAP: exec
    }
    ptrace(PTRACE_CONT, stopped, NULL, pass_on);
  }
  FILE *result = fopen(arguments[1], "we");
  if (result == NULL) { fail(arguments[1]); }
  for (unsigned i = 0; i < CALLS; i++) { fprintf(result, "%s\"%s\": %lu", i == 0 ? "{" : ", ", calls[i].name, counts[i]); }
  fprintf(result, "}\n");
  if (fclose(result) != 0) { return EXIT_USAGE; }
  return WIFEXITED(child_status) ? WEXITSTATUS(child_status) : 128 + WTERMSIG(child_status);
}
