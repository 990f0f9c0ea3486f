// A tracer that steps through a marked call by single instructions, and acts on its thread before any of them. x86-64 only.
// Used by at_every_instruction.c.
#pragma once
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

// A call between two marks: a trap that wakes the tracer, and an address that it waits for.
void marked_call(void (*operation)(void));
extern const char marked_end[];
__asm__(".text\n"
        ".globl marked_call, marked_end\n"
        ".type marked_call, @function\n"
        "marked_call:\n"
        "    int3\n"
        "    sub $8, %rsp\n"
        "    call *%rdi\n"
        "marked_end:\n"
        "    add $8, %rsp\n"
        "    ret\n"
        ".size marked_call, . - marked_call\n");

// What the traced program and the tracer tell each other.
static struct {
    unsigned at;       // to the tracer: the instruction before which to act
    unsigned length;   // from the tracer: instructions of the operation if it came to its end, else 0
    unsigned signals;  // from the tracer: all so far
    unsigned longest;  // from the tracer: instructions of one operation
} *told;

static unsigned long read_register(pid_t thread, size_t offset) {
    errno = 0;
    long value = ptrace(PTRACE_PEEKUSER, thread, offset, NULL);
    CHECK(errno == 0);
    return (unsigned long)value;
}

static uintptr_t place_of(pid_t thread) { return read_register(thread, offsetof(struct user_regs_struct, rip)); }

static long system_call_of(pid_t thread) {
    return (long)read_register(thread, offsetof(struct user_regs_struct, orig_rax));
}

static bool is_at_end(pid_t thread) { return place_of(thread) == (uintptr_t)marked_end; }

// Goes on, by one instruction or up to the next trap.
static void go_on(pid_t thread, enum __ptrace_request request, int signal) {
    int status;
    CHECK(ptrace(request, thread, NULL, (void *)(intptr_t)signal) == 0);
    CHECK(waitpid(thread, &status, __WALL) == thread);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP, "status 0x%x", (unsigned)status);
}

static void let_go(pid_t thread, int signal) {
    CHECK(ptrace(PTRACE_CONT, thread, NULL, (void *)(intptr_t)signal) == 0);
}

// Bytes of the instruction there if it is one that copies or fills memory (rep movs, rep stos), else 0.
static size_t repeat_length(pid_t thread, uintptr_t place) {
    errno = 0;
    long word = ptrace(PTRACE_PEEKTEXT, thread, (void *)place, NULL);
    CHECK(errno == 0);
    const unsigned char *code = (const unsigned char *)&word;
    size_t length = 2 + (code[1] >> 4 == 4);  // with a REX prefix
    bool copies = (code[length - 1] & 0xfe) == 0xa4, fills = (code[length - 1] & 0xfe) == 0xaa;
    return code[0] == 0xf3 && (copies || fills) ? length : 0;
}

static void set_debug_register(pid_t thread, unsigned number, uintptr_t value) {
    size_t offset = offsetof(struct user, u_debugreg) + number * sizeof(uintptr_t);
    CHECK(ptrace(PTRACE_POKEUSER, thread, offset, value) == 0);
}

// A `rep` instruction traps once for each byte or word: the rest of it is one step, to a breakpoint behind it.
static void step(pid_t thread) {
    uintptr_t place = place_of(thread);
    go_on(thread, PTRACE_SINGLESTEP, 0);
    size_t length = place_of(thread) == place ? repeat_length(thread, place) : 0;
    if (length == 0) return;
    set_debug_register(thread, 0, place + length);
    set_debug_register(thread, 7, 1);
    go_on(thread, PTRACE_CONT, 0);
    set_debug_register(thread, 7, 0);
    CHECK(place_of(thread) == place + length);
}

// Follows all threads of the child until it ends; returns its status. A thread that meets the first mark is given to
// `act`, which lets it run on.
static int trace(pid_t child, void (*act)(pid_t thread)) {
    let_go(child, 0);
    for (;;) {
        int status;
        pid_t thread = waitpid(-1, &status, __WALL);
        CHECK(thread > 0);
        if (!WIFSTOPPED(status)) {
            if (thread == child) return status;
            continue;
        }
        int signal = WSTOPSIG(status);
        bool is_news = status >> 16 || signal == SIGSTOP;  // a thread was made, or is new
        if (is_news || signal == SIGTRAP) signal = 0;
        if (is_news || signal)
            let_go(thread, signal);
        else
            act(thread);
    }
}

// Runs `program` in a child that waits to be traced.
static pid_t start(void (*program)(void), int error_output) {
    pid_t child = fork();
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        dup2(error_output, 2);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(SKIPPED);
        raise(SIGSTOP);
        program();
        _exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
        dprintf(2, "ptrace is not permitted here\n");
        _exit(SKIPPED);
    }
    CHECK(WIFSTOPPED(status));
    CHECK(ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL)) == 0);
    return child;
}

static void expect_success(void (*program)(void), void (*act)(pid_t)) {
    int status = trace(start(program, 2), act);
    CHECK(status == 0, "the traced program ended with status 0x%x", (unsigned)status);
}

// The signal comes before the next instruction. The handler makes no system call but the one at its end, by which it
// goes back.
static void interrupt(pid_t thread) {
    uintptr_t place = place_of(thread);
    go_on(thread, PTRACE_SYSCALL, SIGUSR1);
    while (system_call_of(thread) != SYS_rt_sigreturn) go_on(thread, PTRACE_SYSCALL, 0);  // it reports a failure
    step(thread);
    CHECK(place_of(thread) == place);
    told->signals++;
}

// Before each instruction; of very long operations, which copy or clear memory, fewer and fewer.
static void interrupt_everywhere(pid_t thread) {
    unsigned steps = 0;
    for (; !is_at_end(thread); steps++) {
        if (steps % (1 + steps / 2048) == 0) interrupt(thread);
        step(thread);
    }
    told->length = steps;
    if (steps > told->longest) told->longest = steps;
    let_go(thread, 0);
}

// Once, and the handler goes its own ways.
static void interrupt_once(pid_t thread) {
    unsigned steps = 0;
    for (; !is_at_end(thread); steps++) {
        if (steps == told->at) {
            told->length = 0;
            let_go(thread, SIGUSR1);
            return;
        }
        step(thread);
    }
    told->length = steps;
    let_go(thread, 0);
}
