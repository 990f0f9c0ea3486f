// main forks 200 times while other threads hammer malloc. Each child allocates, reallocates, frees
// blocks that other threads of the parent had allocated, starts threads, and exits normally. A
// lock that another thread held at the fork would hang a child: then the test times out.
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { THREADS = 4, FORKS = 200, SHARED = 128, KEPT = 200 };
static _Atomic(unsigned char *) shared[SHARED];  // blocks of all threads; whoever takes one frees it
static atomic_bool stop;

static void free_shared(unsigned char *block) {
    if (block == NULL) return;
    size_t size;
    memcpy(&size, block, sizeof size);
    CHECK(all_bytes_are(block + sizeof size, (unsigned char)size, size - sizeof size), "a shared block was overwritten");
    free(block);
}

static void put_shared(uint64_t *seed) {
    size_t size = random_log_between(seed, 16, 60 * KIB);
    unsigned char *block = malloc(size);
    CHECK(block != NULL);
    memcpy(block, &size, sizeof size);
    memset(block + sizeof size, (unsigned char)size, size - sizeof size);
    free_shared(atomic_exchange(&shared[random_between(seed, 0, SHARED - 1)], block));
}

static void *hammer(void *argument) {
    uint64_t seed = (uintptr_t)argument;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) put_shared(&seed);
    return NULL;
}

static void *thread_of_child(void *argument) {
    uint64_t seed = (uintptr_t)argument;
    for (int i = 0; i < 100; i++) put_shared(&seed);
    return malloc(1000);  // freed by the child's main thread
}

static void child(uint64_t seed, void **kept) {
    for (int i = 0; i < KEPT; i++) {
        size_t old_size = 1 + (size_t)i * 13;
        CHECK(mark_holds(kept[i], old_size), "the parent's block %d was overwritten", i);
        kept[i] = realloc(kept[i], old_size * 3);
        CHECK(kept[i] != NULL);
        free(kept[i]);
    }
    // The other threads are gone: what they had in hand is lost, what they had stored is ours.
    for (int i = 0; i < SHARED; i++) free_shared(atomic_exchange(&shared[i], NULL));
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, thread_of_child, (void *)(uintptr_t)(seed | (i + 1))) == 0);
    for (int i = 0; i < 2; i++) {
        void *block;
        CHECK(pthread_join(threads[i], &block) == 0);
        CHECK(block != NULL);
        free(block);
    }
    for (int i = 0; i < SHARED; i++) free_shared(atomic_exchange(&shared[i], NULL));
}

int main(void) {
    pthread_t threads[THREADS];
    void *kept[KEPT];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, hammer, (void *)(uintptr_t)(i + 1)) == 0);
    for (int i = 0; i < KEPT; i++) {
        size_t size = 1 + (size_t)i * 13;
        kept[i] = malloc(size);
        CHECK(kept[i] != NULL);
        mark_fill(kept[i], size);
    }
    uint64_t seed = 99;
    for (int i = 0; i < FORKS; i++) {
        for (int n = 0; n < 10; n++) put_shared(&seed);
        pid_t pid = fork();
        CHECK(pid >= 0, "fork: %s", strerror(errno));
        if (pid == 0) {
            alarm(30);  // a child that hangs ends by itself
            child(random_next(&seed) << 8, kept);
            exit(0);  // with exit handlers, as programs do
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %d ended with status 0x%x", i, (unsigned)status);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < SHARED; i++) free_shared(atomic_load(&shared[i]));
    for (int i = 0; i < KEPT; i++) {
        CHECK(mark_holds(kept[i], 1 + (size_t)i * 13), "a child changed the parent's block %d", i);
        free(kept[i]);
    }
    return 0;
}
