// Bounded destruction of long chains for a reference-counted runtime, by the allocator's heartbeat. Whoever drops the
// last reference to a cell only puts it on a list; a function that rtm_register_deferred_free has registered ends a
// bounded number of cells each time that the allocator looks for memory. So a chain of any length costs each operation
// the same at most, and memory comes back as fast as it is asked for.
#include <cstdio>

#include "rtmalloc.h"

namespace {

struct Cell {
  long count;     // references
  Cell *next;     // one of which this cell holds
  Cell *waiting;  // once there is none: the next that waits
};

struct Runtime {
  Cell *waiting = nullptr;  // cells without a reference
  long ended = 0, most_at_once = 0, beats = 0;

  void release(Cell *cell) {
    if (!cell || --cell->count > 0) return;
    cell->waiting = waiting;
    waiting = cell;
  }

  void end_some(bool force) {
    constexpr long most = 64;
    long ended_now = 0;
    while (waiting && (force || ended_now < most)) {
      Cell *cell = waiting;
      waiting = cell->waiting;
      release(cell->next);
      rtm_free(cell);
      ++ended_now;
    }
    ended += ended_now;
    if (!force && ended_now > most_at_once) most_at_once = ended_now;
    ++beats;
  }
};

Runtime runtime;
long made = 0;

Cell *make(Cell *next) {
  auto *cell = static_cast<Cell *>(rtm_malloc(sizeof(Cell)));
  if (!cell) return nullptr;
  ++made;
  *cell = {1, next, nullptr};
  return cell;
}

}  // namespace

int main() {
  rtm_register_deferred_free(
      [](bool force, unsigned long long, void *argument) { static_cast<Runtime *>(argument)->end_some(force); },
      &runtime);
  constexpr long length = 100000;
  Cell *chain = nullptr;
  for (long i = 0; i < length; ++i)
    if (!(chain = make(chain))) return 1;
  runtime.release(chain);  // O(1): the chain is 100,000 cells long
  const long at_once = runtime.ended;

  // The program goes on with another chain as long: it is made of the first one's memory.
  struct rtm_stats before, after;
  rtm_stats(&before);
  for (long i = 0; i < length; ++i)
    if (!(chain = make(i ? chain : nullptr))) return 1;
  rtm_stats(&after);
  const long meanwhile = runtime.ended;
  runtime.release(chain);
  rtm_collect(true);  // what is left, when there is time
  const long grown = static_cast<long>(after.in_use) - static_cast<long>(before.in_use);
  std::printf(
      "%ld cells ended: %ld when the chain was dropped, %ld while a second one was made, at most %ld in one of %ld "
      "heartbeats; memory in use grew by %ld bytes\n",
      runtime.ended, at_once, meanwhile, runtime.most_at_once, runtime.beats, grown);
  return runtime.ended == made && at_once == 0 && runtime.most_at_once <= 64 && grown < 100000 ? 0 : 1;
}
