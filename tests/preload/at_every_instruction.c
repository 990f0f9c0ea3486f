// malloc, free and realloc by single instructions (tracer.h), before each of which something happens to the thread.
//   at_every_instruction            a signal handler allocates from a heap of its own (rtm_heap_new_in)
//   at_every_instruction forbidden  it calls malloc or free: seen, or harmless where nothing has changed yet or all
//                                   is done. Debug variant
//   at_every_instruction killed     the thread ends there, in a free of another thread's block or in malloc
// With RTM_TEST_VERBOSE, how many instructions these were is written to stderr.
#define _GNU_SOURCE
#include "tracer.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

// Of the preloaded library.
#include "../../include/rtmalloc.h"
#pragma weak rtm_check
#pragma weak rtm_collect
#pragma weak rtm_trim
#pragma weak rtm_thread_usage
#pragma weak rtm_heap_new_in
#pragma weak rtm_heap_malloc
#pragma weak rtm_heap_realloc
#pragma weak rtm_heap_free
#pragma weak rtm_heap_check

static bool verbose(void) { return getenv("RTM_TEST_VERBOSE") != NULL; }

// ---- what the traced program holds ----

enum { HELD = 64, SMALL = 100, PAGE_SOON = 30000, MEDIUM = 50 * KIB, HUGE = 3 * MIB };
static struct {
    unsigned char *block;
    size_t size;
} held[HELD];

static void hold(void *block, size_t size) {
    static unsigned next;
    CHECK(block != NULL);
    unsigned i = next++ % HELD;
    CHECK(held[i].block == NULL || mark_holds(held[i].block, held[i].size), "a block was overwritten");
    free(held[i].block);
    held[i].block = block;
    held[i].size = size;
    mark_fill(block, size);
}

static void check_all(void) {
    for (int i = 0; i < HELD; i++)
        CHECK(held[i].block == NULL || mark_holds(held[i].block, held[i].size), "a block was overwritten");
    const char *broken = rtm_check();
    CHECK(broken == NULL, "%s", broken);
}

// ---- the operations ----

enum { ROUNDS = 8 };
static void *block;
static void *gifts[2][ROUNDS];  // another thread's blocks
static unsigned round_number;

static void take(size_t size) {
    block = malloc(size);
    CHECK(block != NULL);
}
static void take_and_free_small(void) {  // so that the next is at hand
    take(SMALL);
    free(block);
}
static void take_small(void) { take(SMALL); }
static void take_page_soon(void) { take(PAGE_SOON); }
static void take_medium(void) { take(MEDIUM); }
static void take_huge(void) { take(HUGE); }
static void take_gift(void) { block = gifts[0][round_number]; }
static void take_medium_gift(void) { block = gifts[1][round_number]; }

static void do_malloc_small(void) { block = malloc(SMALL); }
static void do_malloc_page(void) { block = malloc(PAGE_SOON); }
static void do_malloc_medium(void) { block = malloc(MEDIUM); }
static void do_malloc_huge(void) { block = malloc(HUGE); }
static void do_calloc(void) { block = calloc(10, SMALL / 10); }
static void do_realloc_in_place(void) { block = realloc(block, SMALL - 10); }
static void do_realloc_medium(void) { block = realloc(block, MEDIUM - 9000); }
static void do_realloc_moving(void) { block = realloc(block, 10 * SMALL); }
static void do_free(void) { free(block); }

static void hold_small(void) { hold(block, SMALL); }
static void hold_smaller(void) { hold(block, SMALL - 10); }
static void hold_page_soon(void) { hold(block, PAGE_SOON); }
static void hold_medium(void) { hold(block, MEDIUM); }
static void hold_smaller_medium(void) { hold(block, MEDIUM - 9000); }
static void hold_ten_small(void) { hold(block, 10 * SMALL); }
static void nothing(void) {}

