/* Runs a load and counts the instructions of each operation that it marks.
 *
 * Layer: lab/steps, above arch and counts. Called by stepcount.c, bounds.c and steps_test.c.
 * One run at a time in a process.
 */
#ifndef RTSTEPS_TRACER_H
#define RTSTEPS_TRACER_H

#include "counts.h"
#include "functions.h"

#include <stdbool.h>

enum { TRACER_ERROR_BYTES = 512, LEFT_OUT_MOST = 8 };

struct tracer_request {
    const char *preload;         /* library to put before libc; NULL for libc's own malloc */
    char *const *command;        /* path and arguments of the load, ended by NULL */
    int processor;               /* tracer and load both run on this one: a switch costs a quarter */
    bool library_only;           /* leave out what the library calls in others: memset, memcpy */
    const char *watched;         /* a function of the library, also one that it does not export: each call is an operation
                                    of the kind `function`, in the thread of the first marked call and in those that start
                                    after it; not inside of other operations. NULL: none */
    const char *left_out;        /* functions of the library, or of the load without one, with commas between them, at most
                                    LEFT_OUT_MOST: operations that come to one of these are not counted. NULL: none */
    uint64_t interleave;         /* not 0: an operation stops on half of the sides of the library's atomic instructions, by
                                    chance from this seed, until one of another thread has ended, or for some milliseconds */
    bool keep_trace;             /* fill worst.trace and worst.maps */
    struct functions *functions; /* add each operation's functions; NULL: not wanted */
    uint32_t instructions_limit; /* an operation that takes more is an error; 0 for the default */
};

/* Adds the run's counts to *counts; counts_new_run() has been called before. Returns 0, or -1 with a
 * message in error[TRACER_ERROR_BYTES]: the load could not be started, crashed, failed, or got stuck.
 *
 * Counted: every user-space instruction from the first of the called function to its return, a
 * system call as one instruction, a `rep` string instruction as one. Not counted: the call, the kernel,
 * signal handlers (a signal that arrives during an operation is delivered after it), other threads. */
int tracer_run(const struct tracer_request *request, struct counts *counts, char *error);

#endif
