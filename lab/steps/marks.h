/* The protocol between a load and the instruction counter: the load's side.
 *
 * Layer: lab/steps, included once by each load (load_*.c). A load calls marked_malloc() and its
 * relatives instead of malloc(); while counting is on, each such call raises a trap that `stepcount`
 * catches, and stepcount then single-steps the thread from the call to its return. While counting is
 * off (warm-up, filling), the same function is called through the same pointer at full speed.
 *
 * What passes at the trap stays in registers (marked_call_<arch>.S): the arguments, the kind of the
 * operation, the size of the block and a note that says what the load was doing. There is no shared memory.
 */
#ifndef RTSTEPS_MARKS_H
#define RTSTEPS_MARKS_H

#include "marked_kinds.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Raises the trap, then returns function(first, second, rtsteps_third). In marked_call_<arch>.S. */
extern uint64_t rtsteps_third; /* of all threads: for loads with one */
uintptr_t rtsteps_marked_call(uintptr_t first, uintptr_t second, void *function, uint64_t kind, uint64_t size,
                              const char *note);

/* The allocator's entry points, looked up once: no PLT stub and no lazy binding on a counted path. */
static void *marks_malloc, *marks_free, *marks_calloc, *marks_realloc, *marks_aligned_alloc;

static bool marks_traced;   /* run by stepcount: a trap will be caught */
static bool marks_counting; /* set by marks_start() */

/* What the load is doing; stepcount copies it when an operation turns out to be the worst of its kind. */
static char marks_note[MARKS_NOTE_BYTES] = "";

static inline void *marks_look_up(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    if (function == NULL) {
        fprintf(stderr, "load: no function '%s' in this process: %s\n", name, dlerror());
        exit(2);
    }
    return function;
}

/* Call first. Without stepcount the load still runs, at full speed and without counting. */
static inline void marks_open(void)
{
    marks_malloc = marks_look_up("malloc");
    marks_free = marks_look_up("free");
    marks_calloc = marks_look_up("calloc");
    marks_realloc = marks_look_up("realloc");
    marks_aligned_alloc = marks_look_up("aligned_alloc");
    marks_traced = getenv(MARKS_ENVIRONMENT) != NULL;
    if (!marks_traced)
        fprintf(stderr, "load: not run by stepcount, so nothing is counted; use: stepcount -- LOAD ...\n");
}

static inline void marks_start(void) { marks_counting = marks_traced; }
static inline void marks_stop(void) { marks_counting = false; }

/* Calls function(first, second), counted if counting is on. `size` is the block's, for the report. */
static inline uintptr_t marks_call(enum marked_kind kind, void *function, uintptr_t first, uintptr_t second,
                                   size_t size)
{
    if (marks_counting)
        return rtsteps_marked_call(first, second, function, kind, size, marks_note);
    return ((uintptr_t(*)(uintptr_t, uintptr_t, uintptr_t))function)(first, second, rtsteps_third);
}

static inline void *marked_malloc(size_t size)
{
    return (void *)marks_call(MARKED_MALLOC, marks_malloc, size, 0, size);
}

static inline void *marked_calloc(size_t count, size_t size)
{
    return (void *)marks_call(MARKED_CALLOC, marks_calloc, count, size, count * size);
}

static inline void *marked_realloc(void *block, size_t size)
{
    return (void *)marks_call(MARKED_REALLOC, marks_realloc, (uintptr_t)block, size, size);
}

static inline void *marked_aligned_alloc(size_t alignment, size_t size)
{
    enum marked_kind kind = alignment > 4096 ? MARKED_WIDE_ALIGNED_ALLOC : MARKED_ALIGNED_ALLOC;
    return (void *)marks_call(kind, marks_aligned_alloc, alignment, size, size);
}

/* A free by the thread that allocated the block. */
static inline void marked_free(void *block, size_t size)
{
    (void)marks_call(MARKED_FREE, marks_free, (uintptr_t)block, 0, size);
}

/* A free by any other thread. */
static inline void marked_remote_free(void *block, size_t size)
{
    (void)marks_call(MARKED_REMOTE_FREE, marks_free, (uintptr_t)block, 0, size);
}

#endif