static const struct operation {
    const char *name;
    void (*before)(void), (*run)(void), (*after)(void);
} operations[] = {
    {"malloc, a block at hand", take_and_free_small, do_malloc_small, hold_small},
    {"malloc, no block at hand", nothing, do_malloc_page, hold_page_soon},
    {"malloc, medium", nothing, do_malloc_medium, hold_medium},
    {"malloc, huge", nothing, do_malloc_huge, do_free},
    {"calloc", nothing, do_calloc, hold_small},
    {"realloc in place", take_small, do_realloc_in_place, hold_smaller},
    {"realloc in place, medium", take_medium, do_realloc_medium, hold_smaller_medium},
    {"realloc, moving", take_small, do_realloc_moving, hold_ten_small},
    {"free", take_small, do_free, nothing},
    {"free, few in a page", take_page_soon, do_free, nothing},
    {"free, medium", take_medium, do_free, nothing},
    {"free, huge", take_huge, do_free, nothing},
    {"free, another thread's", take_gift, do_free, nothing},
    {"free, another thread's medium", take_medium_gift, do_free, nothing},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static void run_once(const struct operation *operation, void (*call)(void (*)(void))) {
    operation->before();
    call(operation->run);
    operation->after();
}
static void call_plainly(void (*run)(void)) { run(); }

static void handle(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
}

static void *give(void *filled) {
    for (int i = 0; i < ROUNDS; i++) {
        gifts[0][i] = malloc(SMALL);
        gifts[1][i] = malloc(MEDIUM);
        CHECK(gifts[0][i] != NULL && gifts[1][i] != NULL);
    }
    pthread_barrier_wait(filled);
    for (;;) pause();  // its heap stays its own
    return NULL;
}

static void get_gifts(void) {
    static pthread_barrier_t filled;
    pthread_t thread;
    CHECK(pthread_barrier_init(&filled, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, give, &filled) == 0);
    pthread_barrier_wait(&filled);
}

// ---- a handler that uses a heap of its own ----

static _Alignas(64) char own_memory[256 * KIB];
static struct rtm_heap *own_heap;

static void use_own_heap(int signal) {
    (void)signal;
    enum { OWN = 16, TIMES = 3, MOST = 4000 };
    static void *own[OWN];
    static size_t sizes[OWN];
    static unsigned next;
    static uint64_t seed = 1;
    int saved = errno;
    for (int i = 0; i < TIMES; i++) {
        unsigned at = next++ % OWN;
        CHECK(own[at] == NULL || mark_holds(own[at], sizes[at]), "a block of the handler's was overwritten");
        rtm_heap_free(own_heap, own[at]);
        own[at] = rtm_heap_malloc(own_heap, random_log_between(&seed, 1, MOST));
        sizes[at] = random_log_between(&seed, 1, MOST);
        own[at] = rtm_heap_realloc(own_heap, own[at], sizes[at]);
        CHECK(own[at] != NULL);
        mark_fill(own[at], sizes[at]);
    }
    errno = saved;
}

static void interrupted_program(void) {
    own_heap = rtm_heap_new_in(own_memory, sizeof own_memory);
    CHECK(own_heap != NULL);
    use_own_heap(0);  // binds what it calls
    handle(use_own_heap);
    get_gifts();
    for (int i = 0; i < OPERATIONS; i++) {
        if (operations[i].before != take_gift && operations[i].before != take_medium_gift)
            run_once(&operations[i], call_plainly);
        unsigned signals = told->signals;
        told->longest = 0;
        for (round_number = 0; round_number < ROUNDS; round_number++) {
            run_once(&operations[i], marked_call);
            CHECK(told->length >= 5, "%s: %u instructions are no operation", operations[i].name, told->length);
            check_all();
            const char *broken = rtm_heap_check(own_heap);
            CHECK(broken == NULL, "%s", broken);
        }
        if (verbose())
            dprintf(2, "%-30s longest %5u instructions, %6u signals\n", operations[i].name, told->longest,
                    told->signals - signals);
    }
}

// ---- a handler that must not do what it does ----

static const struct operation *forbidden_operation;
static bool handler_frees;
static void *handler_block;

static void allocate_or_free(int signal) {
    (void)signal;
    if (handler_frees)
        free(handler_block);
    else
        handler_block = malloc(SMALL);
}

// Ends well if no harm was done.
static void forbidden_program(void) {
    handle(allocate_or_free);
    for (int i = 0; i < 10; i++) run_once(forbidden_operation, call_plainly);
    handler_block = handler_frees ? malloc(SMALL) : NULL;
    run_once(forbidden_operation, marked_call);
    if (!handler_frees && told->length == 0) hold(handler_block, SMALL);
    for (int i = 0; i < 2 * HELD; i++) hold(malloc(SMALL), SMALL);
    check_all();
}

static size_t read_all(int file, char *text, size_t room) {
    size_t length = 0;
    for (ssize_t got; length < room && (got = read(file, text + length, room - length)) > 0;) length += (size_t)got;
    return length;
}

// True if the library has seen it, and said so in one line.
static bool is_seen(void) {
    int output[2];
    char text[4096] = "";
    CHECK(pipe(output) == 0);
    int status = trace(start(forbidden_program, output[1]), interrupt_once);
    close(output[1]);
    size_t length = read_all(output[0], text, sizeof text - 1);
    close(output[0]);
    if (status == 0) return false;
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%s, instruction %u: status 0x%x, '%s'",
          forbidden_operation->name, told->at, (unsigned)status, text);
    CHECK(length > 0 && memchr(text, '\n', length) == text + length - 1, "not one line but '%s'", text);
    CHECK(strstr(text, "rtmalloc: error: invalid call: ") == text, "'%s'", text);
    CHECK(strstr(text, "signal handler") != NULL, "'%s'", text);
    return true;
}

