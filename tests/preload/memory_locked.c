// mlockall(MCL_CURRENT | MCL_FUTURE) as an ordinary user with the usual limit of 8 MiB of locked
// memory: it succeeds, 2 MiB of blocks fit, and past the limit malloc returns NULL with ENOMEM.
// Skipped where the system's own malloc cannot do that (the program runs itself on it first).
#define _GNU_SOURCE
#include "check.h"

#include <grp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { LIMIT = 8 * MIB, MUST_FIT = 2 * MIB, BLOCK = 1000, NOBODY = 65534, MOST_BLOCKS = 20000 };
static void *blocks[MOST_BLOCKS];

static void become_ordinary_user(void) {
    struct rlimit limit = {LIMIT, LIMIT};
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "%s", strerror(errno));
    if (geteuid() != 0) return;
    CHECK(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0, "%s", strerror(errno));
}

// Allocates until NULL or `most` blocks; returns how many.
static size_t allocate(size_t most) {
    for (size_t i = 0; i < most; i++) {
        errno = 0;
        blocks[i] = malloc(BLOCK);
        if (blocks[i] == NULL) {
            CHECK(errno == ENOMEM, "errno is %d", errno);
            return i;
        }
        mark_fill(blocks[i], BLOCK);
    }
    return most;
}

static void release(size_t count) {
    for (size_t i = 0; i < count; i++) {
        CHECK(mark_holds(blocks[i], BLOCK), "block %zu was overwritten", i);
        free(blocks[i]);
    }
}

static int locked(void) {
    become_ordinary_user();
    free(malloc(1));  // the allocator is up, as in any real program
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0, "mlockall: %s, with VmSize %zu KiB of %d", strerror(errno),
          status_kib("VmSize:"), LIMIT / KIB);
    size_t count = allocate(MUST_FIT / BLOCK);
    CHECK(count == MUST_FIT / BLOCK, "only %zu KiB fit, with VmSize %zu KiB of %d", count * BLOCK / KIB,
          status_kib("VmSize:"), LIMIT / KIB);
    release(count);
    size_t first = allocate(MOST_BLOCKS);  // beyond the limit: 20 MB in all
    CHECK(first < MOST_BLOCKS, "the limit was never reached");
    release(first);
    size_t again = allocate(MOST_BLOCKS);
    CHECK(again >= first * 9 / 10, "%zu blocks fitted, then only %zu", first, again);
    release(again);
    return 0;
}

static int run_on_system_malloc(char *program) {
    pid_t pid = fork();
    if (pid == 0) {
        unsetenv("LD_PRELOAD");
        close(2);
        execl("/proc/self/exe", program, "locked", (char *)NULL);
        _exit(1);
    }
    int status = 1;
    waitpid(pid, &status, 0);
    return status;
}

int main(int argc, char **argv) {
    if (argc == 1 && run_on_system_malloc(argv[0]) != 0) {
        dprintf(2, "skipped: the system's malloc cannot lock 2 MiB within RLIMIT_MEMLOCK of 8 MiB here\n");
        return SKIPPED;
    }
    return locked();
}
