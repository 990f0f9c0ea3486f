/* Single-stepping of marked operations under ptrace; see tracer.h.
 *
 * Layer: lab/steps, implements tracer.h. Each thread of the load runs at full speed until it traps at a
 * marked call (marks.h); from there to the return it is stepped, while the others go on. All threads
 * are served by one waiting loop, so a thread that is stepped may wait for a lock that another holds.
 */
#define _GNU_SOURCE
#include "tracer.h"

#include "arch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 1024, DEFAULT_INSTRUCTIONS_LIMIT = 100 * 1000 * 1000 };
/* A thread is held so long at most, and so long without a sign of life of any other: these may wait for it. */
enum { HELD_MOST_NS = 20 * 1000 * 1000, HELD_IDLE_NS = 500 * 1000 };

struct thread {
    pid_t id;
    bool started;   /* its first SIGSTOP, a sign of attachment and not for the load, has been taken */
    bool stepping;  /* inside a marked operation; the fields below hold */
    bool called;    /* the call instruction has been stepped */
    bool left_out;  /* it has come to a function that is left out */
    bool skipping;  /* in a function whose instructions are left out, at full speed */
    uint32_t instructions;
    uint64_t program_counter; /* of the next instruction */
    struct arch_marked_call operation;
    uint64_t held_signals; /* bit n - 1: signal n arrived during the operation, to be delivered after it */
    uint64_t *trace; /* addresses of the counted instructions, if asked for */
    uint64_t *stacks; /* the stack pointer before each, if functions are asked for */
    uint64_t stack_pointer; /* before the next instruction; the same */
    size_t trace_capacity, stacks_capacity;
};

struct tracer {
    const struct tracer_request *request;
    struct counts *counts;
    char *error;
    pid_t load; /* also the id of its main thread */
    bool ended; /* and reaped: its id may be anybody's */
    bool preload_seen; /* the library is mapped in the load, */
    uint64_t library, library_end; /* from here to there */
    uint64_t watched; /* where the function begins that is watched; 0: not yet known, or none */
    uint64_t left_out[LEFT_OUT_MOST + 1]; /* the same of those that are left out; ended by 0 */
    pid_t held; /* the thread that waits beside an atomic instruction for one of the others; 0: none */
    uint64_t held_since; /* ns */
    unsigned chance; /* state of the random numbers for that */
    struct symbols *symbols; /* of the load, once they are wanted */
    struct thread threads[MAX_THREADS];
    size_t thread_count;
    uint32_t instructions_limit;
};

static int fail(struct tracer *tracer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (tracer->error[0] == '\0') /* the first cause is the one to tell */
        vsnprintf(tracer->error, TRACER_ERROR_BYTES, format, arguments);
    va_end(arguments);
    return -1;
}

/* ---- threads ---- */

static struct thread *find_thread(struct tracer *tracer, pid_t id)
{
    for (size_t i = 0; i < tracer->thread_count; i++)
        if (tracer->threads[i].id == id)
            return &tracer->threads[i];
    return NULL;
}

static struct thread *add_thread(struct tracer *tracer, pid_t id)
{
    struct thread *thread = find_thread(tracer, id);
    if (thread != NULL)
        return thread;
    if (tracer->thread_count == MAX_THREADS) {
        fail(tracer, "the load has more than %d threads at once", MAX_THREADS);
        return NULL;
    }
    thread = &tracer->threads[tracer->thread_count++];
    *thread = (struct thread){.id = id};
    return thread;
}

static void remove_thread(struct tracer *tracer, struct thread *thread)
{
    free(thread->trace);
    free(thread->stacks);
    *thread = tracer->threads[--tracer->thread_count];
}

/* A thread that was killed while stopped answers ESRCH; its end is reported by wait soon after. */
static void resume(struct thread *thread, int signal)
{
    bool steps = thread->stepping && !thread->skipping;
    ptrace(steps ? PTRACE_SINGLESTEP : PTRACE_CONT, thread->id, NULL, (void *)(intptr_t)signal);
}

