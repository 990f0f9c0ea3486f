// See hooks.h.
#include "hooks.h"

#include <errno.h>
#include <stdatomic.h>

struct hooks rtm_hooks;

static _Thread_local bool inside __attribute__((tls_model("initial-exec")));
static _Atomic uint64_t heartbeats;

void hooks_heartbeat(bool force) {
  rtm_deferred_free_function *function = rtm_hooks.deferred_free;
  if (!function || inside) return;
  inside = true;
  function(force, atomic_fetch_add_explicit(&heartbeats, 1, memory_order_relaxed) + 1,
           rtm_hooks.deferred_free_argument);
  inside = false;
}

void hooks_error(int error) {
  rtm_error_function *function = rtm_hooks.error;
  if (!function || inside) return;
  int saved = errno;
  inside = true;
  function(error, rtm_hooks.error_argument);
  inside = false;
  errno = saved;
}

bool hooks_out_of_memory(size_t size) {
  rtm_out_of_memory_function *function = rtm_hooks.out_of_memory;
  if (!function || inside) return false;
  inside = true;
  bool again = function(size, rtm_hooks.out_of_memory_argument);
  inside = false;
  return again;
}

bool hooks_inside(void) { return inside; }
void hooks_end(void) { inside = true; }

void rtm_register_deferred_free(rtm_deferred_free_function *function, void *argument) {
  rtm_hooks.deferred_free_argument = argument;
  rtm_hooks.deferred_free = function;
}

void rtm_register_error(rtm_error_function *function, void *argument) {
  rtm_hooks.error_argument = argument;
  rtm_hooks.error = function;
}

void rtm_register_out_of_memory(rtm_out_of_memory_function *function, void *argument) {
  rtm_hooks.out_of_memory_argument = argument;
  rtm_hooks.out_of_memory = function;
}
