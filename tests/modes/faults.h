// Page faults of this process and whose they are, by the kernel's software events (perf_event_open). A fault is the
// allocator's if it happened in its code, or at an address of its library or of a segment that held a block.
#ifndef FAULTS_H
#define FAULTS_H

#include <stdbool.h>
#include <stddef.h>

// Starts to watch; threads that start later are watched too. False: not permitted here.
bool faults_start(void);
// A block's segment is the allocator's.
void faults_block(const void *block);
// From here on faults count, and from there on no more; and how many there were of the allocator until now, of all in `*all`.
void faults_mark(void);
void faults_stop(void);
unsigned faults_of_allocator(unsigned *all);

#endif
