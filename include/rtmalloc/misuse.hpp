// Reports of wrong use of pools and shared pointers: what was given, what was expected, what to do next.
//
// Lowest layer of the C++ headers. Called by the pools and pointers above it, only once something is wrong: nothing
// here lies on a fast path.
//
// Without a handler a report is one line on stderr, then abort. With one, the operation that is wrong is dropped after
// the handler returns: the pool stays whole, no block is lost and none is in its list twice.
#ifndef RTMALLOC_MISUSE_HPP
#define RTMALLOC_MISUSE_HPP

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace rtm {

enum class Misuse {
  wrong_pool,             // returned to a pool that it is not from, or no block of a pool at all
  double_return,          // returned, but free already
  returned_while_shared,  // returned by hand, but shared pointers own it
  shared_twice,           // a second, independent shared pointer to an object that has one
  wrong_thread,           // acquired from a thread-local pool by a thread that does not own it
  ended_in_use,           // the pool ended while objects were out
  returned_after_end,     // an object came back to a pool that has ended
};

// Valid during the handler's call only.
struct MisuseReport {
  Misuse kind;
  const char *pool;    // the pool's name
  const void *object;  // the object or block; the pool for wrong_thread and ended_in_use
  const char *advice;  // what was expected and what to do next; one sentence
};

// Must not throw: it is called from destructors.
using MisuseHandler = void (*)(const MisuseReport &);

namespace detail {

inline std::atomic<MisuseHandler> misuse_handler{nullptr};

inline const char *misuse_name(Misuse kind) noexcept {
  switch (kind) {
    case Misuse::wrong_pool:
      return "wrong pool";
    case Misuse::double_return:
      return "double return";
    case Misuse::returned_while_shared:
      return "returned while shared";
    case Misuse::shared_twice:
      return "shared twice";
    case Misuse::wrong_thread:
      return "wrong thread";
    case Misuse::ended_in_use:
      return "pool ended in use";
    case Misuse::returned_after_end:
      return "returned after the pool's end";
  }
  return "misuse";
}

// Cold and out of line, so that the checks cost the fast paths one compare and one jump each.
[[gnu::cold, gnu::noinline]] inline void report_misuse(Misuse kind, const char *pool, const void *object,
                                                       const char *advice) noexcept {
  if (const MisuseHandler handler = misuse_handler.load(std::memory_order_acquire)) {
    handler(MisuseReport{kind, pool, object, advice});
    return;
  }
  char line[512];
  const int length = std::snprintf(line, sizeof line, "rtmalloc: error: %s: pool \"%s\": %p: %s\n", misuse_name(kind),
                                   pool, object, advice);
  const auto bytes = static_cast<std::size_t>(length);
  if (write(STDERR_FILENO, line, bytes < sizeof line ? bytes : sizeof line - 1) < 0) std::abort();
  std::abort();
}

}  // namespace detail

// Sets what is called on misuse; nullptr restores the line and abort. Returns what was set before. Any thread. O(1).
inline MisuseHandler set_misuse_handler(MisuseHandler handler) noexcept {
  return detail::misuse_handler.exchange(handler, std::memory_order_acq_rel);
}

}  // namespace rtm

#endif  // RTMALLOC_MISUSE_HPP
