// A random scheduler for the stress test: of the threads that have entered, one runs at a time, and before each access
// to memory in the core another may be chosen. The core is compiled with -fsanitize=thread, but linked with
// scheduler.c in place of the sanitizer's library: it has the functions that the compiler calls at each access.
// The same seed gives the same interleaving. Every access is in one order: what weaker orders allow is not seen here.
#ifndef PROOFS_SCHEDULER_H
#define PROOFS_SCHEDULER_H

#include <stdint.h>

// A new schedule for `threads` threads. Once all have entered, one of them runs.
void scheduler_begin(uint64_t seed, unsigned threads);
// The calling thread takes part until it has left, after its other destructors. Thread `number` of scheduler_begin.
void scheduler_enter(unsigned number);
// Lets another thread run, if there is one.
void scheduler_yield(void);
// Accesses seen, and changes of thread made, so far.
uint64_t scheduler_accesses(void);
uint64_t scheduler_changes(void);

#endif