static void forbidden(void) {
    enum { POINTS = 60 };
    for (int i = 0; i < OPERATIONS; i++) {
        forbidden_operation = &operations[i];
        if (forbidden_operation->before == take_gift || forbidden_operation->before == take_medium_gift) continue;
        told->at = UINT32_MAX;
        CHECK(!is_seen());
        unsigned length = told->length, between = length / POINTS + 1, seen = 0, points = 0;
        for (handler_frees = false;; handler_frees = true) {
            for (unsigned at = 0; at < length; at += between, points++) {
                told->at = at;
                seen += is_seen();
            }
            if (handler_frees) break;
        }
        if (verbose())
            dprintf(2, "%-30s %5u instructions, seen at %u of %u\n", forbidden_operation->name, length, seen, points);
        CHECK(seen >= 10, "%s: seen at %u of %u instructions", forbidden_operation->name, seen, points);
    }
}

// ---- threads that end for ever ----

// At once, without destructors: as if it were stopped there and never went on.
static void end_thread(int signal) {
    (void)signal;
    syscall(SYS_exit, 0);
}

static pthread_barrier_t ready, go;
static atomic_int victim;  // its number in the system

static void be_ready(void) {
    atomic_store(&victim, (int)syscall(SYS_gettid));
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&go);
}

static void *free_and_end(void *to_free) {
    be_ready();
    block = to_free;
    marked_call(do_free);
    return NULL;
}

static pthread_t start_victim(void *(*routine)(void *), void *argument) {
    pthread_t thread;
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 128 * KIB) == 0);
    CHECK(pthread_create(&thread, &attributes, routine, argument) == 0);
    pthread_barrier_wait(&ready);
    return thread;
}

// True if it was killed. It is never joined: its stack, which has the thread's heap in it, is not used again.
static bool wait_for_victim(pthread_t thread) {
    while (syscall(SYS_tgkill, getpid(), atomic_load(&victim), 0) == 0) sched_yield();
    if (told->length == 0) return true;
    CHECK(pthread_join(thread, NULL) == 0);
    return false;
}

enum { BLOCKS = 64 };
static void *passed[BLOCKS];
static pthread_barrier_t helper_go, helper_done;

// What the killed thread was to free is left out.
static void *free_all_but_first(void *unused) {
    for (;;) {
        pthread_barrier_wait(&helper_go);
        for (int i = 1; i < BLOCKS; i++) free(passed[i]);
        pthread_barrier_wait(&helper_done);
    }
    return unused;
}

static size_t blocks_in_use(void) {
    struct rtm_usage usage;
    rtm_thread_usage(&usage);
    return usage.blocks;
}

// How many of the blocks were never seen before.
static unsigned count_new(void) {
    enum { MOST = 1 << 16 };
    static void *seen[MOST];
    static unsigned count;
    unsigned before = count;
    for (int i = 0; i < BLOCKS; i++) {
        unsigned j = 0;
        while (j < before && seen[j] != passed[i]) j++;
        if (j < before) continue;
        CHECK(count < MOST);
        seen[count++] = passed[i];
    }
    return count - before;
}

