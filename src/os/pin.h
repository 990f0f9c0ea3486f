// Locking memory, and how much there is. Layer: above bits. Called by mode and arena.
#ifndef RTM_OS_PIN_H
#define RTM_OS_PIN_H

#include "../bits.h"

// Locks the pages of [address, address + bytes), which are there afterwards, as huge ones where such fit, and which the
// kernel does not join or move between processors later; where it may not lock, only brings them in: false.
bool os_pin(const void *address, size_t bytes);
// The library's own text, tables and the calling thread's data of it; false if not permitted.
bool os_pin_library(void);
// The machine's memory, bytes.
size_t os_machine_memory(void);
// Bytes of it that can be had now: what the system says is available, at most what its control group may have.
size_t os_available_memory(void);
// Bytes that this process may lock; SIZE_MAX: any number.
size_t os_pin_limit(void);

#endif