/* ---- interleaving ---- */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The thread stands between the instructions there. */
static void maybe_hold(struct tracer *tracer, const struct thread *thread, uint64_t before, uint64_t behind)
{
    bool inside = tracer->library_end == 0 || (behind >= tracer->library && behind < tracer->library_end);
    if (tracer->request->interleave == 0 || tracer->held != 0 || !inside)
        return;
    if ((arch_is_atomic(thread->id, before) || arch_is_atomic(thread->id, behind)) &&
        rand_r(&tracer->chance) % 2 == 0) {
        tracer->held = thread->id;
        tracer->held_since = now_ns();
    }
}

static void let_go(struct tracer *tracer)
{
    struct thread *held = find_thread(tracer, tracer->held);
    tracer->held = 0;
    if (held != NULL)
        resume(held, 0);
}

/* As waitpid; a thread that is held goes on when its time is up. */
static pid_t wait_for_threads(struct tracer *tracer, int *status)
{
    for (uint64_t begin = now_ns(), now = begin; tracer->held != 0; now = now_ns()) {
        if (now - begin > HELD_IDLE_NS || now - tracer->held_since > HELD_MOST_NS) {
            let_go(tracer);
            break;
        }
        pid_t id = waitpid(-1, status, __WALL | WNOHANG);
        if (id != 0)
            return id;
        sched_yield();
    }
    return waitpid(-1, status, __WALL);
}

/* ---- one operation ---- */

static void describe(const struct thread *thread, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s (%llu bytes) after %u instructions, at address 0x%llx",
             counts_kind_name((enum marked_kind)thread->operation.kind), (unsigned long long)thread->operation.size,
             thread->instructions, (unsigned long long)thread->program_counter);
}

static void read_note(pid_t load, uint64_t address, char *note)
{
    struct iovec here = {note, MARKS_NOTE_BYTES}, there = {(void *)(uintptr_t)address, MARKS_NOTE_BYTES};
    if (process_vm_readv(load, &here, 1, &there, 1, 0) <= 0)
        note[0] = '\0';
    note[MARKS_NOTE_BYTES - 1] = '\0';
}

static char *read_maps(pid_t load)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)load);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    size_t length = 0, capacity = 1 << 16;
    char *text = malloc(capacity);
    ssize_t got;
    while (text != NULL && (got = read(file, text + length, capacity - length - 1)) > 0) {
        length += (size_t)got;
        if (capacity - length < 4096)
            text = realloc(text, capacity *= 2);
    }
    close(file);
    if (text != NULL)
        text[length] = '\0';
    return text;
}

/* values[index] = value; the list grows. Out of memory: the list ends here. */
static void keep(uint64_t **values, size_t *capacity, size_t index, uint64_t value)
{
    if (index >= *capacity) {
        size_t more = *capacity ? 2 * *capacity : 4096;
        uint64_t *grown = realloc(*values, more * sizeof *grown);
        if (grown == NULL)
            return;
        *values = grown;
        *capacity = more;
    }
    (*values)[index] = value;
}

/* The instruction that has been run. */
static void keep_instruction(const struct tracer *tracer, struct thread *thread)
{
    bool functions = tracer->request->functions != NULL;
    if (tracer->request->keep_trace || functions)
        keep(&thread->trace, &thread->trace_capacity, thread->instructions, thread->program_counter);
    if (functions)
        keep(&thread->stacks, &thread->stacks_capacity, thread->instructions, thread->stack_pointer);
}

/* The dynamic linker only warns when it cannot preload a library, and the count would be libc's. */
static int check_preload(struct tracer *tracer)
{
    if (tracer->request->preload == NULL || tracer->preload_seen)
        return 0;
    char *library = realpath(tracer->request->preload, NULL), *maps = read_maps(tracer->load);
    char *line = library != NULL && maps != NULL ? strstr(maps, library) : NULL;
    tracer->preload_seen = line != NULL;
    for (; line != NULL; line = strstr(line + 1, library)) {
        char *start = line;
        while (start > maps && start[-1] != '\n')
            start--;
        uint64_t low = strtoull(start, &start, 16), high = strtoull(start + 1, NULL, 16);
        tracer->library = tracer->library == 0 || low < tracer->library ? low : tracer->library;
        tracer->library_end = high > tracer->library_end ? high : tracer->library_end;
    }
    free(library);
    free(maps);
    return tracer->preload_seen ? 0 : fail(tracer, "the dynamic linker did not preload %s", tracer->request->preload);
}

