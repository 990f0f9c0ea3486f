// The load 'worst': each allocator's worst or bad case (2006, Table 2; TLSF 2008, section 6.1), one malloc and one free
// counted. The area holds --blocks smallest blocks: the 2006 figures for first and best fit are 5 and 6 instructions
// for each of 16384 free blocks and some 80 more, so that its area held 32768.
//
//   sequential  first, next and best fit: every second smallest block is free, and the request fits only behind them
//   splits      binary buddy: one free block of the whole area is split down to the smallest, and joined again
//   deferred    DLmalloc 2.7.2: every block is in a fast bin when a large request comes, and all are coalesced
//   two-sides   Half-fit, TLSF and DLmalloc 2.8.3: malloc splits the only, large block; free joins both neighbours
#include <stdlib.h>
#include <string.h>

#include "session.h"

enum { SMALL = 8, PROBE = 3000 };

static void **fill(struct session *session, uint64_t count, size_t bytes) {
  void **blocks = calloc(count, sizeof *blocks);
  if (!blocks) session_fail(3, "the system has no memory for %llu pointers", (unsigned long long)count);
  for (uint64_t i = 0; i < count; i++) blocks[i] = session_malloc(session, bytes);
  return blocks;
}

static void counted(struct session *session, size_t bytes) {
  session_count_all(session, true);
  void *block = session_malloc(session, bytes);
  session_free(session, block, bytes);
  session_count_all(session, false);
}

static void sequential(struct session *session) {
  void **blocks = fill(session, session->options.blocks, SMALL);
  for (uint64_t i = 0; i < session->options.blocks; i += 2) session_free(session, blocks[i], SMALL);
  session_count_all(session, true);
  void *block = session_malloc(session, PROBE);
  session_count_all(session, false);
  session_free(session, block, PROBE);
  // A free that joins two neighbours.
  session_count_all(session, true);
  session_free(session, blocks[1], SMALL);
  session_count_all(session, false);
  free(blocks);
}

static void splits(struct session *session) { counted(session, SMALL); }

static void deferred(struct session *session) {
  void **blocks = fill(session, session->options.blocks, SMALL);
  for (uint64_t i = 0; i < session->options.blocks; i++) session_free(session, blocks[i], SMALL);
  counted(session, PROBE);
  free(blocks);
}

static void two_sides(struct session *session) {
  void *before = session_malloc(session, 100), *middle = session_malloc(session, 300);
  void *behind = session_malloc(session, 1000), *last = session_malloc(session, 100);
  session_free(session, before, 100);
  session_free(session, behind, 1000);
  session_count_all(session, true);
  session_free(session, middle, 300);
  session_count_all(session, false);
  session_free(session, last, 100);
  session_count_all(session, true);
  session_malloc(session, 1000);
  session_count_all(session, false);
}

static const struct {
  const char *profile;
  void (*run)(struct session *session);
} cases[] = {{"sequential", sequential}, {"splits", splits}, {"deferred", deferred}, {"two-sides", two_sides}};

static void run(struct session *session) {
  session_count_all(session, false);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    if (strcmp(cases[i].profile, session->profile) != 0) continue;
    cases[i].run(session);
    return;
  }
  session_fail(2, "no profile '%s': sequential, splits, deferred or two-sides", session->profile);
}

int main(int count, char **arguments) {
  return session_main(count, arguments, &(struct load){"Profiles: sequential, splits, deferred, two-sides", run});
}
