// posix_spawn and vfork, which share the parent's memory until the exec, leave the allocator of a
// threaded parent intact.
#include "check.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>

extern char **environ;
static atomic_bool stop;

static void *hammer(void *argument) {
    uint64_t seed = (uintptr_t)argument;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        size_t size = random_log_between(&seed, 1, 100 * KIB);
        void *block = malloc(size);
        CHECK(block != NULL);
        mark_fill(block, size);
        CHECK(mark_holds(block, size), "a block was overwritten");
        free(block);
    }
    return NULL;
}

static void wait_for(pid_t pid, const char *how) {
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status 0x%x", how, (unsigned)status);
}

int main(int argc, char **argv) {
    if (argc > 1) {  // the child: a program of its own
        void *block = malloc(1000);
        CHECK(block != NULL);
        free(block);
        return 0;
    }
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, hammer, (void *)(uintptr_t)(i + 1)) == 0);
    char *child_argv[] = {argv[0], (char *)"child", NULL};
    for (int i = 0; i < 100; i++) {
        pid_t pid;
        void *held = malloc(5000);
        CHECK(held != NULL);
        mark_fill(held, 5000);
        CHECK(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, child_argv, environ) == 0);
        wait_for(pid, "posix_spawn");
        pid = vfork();
        if (pid == 0) {
            execve("/proc/self/exe", child_argv, environ);
            _exit(1);
        }
        CHECK(pid > 0, "vfork: %s", strerror(errno));
        wait_for(pid, "vfork");
        CHECK(mark_holds(held, 5000), "the parent's block was overwritten");
        free(held);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    return 0;
}
