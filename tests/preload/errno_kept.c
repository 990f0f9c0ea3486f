// free keeps errno, for blocks of every kind (POSIX 2024, glibc 2.33); successful calls of the
// family that return a block keep it too, as programs expect.
#include "check.h"

#include <pthread.h>

static const size_t sizes[] = {1, 100, 5000, 40000, 300000, 1000000, 3000000, 20000000, 100000000};
enum { SIZES = sizeof sizes / sizeof *sizes };
static void *blocks[SIZES];

static void *free_all(void *unused) {
    for (int i = 0; i < SIZES; i++) {
        errno = 12345;
        free(blocks[i]);
        CHECK(errno == 12345, "free of %zu bytes set errno %d", sizes[i], errno);
    }
    return unused;
}

static void allocate_all(void) {
    for (int i = 0; i < SIZES; i++) {
        blocks[i] = malloc(sizes[i]);
        CHECK(blocks[i] != NULL);
        touch_pages(blocks[i], sizes[i]);
    }
}

int main(void) {
    allocate_all();
    free_all(NULL);
    errno = 12345;
    free(NULL);
    CHECK(errno == 12345);
    allocate_all();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_all, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
