// What all loads share: arguments, random numbers, blocks that check themselves, threads, and the result line.
// Used by every file of this folder, from C11 and from C++17; include it first.
//
// A load does a fixed amount of work. Everything that decides what is requested (sizes, order, counts) comes from
// a struct rng with a fixed seed, never from time, from an address or from another thread's progress, so that every
// allocator gets the same requests and the checksum can be compared between allocators.
#ifndef RTMALLOC_LAB_LOAD_H
#define RTMALLOC_LAB_LOAD_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L // pthread barriers
#endif

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Arguments and result -------------------------------------------------------------------------------------

enum { LOAD_MAX_THREADS = 256, LOAD_DEFAULT_THREADS = 4 };

struct load {
    const char *name;
    double scale; // multiplies the work; 1.0 is about 1 to 2 seconds with glibc on 2 cores
    int threads;  // 1 for a load without threads
};

// The message goes to stderr; exit status 1: out of memory, damaged contents, or no thread could be started.
static inline void load_fail(const char *what, unsigned long long given) {
    fprintf(stderr, "load failed: %s (%llu)\n", what, given);
    exit(1);
}

// Exit status 2 tells the runner that it called the load wrongly.
static inline void load_usage(const char *name, int min_threads, const char *argument, const char *expected) {
    const bool threaded = min_threads > 0;
    fprintf(stderr, "%s: bad argument '%s': expected %s\nusage: %s [scale]%s\n", name, argument, expected, name,
            threaded ? " [threads]" : "");
    fprintf(stderr, "  scale    multiplies the amount of work, above 0 and up to 1000 (default 1.0)\n");
    if (threaded)
        fprintf(stderr, "  threads  %d to %d (default %d)\n", min_threads, LOAD_MAX_THREADS, LOAD_DEFAULT_THREADS);
    exit(2);
}

// Reads `NAME [scale] [threads]`. min_threads is 0 for a load without threads: it takes no second argument.
static inline struct load load_begin(int argc, char **argv, const char *name, int min_threads) {
    struct load load = {name, 1.0, min_threads > 0 ? LOAD_DEFAULT_THREADS : 1};
    char *end;
    if (argc > 1) {
        load.scale = strtod(argv[1], &end);
        if (end == argv[1] || *end != '\0' || !(load.scale > 0 && load.scale <= 1000))
            load_usage(name, min_threads, argv[1], "a scale above 0 and up to 1000");
    }
    if (argc > 2 && min_threads > 0) {
        errno = 0;
        const long threads = strtol(argv[2], &end, 10);
        if (end == argv[2] || *end != '\0' || errno != 0 || threads < min_threads || threads > LOAD_MAX_THREADS)
            load_usage(name, min_threads, argv[2], "a number of threads in range");
        load.threads = (int)threads;
    }
    const int most = min_threads > 0 ? 3 : 2;
    if (argc > most) load_usage(name, min_threads, argv[most], "no further argument");
    return load;
}

// A count of work at scale 1.0, scaled; at least 1.
static inline uint64_t load_scaled(const struct load *load, double count) {
    const double scaled = count * load->scale + 0.5;
    return scaled < 1.0 ? 1 : (uint64_t)scaled;
}

// Prints the one line that a runner compares between allocators. Returns main's exit status.
static inline int load_end(const struct load *load, uint64_t checksum) {
    printf("%s: checksum %016" PRIx64 "\n", load->name, checksum);
    return fflush(stdout) == 0 ? 0 : 1;
}

// ---- Random numbers: splitmix64 (Steele, Lea, Flood 2014) -----------------------------------------------------

struct rng {
    uint64_t state;
};

static inline uint64_t load_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

// One independent stream for each thread or task of a load.
static inline struct rng rng_stream(uint64_t number) {
    const struct rng rng = {load_mix(number + UINT64_C(0x72746d616c6c6f63))}; // "rtmalloc"
    return rng;
}

static inline uint64_t rng_next(struct rng *rng) {
    rng->state += UINT64_C(0x9e3779b97f4a7c15);
    return load_mix(rng->state);
}

// Uniform in [0, bound).
static inline uint32_t rng_below(struct rng *rng, uint32_t bound) {
    return (uint32_t)(((rng_next(rng) >> 32) * bound) >> 32);
}

