// The load 'taskset': a task set of the papers (taskset.h) on one of their allocators (session.h).
#include "session.h"
#include "taskset.h"

static void *do_malloc(void *session, size_t bytes) { return session_malloc(session, bytes); }
static void do_free(void *session, void *block, size_t bytes) { session_free(session, block, bytes); }

static void run(struct session *session) {
  const struct taskset_profile *profile = taskset_find(session->profile);
  if (!profile)
    session_fail(2, "no profile '%s'; they are in taskset.c, and sizes-I-J with 3 <= I < J <= 24", session->profile);
  const struct session_options *given = &session->options;
  struct taskset set = taskset_make(profile, given->set_seed ? given->set_seed : given->seed);
  for (size_t i = 0; i < set.tasks; i++) set.task[i].requests *= given->copies;
  // The area of the others ends with the run; the process's malloc gets its blocks back.
  struct taskset_options options = {.seed = given->seed,
                                    .mallocs = given->mallocs,
                                    .server = given->server,
                                    .hold_in_time = given->in_time != 0,
                                    .drain = session->is_process};
  taskset_run(&set, &options, &(struct taskset_operations){do_malloc, do_free}, session);
}

int main(int count, char **arguments) {
  return session_main(count, arguments, &(struct load){"Profiles: 2006-test-1 ... 2008-table-3 (taskset.c)", run});
}
