// See limit.h.
#include "limit.h"

#include "os/os.h"

const char *limits_check(const struct rtm_limits *most) {
  if (!most) return "expected limits, not NULL; a structure of zeros takes them away";
  if (most->burst && !most->rate) return "a burst without a rate; set rate, in bytes a second";
  return NULL;
}

static size_t burst_of(const struct rtm_limits *most) { return most->burst ? most->burst : most->rate; }

void limits_set(struct limits *limits, const struct rtm_limits *most, size_t held) {
  limits->most = *most;
  atomic_store_explicit(&limits->held, held, memory_order_relaxed);
  if (held > limits->held_peak) limits->held_peak = held;
  limits->allowance = burst_of(most);
  limits->refilled_us = os_clock_us();
}

// A bucket that fills with `rate` bytes a second up to the burst. The time in which no whole byte came stays to count.
static bool within_rate(struct limits *limits, size_t bytes) {
  size_t burst = burst_of(&limits->most);
  uint64_t now = os_clock_us();
  unsigned __int128 gained = (unsigned __int128)(now - limits->refilled_us) * limits->most.rate / 1000000;
  if (gained) {
    limits->allowance = gained < burst - limits->allowance ? limits->allowance + (size_t)gained : burst;
    limits->refilled_us = now;
  }
  if (bytes > limits->allowance) return false;
  limits->allowance -= bytes;
  return true;
}

static bool above(size_t have, size_t more, size_t most) { return most && (have > most || more > most - have); }

bool limits_take(struct limits *limits, size_t bytes) {
  size_t held = atomic_load_explicit(&limits->held, memory_order_relaxed);
  // The rate last: what another limit refuses uses up no allowance.
  if (above(held, bytes, limits->most.most_held) || above(limits->ever, bytes, limits->most.most_ever) ||
      (limits->most.rate && !within_rate(limits, bytes))) {
    limits->refused++;
    return false;
  }
  held = atomic_fetch_add_explicit(&limits->held, bytes, memory_order_relaxed) + bytes;
  if (held > limits->held_peak) limits->held_peak = held;
  limits->ever += bytes;
  return true;
}

void limits_undo(struct limits *limits, size_t bytes) {
  limits_give(limits, bytes);
  limits->ever -= bytes;
}

void limits_usage(struct limits *limits, struct rtm_usage *usage) {
  usage->held = atomic_load_explicit(&limits->held, memory_order_relaxed);
  usage->held_peak = limits->held_peak;
  usage->ever = limits->ever;
  usage->refused = limits->refused;
}
