// The load 'taskset': a task set of the papers (taskset.h) on one of their allocators (session.h).
#include "session.h"
#include "taskset.h"

static void *do_malloc(void *session, size_t bytes) { return session_malloc(session, bytes); }
static void do_free(void *session, void *block, size_t bytes) { session_free(session, block, bytes); }

static void run(struct session *session) {
  const struct taskset_profile *profile = taskset_find(session->profile);
  if (!profile) session_fail(2, "no profile '%s'; they are in taskset.c", session->profile);
  const struct session_options *given = &session->options;
  struct taskset set = taskset_make(profile, given->set_seed ? given->set_seed : given->seed);
  struct taskset_options options = {
      .seed = given->seed, .mallocs = given->mallocs, .server = given->server, .hold_in_time = given->in_time != 0};
  taskset_run(&set, &options, &(struct taskset_operations){do_malloc, do_free}, session);
}

int main(int count, char **arguments) {
  return session_main(count, arguments, &(struct load){"Profiles: 2006-test-1 ... 2008-table-3 (taskset.c)", run});
}
