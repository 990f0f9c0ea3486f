// Destructors of pthread keys allocate and free in every round that pthreads gives them, the last
// one (PTHREAD_DESTRUCTOR_ITERATIONS) included: by then the allocator's own destructor has run. No heap is lost by that.
#include "check.h"

#include <limits.h>
#include <pthread.h>

enum { KEYS = 8, THREADS = 50, BLOCKS = 50, MORE_THREADS = 300, MORE_MIB = 300 };
static pthread_key_t keys[KEYS];
static void *left_by_thread[THREADS][BLOCKS];  // allocated in the last round, freed by main
static int last_rounds;                        // threads run one after another

struct state {
    int round, key, thread;
    void *blocks[BLOCKS];
};

static size_t size_of(int i) { return (size_t)1 + (size_t)i * (size_t)i * 7; }  // up to 16 KiB

static void allocate_all(void **blocks) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size_of(i));
        CHECK(blocks[i] != NULL);
        mark_fill(blocks[i], size_of(i));
    }
}

static void free_all(void **blocks) {
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(mark_holds(blocks[i], size_of(i)), "block %d was overwritten", i);
        free(blocks[i]);
    }
}

static void destroy(void *value) {
    struct state *state = value;
    free_all(state->blocks);
    if (++state->round < PTHREAD_DESTRUCTOR_ITERATIONS) {
        allocate_all(state->blocks);
        CHECK(pthread_setspecific(keys[state->key], state) == 0);  // asks for another round
        return;
    }
    if (state->key == 0) {
        last_rounds++;
        allocate_all(left_by_thread[state->thread]);
    }
    allocate_all(state->blocks);
    free_all(state->blocks);
    free(state);
}

static void *body(void *argument) {
    for (int key = 0; key < KEYS; key++) {
        struct state *state = calloc(1, sizeof *state);
        CHECK(state != NULL);
        state->key = key;
        state->thread = *(int *)argument;
        allocate_all(state->blocks);
        CHECK(pthread_setspecific(keys[key], state) == 0);
    }
    return NULL;
}

int main(void) {
    for (int key = 0; key < KEYS; key++) CHECK(pthread_key_create(&keys[key], destroy) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, body, &i) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK(last_rounds == THREADS, "%d threads of %d reached the last round", last_rounds, THREADS);
    for (int i = 0; i < THREADS; i++) free_all(left_by_thread[i]);

    // A heap that is lost has a segment of 4 MiB at least: 1,200 MiB. (qemu-user keeps 84 MiB for so many threads.)
    size_t before = status_kib("VmSize:");
    for (int i = 0; i < MORE_THREADS; i++) {
        pthread_t thread;
        int first = 0;
        CHECK(pthread_create(&thread, NULL, body, &first) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        free_all(left_by_thread[0]);
    }
    size_t after = status_kib("VmSize:");
    CHECK(after < before + MORE_MIB * KIB, "%zu KiB, then %zu after %d threads more", before, after, MORE_THREADS);
    return 0;
}
