// Counts the instructions of an operation by single-stepping a child process: repeatable to the instruction. x86-64.
//
// Called by instructions_test.cpp.
#ifndef RTMALLOC_TESTS_INSTRUCTION_COUNTER_HPP
#define RTMALLOC_TESTS_INSTRUCTION_COUNTER_HPP

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace counting {

[[gnu::noinline]] inline void begin_mark() { asm volatile("" ::: "memory"); }
[[gnu::noinline]] inline void end_mark() { asm volatile("nop" ::: "memory"); }  // not the same function as begin_mark

// Instructions from the return of begin_mark to the entry of end_mark in a child that runs prepare(), which does not
// count, and operation(). What the operation changes, it changes in the child only.
template <typename Prepare, typename Operation>
long between_marks(Prepare prepare, Operation operation) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    prepare();
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    begin_mark();
    operation();
    end_mark();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  long count = -1;
  while (WIFSTOPPED(status)) {
    user_regs_struct registers;
    ptrace(PTRACE_GETREGS, child, nullptr, &registers);
    const auto at = registers.rip;
    if (at == reinterpret_cast<unsigned long long>(&end_mark)) break;
    if (at == reinterpret_cast<unsigned long long>(&begin_mark))
      count = 0;
    else if (count >= 0)
      ++count;
    if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) break;
    waitpid(child, &status, 0);
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  if (count < 0) throw std::runtime_error("the child never reached the mark");
  return count;
}

// Instructions of operation() alone, after prepare().
template <typename Prepare, typename Operation>
long instructions(Prepare prepare, Operation operation) {
  static const long of_nothing = between_marks([] {}, [] {});
  return between_marks(prepare, operation) - of_nothing;
}
template <typename Operation>
long instructions(Operation operation) {
  return instructions([] {}, operation);
}

}  // namespace counting

#endif  // RTMALLOC_TESTS_INSTRUCTION_COUNTER_HPP
