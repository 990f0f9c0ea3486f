/* The instruction counts of a run, by kind of operation, and their statistics.
 *
 * Layer: lab/steps, above nothing. The tracer adds counts; stepcount, bounds and the tests read them.
 * Not thread-safe; one struct counts belongs to one caller.
 */
#ifndef RTSTEPS_COUNTS_H
#define RTSTEPS_COUNTS_H

#include "marked_kinds.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The operation of a kind that took the most instructions (the first of them if several did). */
struct worst_operation {
    uint32_t instructions;
    uint64_t size;                /* bytes of the block */
    size_t index;                 /* which operation of its kind in that run, from 0 */
    uint64_t seed;                /* of that run */
    char note[MARKS_NOTE_BYTES];  /* what the load was doing */
    uint64_t *trace;              /* addresses of the instructions, in order; NULL unless asked for */
    char *maps;                   /* /proc/PID/maps at that time; NULL unless asked for */
};

/* One kind of operation. instructions[0 .. calls-1] and sizes[0 .. calls-1] in the order of the calls. */
struct operation_counts {
    uint32_t *instructions;
    uint64_t *sizes; /* bytes of each operation's block */
    size_t calls;
    size_t capacity;
    size_t calls_before_run; /* so that worst.index counts from the start of its own run */
    struct worst_operation worst;
};

struct counts {
    struct operation_counts of[MARKED_KINDS];
    uint64_t seed; /* of the run that is being counted; set by the caller */
};

struct summary {
    size_t calls;
    uint32_t min, p50, p99, p99_9, max; /* percentiles by nearest rank */
    double mean, variance;              /* of the population */
};

/* The name of a kind, for people and for JSON: "malloc", "remote free", ... */
const char *counts_kind_name(enum marked_kind kind);

/* Call before each run that adds to the counts. */
void counts_new_run(struct counts *counts, uint64_t seed);

/* Adds one operation. True if it is the worst of its kind so far: then worst's size, index and seed
 * are set, its trace and maps are freed, and the caller fills note, trace and maps. */
int counts_add(struct counts *counts, enum marked_kind kind, uint32_t instructions, uint64_t size);

/* The statistics of one kind; all zero if it had no calls. O(n log n), leaves the order of calls alone. */
struct summary counts_summary(const struct operation_counts *operation);

/* A table for people: operation, calls, min, mean, p50, p99, p99.9, max, variance; and each kind's worst. */
void counts_print_table(const struct counts *counts, FILE *out);

/* The same as a JSON array of objects, one a kind that had calls. */
void counts_print_json(const struct counts *counts, FILE *out);

/* A JSON string with its quotes. */
void counts_print_json_string(const char *text, FILE *out);

void counts_free(struct counts *counts);

#endif
