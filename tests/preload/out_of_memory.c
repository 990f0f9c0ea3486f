// Under a limit of address space (argument: MiB) the program allocates until NULL with ENOMEM; all
// contents are intact; after freeing, as much can be allocated again, in other sizes too (all
// rounds together: where a large block does not fit any more is chance in each of them). The
// limit is set before the program starts, so that the allocator never sees more.
#include "check.h"

#include <sys/resource.h>

struct held {  // a list through the blocks themselves: no table that counts against the limit
    struct held *next;
    size_t size;
};

// Allocates blocks between low and high bytes until NULL; returns the sum of their sizes.
static size_t exhaust(struct held **list, size_t low, size_t high, unsigned round) {
    uint64_t seed = low * 77 + high + round;
    size_t bytes = 0;
    *list = NULL;
    for (;;) {
        size_t size = random_log_between(&seed, low, high);
        errno = 0;
        struct held *block = size % 3 == 0 ? calloc(1, size) : malloc(size);
        if (block == NULL) break;
        memset(block + 1, mark_of(block, size), size - sizeof *block);
        block->next = *list;
        block->size = size;
        *list = block;
        bytes += size;
    }
    CHECK(errno == ENOMEM, "errno is %d", errno);
    return bytes;
}

static void release(struct held *list) {
    while (list != NULL) {
        struct held *next = list->next;
        CHECK(all_bytes_are(list + 1, mark_of(list, list->size), list->size - sizeof *list), "a block was overwritten");
        free(list);
        list = next;
    }
}

static void realloc_fails_cleanly(size_t limit) {
    struct held *list;
    unsigned char *block = malloc(100 * KIB);
    CHECK(block != NULL);
    mark_fill(block, 100 * KIB);
    exhaust(&list, 16, 4096, 0);
    errno = 0;
    CHECK(realloc(block, limit / 2) == NULL && errno == ENOMEM, "errno is %d", errno);
    CHECK(mark_holds(block, 100 * KIB), "the block given to realloc was changed");
    free(block);
    release(list);
}

static void fill_and_refill(size_t limit) {
    // The less memory, the more chance has to say.
    unsigned rounds = limit < 512 * MIB ? (unsigned)(512 * MIB / limit) : 1;
    // Blocks larger than a segment of 4 MiB may cost two: a third of the limit must be served.
    static const struct range {
        size_t low, high, least_percent;
    } ranges[] = {{16, 128, 50}, {1000, 30000, 50}, {100 * KIB, 1500 * KIB, 50}, {3 * MIB, 5 * MIB, 33}, {16, 2 * MIB, 50}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        size_t low = ranges[i].low, high = ranges[i].high;
        size_t first = 0, again = 0;
        for (unsigned round = 0; round < rounds; round++) {
            struct held *list;
            size_t bytes = exhaust(&list, low, high, round);
            release(list);
            CHECK(bytes >= limit / 100 * ranges[i].least_percent,
                  "only %zu MiB of blocks of %zu to %zu bytes fit in %zu MiB", bytes / MIB, low, high, limit / MIB);
            first += bytes;
            again += exhaust(&list, low, high, round);
            release(list);
        }
        if (getenv("RTM_TEST_VERBOSE") != NULL)
            dprintf(2, "%zu MiB, %u rounds, blocks of %zu to %zu: %zu KiB, again %zu KiB\n", limit / MIB, rounds, low,
                    high, first / KIB, again / KIB);
        CHECK(again >= first / 10 * 9, "%zu MiB of blocks of %zu to %zu bytes, then only %zu MiB", first / MIB, low,
              high, again / MIB);
    }
}

int main(int argc, char **argv) {
    CHECK(argc >= 2, "usage: out_of_memory MIB");
    size_t limit = (size_t)atoi(argv[1]) * MIB;
    if (argc == 2) {
        struct rlimit address_space = {limit, limit};
        CHECK(setrlimit(RLIMIT_AS, &address_space) == 0, "%s", strerror(errno));
        execl("/proc/self/exe", argv[0], argv[1], "limited", (char *)NULL);
        CHECK(false, "exec: %s", strerror(errno));
    }
    fill_and_refill(limit);
    realloc_fails_cleanly(limit);
    return 0;
}