static struct symbols *symbols_of_load(struct tracer *tracer)
{
    if (tracer->symbols == NULL) {
        char *maps = read_maps(tracer->load);
        tracer->symbols = symbols_open(maps);
        free(maps);
    }
    return tracer->symbols;
}

/* The address of a function that the request names, of the library, or of the load if there is none; NULL: 0. */
static int find_function(struct tracer *tracer, const char *name, uint64_t *address)
{
    if (name == NULL || *address != 0)
        return 0;
    const char *path = tracer->request->preload != NULL ? tracer->request->preload : tracer->request->command[0];
    const char *slash = strrchr(path, '/');
    const char *module = slash != NULL ? slash + 1 : path;
    char *library = realpath(path, NULL); /* the map has what a link leads to */
    slash = library != NULL ? strrchr(library, '/') : NULL;
    *address = symbols_address(symbols_of_load(tracer), slash != NULL ? slash + 1 : module, name);
    free(library);
    return *address != 0 ? 0 : fail(tracer, "%s has no function '%s', or is stripped", module, name);
}

static int find_left_out(struct tracer *tracer)
{
    if (tracer->request->left_out == NULL || tracer->left_out[0] != 0)
        return 0;
    char *names = strdup(tracer->request->left_out), *rest = names;
    int result = names != NULL ? 0 : fail(tracer, "out of memory");
    for (size_t i = 0; result == 0 && rest != NULL; i++) {
        char *name = strsep(&rest, ",");
        result = i < LEFT_OUT_MOST ? find_function(tracer, name, &tracer->left_out[i])
                                   : fail(tracer, "more than %d functions to be left out", LEFT_OUT_MOST);
    }
    free(names);
    return result;
}

static int watch(struct tracer *tracer, const struct thread *thread)
{
    if (tracer->watched == 0 || arch_stop_at(thread->id, ARCH_STOP_FUNCTION, tracer->watched))
        return 0;
    return fail(tracer, "this machine does not let a debugger stop at a function (debug registers)");
}

/* The thread stands before its next instruction. */
static void note_left_out(const struct tracer *tracer, struct thread *thread)
{
    for (const uint64_t *function = tracer->left_out; *function != 0; function++)
        thread->left_out |= thread->program_counter == *function;
}

static void begin_operation(struct tracer *tracer, struct thread *thread, const struct arch_marked_call *operation)
{
    if (tracer->watched != 0)
        arch_stop_at(thread->id, ARCH_STOP_FUNCTION, 0);
    thread->operation = *operation;
    thread->stepping = true;
    thread->called = false;
    thread->left_out = false;
    thread->instructions = 0;
}

/* The thread stands before the first instruction of the watched function. */
static int begin_watched(struct tracer *tracer, struct thread *thread)
{
    struct arch_marked_call call;
    if (!arch_read_call(thread->id, &call))
        return fail(tracer, "cannot read where '%s' returns to", tracer->request->watched);
    begin_operation(tracer, thread, &call);
    thread->called = true;
    thread->program_counter = tracer->watched;
    note_left_out(tracer, thread);
    thread->stack_pointer = arch_stack_pointer(thread->id);
    return 0;
}

static void add_functions(struct tracer *tracer, const struct thread *thread)
{
    functions_add(tracer->request->functions, symbols_of_load(tracer), thread->trace, thread->stacks,
                  thread->instructions);
}

static void end_operation(struct tracer *tracer, struct thread *thread)
{
    const struct arch_marked_call *operation = &thread->operation;
    enum marked_kind kind = (enum marked_kind)operation->kind;
    thread->stepping = false;
    if (tracer->request->functions != NULL)
        add_functions(tracer, thread);
    if (!thread->left_out && counts_add(tracer->counts, kind, thread->instructions, operation->size)) {
        struct worst_operation *worst = &tracer->counts->of[kind].worst;
        read_note(tracer->load, operation->note, worst->note);
        if (tracer->request->keep_trace) {
            worst->trace = thread->trace;
            worst->maps = read_maps(tracer->load);
            thread->trace = NULL;
            thread->trace_capacity = 0;
        }
    }
    for (int signal = 1; signal <= 64; signal++)
        if (thread->held_signals >> (signal - 1) & 1)
            syscall(SYS_tgkill, tracer->load, thread->id, signal);
    thread->held_signals = 0;
    watch(tracer, thread);
    if (tracer->held != 0)
        let_go(tracer);
}

