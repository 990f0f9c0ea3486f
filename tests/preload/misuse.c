// Misuse that can be seen for free ends the program: one line on stderr with the pointer in hex,
// then SIGABRT. Each case runs in a child; the parent looks at how it ended and what it wrote.
//   misuse CASE   (without CASE: lists them)
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void **culprit;  // shared with the parent: the pointer that the line must name

static void misuse_free(void *pointer) {
    *culprit = pointer;
    void *volatile hidden = pointer;  // the compiler would warn
    free(hidden);
}

static void *allocated(size_t size) {
    void *block = malloc(size);
    CHECK(block != NULL);
    touch_pages(block, size);
    return block;
}

static void double_free(size_t size) {
    void *block = allocated(size);
    *culprit = block;
    free(block);
    misuse_free(block);
}

static void small_block_twice(void) { double_free(48); }
static void medium_block_twice(void) { double_free(100 * KIB); }
static void big_block_twice(void) { double_free(MIB); }
static void huge_block_twice(void) { double_free(16 * (size_t)MIB); }

static void stack_pointer(void) {
    _Alignas(16) char on_stack[64];
    misuse_free(on_stack);
}

static void static_pointer(void) {
    static _Alignas(16) char in_data[64] = {1};
    misuse_free(in_data);
}

static void mapped_pointer(void) {  // an anonymous mapping that malloc did not make
    void *mapping = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapping != MAP_FAILED);
    misuse_free((char *)mapping + 4096);
}

static void low_pointer(void) { misuse_free((void *)(uintptr_t)0x1000); }

static void unmapped_pointer(void) {  // looks like an address of the heap, but nothing is there
    char *block = allocated(100);
    misuse_free((void *)(((uintptr_t)block ^ (UINT64_C(1) << 43)) & ~UINT64_C(15)));
}

static void non_canonical_pointer(void) { misuse_free((void *)UINT64_C(0x4141414141414140)); }

static void unaligned_small_pointer(void) { misuse_free((char *)allocated(100) + 1); }
static void unaligned_medium_pointer(void) { misuse_free((char *)allocated(100 * KIB) + 5001); }
static void unaligned_huge_pointer(void) { misuse_free((char *)allocated(16 * (size_t)MIB) + 5000001); }

static void *block_of_owner;
static pthread_barrier_t allocated_by_owner;

static void *owner(void *unused) {
    block_of_owner = allocated(48);
    pthread_barrier_wait(&allocated_by_owner);
    for (;;) pause();  // lives on, and never collects
    return unused;
}

static void remote_block_twice(void) {
    pthread_t thread;
    CHECK(pthread_barrier_init(&allocated_by_owner, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, owner, NULL) == 0);
    pthread_barrier_wait(&allocated_by_owner);
    *culprit = block_of_owner;
    free(block_of_owner);
    misuse_free(block_of_owner);
}

static void *two_blocks(void *blocks) {
    for (int i = 0; i < 2; i++) ((void **)blocks)[i] = allocated(100);
    return NULL;
}

// The owner has exited; its other block keeps the page.
static void orphan_block_twice(void) {
    pthread_t thread;
    void *blocks[2];
    CHECK(pthread_create(&thread, NULL, two_blocks, blocks) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    *culprit = blocks[0];
    free(blocks[0]);
    misuse_free(blocks[0]);
}

static void realloc_of_stack_pointer(void) {
    _Alignas(16) char on_stack[64];
    *culprit = on_stack;
    void *volatile hidden = on_stack;
    void *volatile result = realloc(hidden, 100);
    (void)result;
}

static const struct misuse {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"small_block_twice", small_block_twice},
    {"medium_block_twice", medium_block_twice},
    {"big_block_twice", big_block_twice},
    {"huge_block_twice", huge_block_twice},
    {"remote_block_twice", remote_block_twice},
    {"orphan_block_twice", orphan_block_twice},
    {"stack_pointer", stack_pointer},
    {"static_pointer", static_pointer},
    {"mapped_pointer", mapped_pointer},
    {"low_pointer", low_pointer},
    {"unmapped_pointer", unmapped_pointer},
    {"non_canonical_pointer", non_canonical_pointer},
    {"unaligned_small_pointer", unaligned_small_pointer},
    {"unaligned_medium_pointer", unaligned_medium_pointer},
    {"unaligned_huge_pointer", unaligned_huge_pointer},
    {"realloc_of_stack_pointer", realloc_of_stack_pointer},
};
enum { CASES = sizeof cases / sizeof *cases };

static void run_child(const struct misuse *misuse, int error_output) {
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(error_output, 2);
    alarm(10);
    misuse->run();
    _exit(0);
}

static size_t read_all(int file, char *text, size_t room) {
    size_t length = 0;
    for (ssize_t got; length < room && (got = read(file, text + length, room - length)) > 0;) length += (size_t)got;
    return length;
}

static void expect_abort(const struct misuse *misuse) {
    int output[2], status;
    char text[4096] = "", pointer[32];
    CHECK(pipe(output) == 0);
    pid_t pid = fork();
    if (pid == 0) run_child(misuse, output[1]);
    CHECK(pid > 0);
    close(output[1]);
    size_t length = read_all(output[0], text, sizeof text - 1);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%s: status 0x%x, not SIGABRT; it wrote '%s'",
          misuse->name, (unsigned)status, text);
    char *emulator = strstr(text, "qemu: uncaught");  // qemu-user's own word on the abort
    if (emulator != NULL) {
        *emulator = '\0';
        length = (size_t)(emulator - text);
    }
    CHECK(length > 0 && memchr(text, '\n', length) == text + length - 1, "%s: not one line but '%s'", misuse->name, text);
    snprintf(pointer, sizeof pointer, "%p", *culprit);
    CHECK(strstr(text, pointer) != NULL, "%s: no %s in '%s'", misuse->name, pointer, text);
}

int main(int argc, char **argv) {
    culprit = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(culprit != MAP_FAILED);
    for (int i = 0; i < CASES; i++)
        if (argc < 2) puts(cases[i].name);
        else if (strcmp(argv[1], cases[i].name) == 0) {
            expect_abort(&cases[i]);
            return 0;
        }
    CHECK(argc < 2, "no case is called %s", argv[1]);
    return 0;
}
