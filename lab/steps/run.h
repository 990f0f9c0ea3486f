/* Runs a load by its name, once or with several seeds.
 *
 * Layer: lab/steps, above tracer; used by stepcount.c, bounds.c and steps_test.c.
 */
#ifndef RTSTEPS_RUN_H
#define RTSTEPS_RUN_H

#include "counts.h"

#include <stdbool.h>
#include <stdint.h>

struct run {
    const char *preload;   /* NULL: libc's malloc */
    char *const *command;  /* the load's name or path, and its options, ended by NULL */
    uint64_t seeds;        /* runs with --seed first_seed, first_seed + 1, ...; 0: one run, no --seed added */
    uint64_t first_seed;
    int processor;
    bool library_only;     /* as in tracer.h */
    const char *watched, *left_out;
    uint64_t interleave;
    bool keep_trace;
    struct functions *functions; /* as in tracer.h */
};

/* Adds the counts of all runs. 0, or -1 with a message in error[TRACER_ERROR_BYTES]. */
int run_load(const struct run *run, struct counts *counts, char *error);

/* The last processor that this process may use: the first ones serve more interrupts. */
int run_default_processor(void);

/* A number from the command line, or the end of the process with a message. */
uint64_t run_number(const char *name, const char *text);

#endif