// Uniform in [low, high].
static inline uint32_t rng_between(struct rng *rng, uint32_t low, uint32_t high) {
    return low + rng_below(rng, high - low + 1);
}

// Uniform in [0, 1).
static inline double rng_unit(struct rng *rng) { return (double)(rng_next(rng) >> 11) * 0x1p-53; }

// Every doubling of [1 << low_log2, 1 << high_log2) is equally likely: density falls as 1/size, many small, few large.
static inline uint32_t rng_size_log(struct rng *rng, uint32_t low_log2, uint32_t high_log2) {
    const uint32_t base = UINT32_C(1) << rng_between(rng, low_log2, high_log2 - 1);
    return base + rng_below(rng, base);
}

// ---- Memory ---------------------------------------------------------------------------------------------------

static inline void *load_alloc(size_t size) {
    void *block = malloc(size);
    if (block == NULL) load_fail("out of memory, bytes requested", size);
    return block;
}

static inline void *load_realloc(void *old, size_t size) {
    void *block = realloc(old, size);
    if (block == NULL) load_fail("out of memory in realloc, bytes requested", size);
    return block;
}

// Blocks that check themselves. The first 8 bytes hold a cookie (size below, tag above), the last byte repeats a part
// of it. A block handed out twice, or cut short, breaks one of the two or the sum of all cookies.
enum { BLOCK_MIN_BYTES = 8 };
static const uint32_t BLOCK_MAX_BYTES = UINT32_C(1) << 28;

static inline unsigned char block_tail(uint64_t cookie) { return (unsigned char)(cookie >> 40 ^ cookie); }

// Writes the cookie of a block of size bytes (at least BLOCK_MIN_BYTES).
static inline void block_stamp(void *block, uint32_t size, uint64_t tag) {
    const uint64_t cookie = tag << 32 | size;
    if (size > BLOCK_MIN_BYTES) ((unsigned char *)block)[size - 1] = block_tail(cookie);
    memcpy(block, &cookie, sizeof cookie);
}

// Returns the cookie, or ends the program if the contents are not those that were written.
static inline uint64_t block_check(const void *block) {
    uint64_t cookie;
    memcpy(&cookie, block, sizeof cookie);
    const uint32_t size = (uint32_t)cookie;
    if (size < BLOCK_MIN_BYTES || size > BLOCK_MAX_BYTES) load_fail("damaged block: no size in its cookie", cookie);
    if (size > BLOCK_MIN_BYTES && ((const unsigned char *)block)[size - 1] != block_tail(cookie))
        load_fail("damaged block: its last byte changed, cookie", cookie);
    return cookie;
}

static inline uint32_t block_size(const void *block) { return (uint32_t)block_check(block); }

// A stamped block with a random tag.
static inline void *block_new(uint32_t size, struct rng *rng) {
    void *block = load_alloc(size);
    block_stamp(block, size, rng_next(rng) >> 32);
    return block;
}

// Checks, frees, and returns the cookie, to be summed: a sum does not depend on the order of the frees.
static inline uint64_t block_delete(void *block) {
    const uint64_t cookie = block_check(block);
    free(block);
    return cookie;
}

// ---- Threads --------------------------------------------------------------------------------------------------

typedef void *load_body(void *);

static inline pthread_t load_start(load_body *body, void *job) {
    pthread_t thread;
    const int error = pthread_create(&thread, NULL, body, job);
    if (error != 0) load_fail("no thread could be started, errno", (unsigned long long)error);
    return thread;
}

static inline void load_join(pthread_t thread) {
    const int error = pthread_join(thread, NULL);
    if (error != 0) load_fail("a thread could not be joined, errno", (unsigned long long)error);
}

// Runs body once for each of `threads` jobs (job_bytes apart), each in a thread of its own, and waits for all.
static inline void load_run(int threads, load_body *body, void *jobs, size_t job_bytes) {
    pthread_t running[LOAD_MAX_THREADS];
    for (int i = 0; i < threads; i++) running[i] = load_start(body, (char *)jobs + (size_t)i * job_bytes);
    for (int i = 0; i < threads; i++) load_join(running[i]);
}

// The share of item `index` when `total` units of work are dealt to `parts`: differs by at most one.
static inline uint64_t load_share(uint64_t total, int parts, int index) {
    return total / (uint64_t)parts + ((uint64_t)index < total % (uint64_t)parts);
}

#endif
