// Functions of the program that the allocator calls. Layer: bottom; above bits. Called by alloc, heap_object, message.
// None is called while another runs in the same thread, so that they may allocate and free.
#ifndef RTM_HOOKS_H
#define RTM_HOOKS_H

#include "bits.h"
#include "rtmalloc.h"

struct hooks {
  rtm_deferred_free_function *deferred_free;
  rtm_error_function *error;
  rtm_out_of_memory_function *out_of_memory;
  void *deferred_free_argument, *error_argument, *out_of_memory_argument;
};
RTM_HIDDEN extern struct hooks rtm_hooks;

void hooks_heartbeat(bool force);
void hooks_error(int error);
// True: try again.
bool hooks_out_of_memory(size_t size);
// Whether one of them is running in this thread, or none will again.
bool hooks_inside(void);
// The process ends: none is called any more by this thread.
void hooks_end(void);

#endif
