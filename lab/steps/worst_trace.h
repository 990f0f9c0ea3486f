/* Writes where the instructions of the worst operation of each kind went.
 *
 * Layer: lab/steps, above counts and symbols; called by stepcount.c.
 */
#ifndef RTSTEPS_WORST_TRACE_H
#define RTSTEPS_WORST_TRACE_H

#include "counts.h"

#include <stdio.h>

/* For each kind with a kept trace: the totals by function, then the stretches in the order of execution. */
void worst_trace_print(const struct counts *counts, FILE *out);

#endif
