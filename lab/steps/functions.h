/* How many instructions each function took, call by call, with all that it calls: as RT-Mimalloc's Tables IV and VI.
 *
 * Layer: lab/steps, above symbols; the tracer adds operations, stepcount prints.
 */
#ifndef RTSTEPS_FUNCTIONS_H
#define RTSTEPS_FUNCTIONS_H

#include "symbols.h"

#include <stddef.h>
#include <stdio.h>

struct functions; /* names, and the counts of their calls */

struct functions *functions_new(void);

/* One operation: the address of each instruction and the stack pointer before it, the first being the first of the function
 * that was marked. A call begins at the first instruction of a function that has a symbol, and ends when the stack is
 * above where it began. So a function that was inlined has no calls. O(count log symbols). */
void functions_add(struct functions *functions, const struct symbols *symbols, const uint64_t *trace,
                   const uint64_t *stacks, size_t count);

/* CSV: function,instructions; one line a call, function by function. */
void functions_print(const struct functions *functions, FILE *out);

#endif