/* Whether what the thread runs at that address counts. */
static bool counts_at(const struct tracer *tracer, uint64_t address)
{
    return !tracer->request->library_only || (address >= tracer->library && address < tracer->library_end);
}

/* The library has called another: zeroing 2 MiB would be as many steps. Where it cannot be skipped it is stepped. */
static void skip_call(const struct tracer *tracer, struct thread *thread)
{
    struct arch_marked_call call;
    if (!arch_read_call(thread->id, &call) || tracer->request->functions != NULL)
        return;
    uint64_t back = call.return_address;
    bool known = back == thread->operation.return_address || counts_at(tracer, back);
    thread->skipping = known && arch_stop_at(thread->id, ARCH_STOP_RETURN, back);
}

/* The thread has run one instruction, or a part of one, of its operation, or has come back from a skipped call. */
static int after_step(struct tracer *tracer, struct thread *thread)
{
    uint64_t now = arch_program_counter(thread->id);
    if (thread->skipping) {
        thread->skipping = false;
        arch_stop_at(thread->id, ARCH_STOP_RETURN, 0);
    }
    if (!thread->called) {
        thread->called = true;
        thread->program_counter = now;
        note_left_out(tracer, thread);
        thread->stack_pointer = arch_stack_pointer(thread->id);
        return 0;
    }
    if (now == thread->program_counter && arch_steps_in_parts(thread->id, now))
        return 0; /* the next iteration of the same instruction */
    uint64_t at = thread->program_counter;
    if (counts_at(tracer, at)) {
        keep_instruction(tracer, thread);
        thread->instructions++;
    }
    if (tracer->request->functions != NULL)
        thread->stack_pointer = arch_stack_pointer(thread->id);
    thread->program_counter = now;
    note_left_out(tracer, thread);
    if (now == thread->operation.return_address && arch_stack_pointer(thread->id) == thread->operation.stack_pointer) {
        end_operation(tracer, thread);
    } else if (thread->instructions >= tracer->instructions_limit) {
        char where[160];
        describe(thread, where, sizeof where);
        return fail(tracer, "did not return: %s; is it waiting for a lock?", where);
    } else if (counts_at(tracer, at) && !counts_at(tracer, now)) {
        skip_call(tracer, thread);
    } else {
        maybe_hold(tracer, thread, at, now);
    }
    return 0;
}

/* ---- what the kernel reports ---- */

static bool is_fault(int signal)
{
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE || signal == SIGABRT ||
           signal == SIGSYS;
}

static int on_stop(struct tracer *tracer, pid_t id, int status)
{
    struct thread *thread = add_thread(tracer, id);
    if (thread == NULL)
        return -1;
    int signal = WSTOPSIG(status), event = status >> 16;
    int deliver = 0, result = 0;

    if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_EXEC) {
        /* The new thread reports itself with a SIGSTOP, perhaps before this. */
    } else if (signal == SIGSTOP && !thread->started) {
        thread->started = true;
        result = watch(tracer, thread);
    } else if (signal == SIGTRAP && thread->stepping) {
        result = after_step(tracer, thread);
    } else if (signal == SIGTRAP && tracer->watched != 0 && arch_program_counter(id) == tracer->watched) {
        result = begin_watched(tracer, thread);
    } else if (signal == SIGTRAP) {
        struct arch_marked_call operation;
        if (arch_read_marked_call(id, &operation)) {
            result = check_preload(tracer);
            if (result == 0)
                result = find_function(tracer, tracer->request->watched, &tracer->watched);
            if (result == 0)
                result = find_left_out(tracer);
            begin_operation(tracer, thread, &operation);
        } else {
            deliver = signal;
        }
    } else if (thread->stepping && is_fault(signal)) {
        char where[160];
        describe(thread, where, sizeof where);
        fail(tracer, "signal %d (%s) in %s", signal, strsignal(signal), where);
        thread->stepping = false;
        deliver = signal;
    } else if (thread->stepping) {
        thread->held_signals |= 1ull << (signal - 1); /* several of one number become one */
    } else {
        deliver = signal;
    }
    if (tracer->held != id)
        resume(thread, deliver);
    return result;
}

