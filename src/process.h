// What belongs to the process: options from the environment, start, threads, fork, exit. Layer: above arena and
// message; used by heap, mode and alloc.
#ifndef RTM_PROCESS_H
#define RTM_PROCESS_H

#include "bits.h"

// Reads the options and makes the arena. Idempotent and thread-safe; also before any constructor has run. False: the
// system gives no memory.
bool process_init(void);
struct heap;
// The calling thread has this heap now: heap_leave at its exit.
void process_watch_thread(struct heap *heap);
// So many thread keys are older than the allocator's own that glibc allocates for it when a thread starts.
bool process_key_is_late(void);

#endif
