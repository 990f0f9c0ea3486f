// What every program in this folder uses: a check that ends the program with one line on stderr,
// a reproducible source of random numbers, marks that show when a block was overwritten, and
// readings of resident memory. For C and C++. None of it allocates.
//
// Called by: tests/preload/*.c and *.cpp only.
#ifndef RTM_PRELOAD_CHECK_H
#define RTM_PRELOAD_CHECK_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KIB = 1024, MIB = 1024 * 1024, SKIPPED = 77 };  // 77: CTest's SKIP_RETURN_CODE here

// Ends the process at once: _exit, so that it also works in exit handlers and forked children.
#define CHECK(condition, ...)                                              \
    do {                                                                   \
        if (!(condition)) {                                                \
            dprintf(2, "%s:%d: %s: ", __FILE__, __LINE__, #condition);     \
            dprintf(2, "" __VA_ARGS__);                                    \
            dprintf(2, "\n");                                              \
            _exit(1);                                                      \
        }                                                                  \
    } while (0)

// xorshift64* (Vigna 2016): one word of state, never zero.
static inline uint64_t random_next(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

// Uniform in [low, high].
static inline size_t random_between(uint64_t *state, size_t low, size_t high) {
    return low + (size_t)(random_next(state) % (high - low + 1));
}

// Every power of two between low and high is equally likely, and uniform within it.
static inline size_t random_log_between(uint64_t *state, size_t low, size_t high) {
    size_t top = low;
    for (size_t n = random_between(state, 0, 63 - (size_t)__builtin_clzll(high / low)); n > 0; n--) top *= 2;
    return random_between(state, top, 2 * top - 1 < high ? 2 * top - 1 : high);
}

// A byte that depends on the block's address, so that two overlapping blocks disagree.
static inline unsigned char mark_of(const void *block, size_t size) {
    uint64_t mixed = ((uint64_t)(uintptr_t)block ^ size) * UINT64_C(0x9E3779B97F4A7C15);
    return (unsigned char)(mixed >> 56);
}

static inline void mark_fill(void *block, size_t size) { memset(block, mark_of(block, size), size); }

static inline bool all_bytes_are(const void *block, unsigned char byte, size_t size) {
    const unsigned char *bytes = (const unsigned char *)block;
    return size == 0 || (bytes[0] == byte && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static inline bool mark_holds(const void *block, size_t size) {
    return all_bytes_are(block, mark_of(block, size), size);
}

// Makes every page of a block resident (and shows overlaps) at the cost of one store a page.
static inline void touch_pages(void *block, size_t size) {
    volatile unsigned char *bytes = (volatile unsigned char *)block;
    for (size_t i = 0; i < size; i += 4096) bytes[i] = 1;
    if (size > 0) bytes[size - 1] = 1;
}

// A field of /proc/self/status in KiB, such as "VmRSS:" or "VmHWM:".
static inline size_t status_kib(const char *field) {
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0, "cannot open /proc/self/status");
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    CHECK(length > 0, "cannot read /proc/self/status");
    text[length] = 0;
    const char *line = strstr(text, field);
    CHECK(line != NULL, "no %s in /proc/self/status", field);
    size_t kib = 0;
    for (line += strlen(field); *line != 'k'; line++)
        if (*line >= '0' && *line <= '9') kib = kib * 10 + (size_t)(*line - '0');
    return kib;
}

static inline size_t resident_bytes(void) { return status_kib("VmRSS:") * KIB; }
static inline size_t peak_resident_bytes(void) { return status_kib("VmHWM:") * KIB; }

// Sets VmHWM back to VmRSS, so that the peak is of what follows (proc(5), clear_refs).
static inline void reset_peak_resident(void) {
    int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (file < 0) return;  // then the peak includes the start, which is small
    ssize_t written = write(file, "5", 1);
    (void)written;
    close(file);
}

// The bound that all producer/consumer programs are held to.
static inline void check_peak_memory(size_t baseline_bytes, size_t live_peak_bytes) {
    size_t used = peak_resident_bytes() - baseline_bytes;
    size_t bound = live_peak_bytes + live_peak_bytes / 2 + 8 * (size_t)MIB;
    if (getenv("RTM_TEST_VERBOSE") != NULL)
        dprintf(2, "peak live %.1f MiB, peak resident %.1f MiB (%.2f times), bound %.1f MiB\n",
                (double)live_peak_bytes / MIB, (double)used / MIB, (double)used / (double)live_peak_bytes,
                (double)bound / MIB);
    CHECK(used <= bound, "peak resident memory %.1f MiB for %.1f MiB live; the bound is %.1f MiB",
          (double)used / MIB, (double)live_peak_bytes / MIB, (double)bound / MIB);
}

#endif
