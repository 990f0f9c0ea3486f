// A timer interrupts malloc and free some thousand times a second; the handlers do not allocate.
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

enum { SIGNALS = 5000, BLOCKS = 500 };
static atomic_int signals;

static void count(int signal) {
    (void)signal;
    atomic_fetch_add(&signals, 1);
}

static void *hammer(void *argument) {
    uint64_t seed = (uintptr_t)argument;
    void *blocks[BLOCKS] = {NULL};
    size_t sizes[BLOCKS] = {0};
    while (atomic_load(&signals) < SIGNALS) {
        size_t i = random_between(&seed, 0, BLOCKS - 1);
        CHECK(blocks[i] == NULL || mark_holds(blocks[i], sizes[i]), "a block was overwritten");
        free(blocks[i]);
        sizes[i] = random_log_between(&seed, 1, 50 * KIB);
        blocks[i] = malloc(sizes[i]);
        CHECK(blocks[i] != NULL);
        mark_fill(blocks[i], sizes[i]);
    }
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval interval = {{0, 100}, {0, 100}};  // microseconds
    CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, hammer, (void *)(uintptr_t)1) == 0);
    hammer((void *)(uintptr_t)2);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