/* True when the load as a whole has ended (the main thread is reported last). */
static bool on_end(struct tracer *tracer, pid_t id, int status)
{
    struct thread *thread = find_thread(tracer, id);
    if (thread != NULL && thread->stepping) {
        char where[160];
        describe(thread, where, sizeof where);
        fail(tracer, "a thread ended inside %s", where);
    }
    if (thread != NULL)
        remove_thread(tracer, thread);
    if (id != tracer->load)
        return false;
    tracer->ended = true;
    if (WIFSIGNALED(status))
        fail(tracer, "the load was killed by signal %d (%s), outside a marked operation", WTERMSIG(status),
             strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        fail(tracer, "the load ended with status %d; its own message is above", WEXITSTATUS(status));
    return true;
}

static int serve(struct tracer *tracer)
{
    for (;;) {
        int status;
        pid_t id = wait_for_threads(tracer, &status);
        if (id < 0 && errno == EINTR)
            continue;
        if (id < 0)
            return fail(tracer, "waitpid: %s", strerror(errno));
        if (WIFSTOPPED(status)) {
            if (on_stop(tracer, id, status) != 0)
                return -1;
        } else if (on_end(tracer, id, status)) {
            return tracer->error[0] == '\0' ? 0 : -1;
        }
    }
}

/* ---- start ---- */

static int pin(int processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    return sched_setaffinity(0, sizeof set, &set);
}

/* In the child. Fixed addresses and eager binding, so that the same seed gives the same counts. */
_Noreturn static void become_load(const struct tracer_request *request)
{
    unsetenv("LD_PRELOAD");
    if (request->preload != NULL)
        setenv("LD_PRELOAD", request->preload, 1);
    setenv("LD_BIND_NOW", "1", 1);
    setenv(MARKS_ENVIRONMENT, "1", 1);
    if (personality(ADDR_NO_RANDOMIZE) == -1)
        perror("stepcount: cannot switch address randomization off, counts may vary");
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        perror("stepcount: ptrace is not allowed here");
        _exit(126);
    }
    execv(request->command[0], request->command);
    fprintf(stderr, "stepcount: cannot run %s: %s\n", request->command[0], strerror(errno));
    _exit(127);
}

int tracer_run(const struct tracer_request *request, struct counts *counts, char *error)
{
    static struct tracer tracer; /* too large for the stack; one run at a time */
    memset(&tracer, 0, sizeof tracer);
    tracer.request = request;
    tracer.counts = counts;
    tracer.error = error;
    tracer.chance = (unsigned)request->interleave;
    tracer.instructions_limit = request->instructions_limit ? request->instructions_limit : DEFAULT_INSTRUCTIONS_LIMIT;
    error[0] = '\0';

    if (request->preload != NULL && access(request->preload, R_OK) != 0)
        return fail(&tracer, "cannot read the library to preload, %s: %s", request->preload, strerror(errno));
    if (pin(request->processor) != 0)
        return fail(&tracer, "cannot run on processor %d: %s", request->processor, strerror(errno));

    fflush(NULL);
    tracer.load = fork();
    if (tracer.load < 0)
        return fail(&tracer, "fork: %s", strerror(errno));
    if (tracer.load == 0)
        become_load(request);

    int status;
    if (waitpid(tracer.load, &status, 0) != tracer.load || !WIFSTOPPED(status))
        return fail(&tracer, "%s did not start", request->command[0]);
    add_thread(&tracer, tracer.load)->started = true;
    if (ptrace(PTRACE_SETOPTIONS, tracer.load, NULL, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC) != 0)
        return fail(&tracer, "PTRACE_SETOPTIONS: %s", strerror(errno));
    ptrace(PTRACE_CONT, tracer.load, NULL, NULL);

    int result = serve(&tracer);
    if (result != 0 && !tracer.ended) {
        kill(tracer.load, SIGKILL);
        while (waitpid(-1, &status, __WALL) > 0) {
        }
    }
    while (tracer.thread_count > 0)
        remove_thread(&tracer, &tracer.threads[0]);
    if (tracer.symbols != NULL)
        symbols_close(tracer.symbols);
    return result;
}
