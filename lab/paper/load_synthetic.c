// The load 'synthetic' of RT-Mimalloc (section IV-B): periodic requests of 8 to 20480 bytes, each size equally likely.
// Each period frees the blocks that are due, then makes 5 requests, held for 1 to 16 periods; the paper gives the sizes
// only. Profile: uniform.
#include <string.h>

#include "random.h"
#include "session.h"

enum { REQUESTS = 5, HOLD_MOST = 16, DAYS = 32 };

static void run(struct session *session) {
  if (strcmp(session->profile, "uniform") != 0) session_fail(2, "no profile '%s': uniform", session->profile);
  struct {
    void *block;
    size_t bytes;
  } held[DAYS][REQUESTS * HOLD_MOST];
  size_t due[DAYS] = {0};
  struct random_stream random = {session->options.seed};
  for (uint64_t period = 0; session->mallocs < session->options.mallocs; period++) {
    size_t today = period % DAYS;
    for (size_t i = 0; i < due[today]; i++) session_free(session, held[today][i].block, held[today][i].bytes);
    due[today] = 0;
    for (int i = 0; i < REQUESTS && session->mallocs < session->options.mallocs; i++) {
      size_t bytes = random_uniform(&random, 8, 20480), day = (period + random_uniform(&random, 1, HOLD_MOST)) % DAYS;
      held[day][due[day]].block = session_malloc(session, bytes);
      held[day][due[day]++].bytes = bytes;
    }
  }
}

int main(int count, char **arguments) {
  return session_main(count, arguments, &(struct load){"Profiles: uniform", run});
}