// One of BLOCKS is freed by a thread that is killed at the instruction told->at, the others by one that lives.
static bool lose_at_most_one(size_t size, unsigned *fresh, unsigned *lost) {
    for (int i = 0; i < BLOCKS; i++) {
        passed[i] = malloc(size);
        CHECK(passed[i] != NULL);
        mark_fill(passed[i], size);
        if (i % 2 == 0) hold(malloc(size), size);
    }
    *fresh += count_new();
    for (int i = 0; i < BLOCKS; i++) CHECK(mark_holds(passed[i], size), "a block was overwritten");
    pthread_t thread = start_victim(free_and_end, passed[0]);
    size_t before = blocks_in_use();
    pthread_barrier_wait(&go);
    bool killed = wait_for_victim(thread);
    pthread_barrier_wait(&helper_go);
    pthread_barrier_wait(&helper_done);
    rtm_collect(false);
    size_t gone = before - blocks_in_use();
    CHECK(gone == BLOCKS || (killed && gone == BLOCKS - 1), "instruction %u: %zu of %d came back", told->at, gone,
          BLOCKS);
    *lost += gone < BLOCKS;
    check_all();
    return killed;
}

static void kill_in_remote_free(size_t size) {
    unsigned fresh = 0, lost = 0, killed = 0;
    for (told->at = 0; lose_at_most_one(size, &fresh, &lost); told->at++) killed++;
    if (verbose())
        dprintf(2, "free of another thread's %zu bytes: %u threads killed, %u blocks lost, %u addresses\n", size, killed,
                lost, fresh);
    CHECK(killed >= 20);
    // What is not lost is used again, else there were BLOCKS more for each that was killed.
    unsigned most = lost + 4 * BLOCKS;
    CHECK(fresh <= most, "%u addresses for %d blocks at a time and %u lost", fresh, BLOCKS, lost);
}

static void *left[2 * BLOCKS];  // by a thread that was killed in malloc

static void *allocate_and_end(void *unused) {
    for (int i = 0; i < 2 * BLOCKS; i++) {
        left[i] = malloc(SMALL);
        CHECK(left[i] != NULL);
        mark_fill(left[i], SMALL);
    }
    free(malloc(SMALL));
    be_ready();
    marked_call(do_malloc_small);
    return unused;
}

static void kill_in_malloc(void) {
    unsigned killed = 0;
    for (told->at = 0;; told->at++) {
        pthread_t thread = start_victim(allocate_and_end, NULL);
        pthread_barrier_wait(&go);
        if (!wait_for_victim(thread)) break;
        killed++;
        for (int i = 0; i < 2 * BLOCKS; i++) CHECK(mark_holds(left[i], SMALL), "a block was overwritten");
        for (int i = 1; i < BLOCKS; i++) passed[i] = left[2 * i];
        pthread_barrier_wait(&helper_go);
        pthread_barrier_wait(&helper_done);
        for (int i = 1; i < BLOCKS; i += 2) CHECK(mark_holds(left[i], SMALL), "a block was overwritten");
        for (int i = 0; i < OPERATIONS; i++)
            if (operations[i].before != take_gift && operations[i].before != take_medium_gift)
                run_once(&operations[i], call_plainly);
        if (killed % 8 == 0) rtm_trim();
        check_all();
    }
    if (verbose()) dprintf(2, "malloc: %u threads killed\n", killed);
    CHECK(killed >= 10);
}

static void killed_program(void) {
    pthread_t helper;
    pthread_barrier_t *barriers[] = {&ready, &go, &helper_go, &helper_done};
    for (int i = 0; i < 4; i++) CHECK(pthread_barrier_init(barriers[i], NULL, 2) == 0);
    CHECK(pthread_create(&helper, NULL, free_all_but_first, NULL) == 0);
    handle(end_thread);
    free(malloc(1));  // binds both
    kill_in_remote_free(10 * SMALL);
    kill_in_remote_free(MEDIUM);
    kill_in_malloc();
    check_all();
}

int main(int argc, char **argv) {
    CHECK(rtm_check != NULL, "this runs on the preloaded library");
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(told != MAP_FAILED);
    cpu_set_t here;  // tracer and traced take turns: on one processor that is faster
    CPU_ZERO(&here);
    CPU_SET((unsigned)sched_getcpu(), &here);
    sched_setaffinity(0, sizeof here, &here);
    if (argc < 2) {
        expect_success(interrupted_program, interrupt_everywhere);
    } else if (strcmp(argv[1], "killed") == 0) {
        expect_success(killed_program, interrupt_once);
    } else {
        CHECK(strcmp(argv[1], "forbidden") == 0, "no case is called %s", argv[1]);
        forbidden();
    }
    return 0;
}
