// See options.h.
#include "options.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "heap.h"
#include "message.h"
#include "mode.h"
#include "os/file.h"
#include "process.h"
#include "rtmalloc.h"
#include "secure/secure.h"
#include "segment.h"

struct options rtm_options = {.limit = SIZE_MAX};

extern char **environ;

// The environment before libc has set `environ`, which is possible when another library's loader code allocates.
static char *early;
enum { EARLY_BYTES = 16384, PATH_BYTES = 4096 };

static const char *find_in(const char *entry, const char *name, size_t length) {
  return strncmp(entry, name, length) == 0 && entry[length] == '=' ? entry + length + 1 : NULL;
}

// NULL in a program with more rights than who starts it (set-user-ID, file capabilities): the options name files.
static const char *get(const char *name) {
  if (getauxval(AT_SECURE)) return NULL;
  size_t length = strlen(name);
  if (environ) {
    for (char **entry = environ; *entry; entry++) {
      const char *value = find_in(*entry, name, length);
      if (value) return value;
    }
    return NULL;
  }
  if (!early) {
    early = os_map(EARLY_BYTES);
    if (early) os_read_file("/proc/self/environ", early, EARLY_BYTES - 2);
  }
  if (!early) return NULL;
  for (const char *entry = early; *entry; entry += strlen(entry) + 1) {
    const char *value = find_in(entry, name, length);
    if (value) return value;
  }
  return NULL;
}

// A number of bytes with an optional unit: 4096, 64k, 10M, 2GiB. False if it is none.
static bool parse_bytes(const char *text, size_t *bytes) {
  uint64_t value = 0;
  if (*text < '0' || *text > '9') return false;
  for (; *text >= '0' && *text <= '9'; text++)
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
      return false;
  static const char units[] = "kKmMgGtT";
  const char *unit = *text ? strchr(units, *text) : NULL;
  if (unit) {
    if (__builtin_mul_overflow(value, UINT64_C(1) << (10 * (1 + (unit - units) / 2)), &value)) return false;
    text++;
    if (strcmp(text, "iB") == 0 || strcmp(text, "B") == 0) text = "";
  }
  if (*text) return false;
  *bytes = value;
  return true;
}

static void read_bytes(const char *name, size_t *bytes) {
  const char *value = get(name);
  if (value && *value && !parse_bytes(value, bytes))
    message_warn(name, value, "expected a number of bytes such as 4096, 64k, 100M or 2G; the option is left out");
}

static void read_flag(const char *name, bool *flag) {
  const char *value = get(name);
  if (!value || !*value) return;
  if (strcmp(value, "1") == 0)
    *flag = true;
  else if (strcmp(value, "0") != 0)
    message_warn(name, value, "expected 0 or 1; the option is left out");
}

static void read_name(const char *name, char *target, size_t size) {
  const char *value = get(name);
  if (!value) return;
  if (strlen(value) < size)
    strcpy(target, value);
  else
    message_warn(name, value, "the file name is too long; the option is left out");
}

static void read_word(const char *name, const char *const *words, const char *expected, unsigned *result) {
  const char *value = get(name);
  if (!value || !*value) return;
  for (unsigned i = 0; words[i]; i++)
    if (strcmp(value, words[i]) == 0) {
      *result = i;
      return;
    }
  message_warn(name, value, expected);
}

static void read_signal(const char *name, int *number) {
  static const struct {
    const char *name;
    int number;
  } signals[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}, {"TERM", SIGTERM}, {"INT", SIGINT}};
  const char *value = get(name);
  if (!value || !*value) return;
  if (strncmp(value, "SIG", 3) == 0) value += 3;
  for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
    if (strcmp(value, signals[i].name) == 0) *number = signals[i].number;
  if (!*number) message_warn(name, value, "expected USR1, USR2, HUP, TERM or INT; no signal saves the profile");
}

// What is written when the program ends lies where it would lie now, wherever the program goes (chdir).
static void make_absolute(char *name, size_t size) {
  char folder[PATH_BYTES];
  int saved = errno;
  if (!*name || *name == '/' || !getcwd(folder, sizeof folder)) *folder = 0;
  errno = saved;
  if (!*folder) return;
  size_t length = strlen(folder), more = strlen(name) + 1;
  if (length + 1 + more > size) return;
  memmove(name + length + 1, name, more);
  memcpy(name, folder, length);
  name[length] = '/';
}

// RTMALLOC_PROGRAM: not for those that start it, nor for those that it starts, which have the same environment.
static bool is_for_this_program(void) {
  char path[PATH_BYTES];
  const char *wanted = get("RTMALLOC_PROGRAM");
  if (!wanted || !*wanted || !os_program_path(path, sizeof path)) return true;
  if (*wanted != '/' && strchr(wanted, '/')) {
    message_warn("RTMALLOC_PROGRAM", wanted, "expected a file name, or a path from / on; the option is left out");
    return true;
  }
  const char *last = strrchr(path, '/');
  return strcmp(last && *wanted != '/' ? last + 1 : path, wanted) == 0;
}

static void read_of_program(struct options *o) {
  read_flag("RTMALLOC_VERBOSE", &o->verbose);
  read_name("RTMALLOC_REPORT", o->report, sizeof o->report);
  read_name("RTMALLOC_RECORD", o->record, sizeof o->record);
  make_absolute(o->report, sizeof o->report);
  make_absolute(o->record, sizeof o->record);
  read_name("RTMALLOC_PROFILE", o->profile, sizeof o->profile);
  static const char *const modes[] = {"general", "seg", "pag", NULL}, *const on_miss[] = {"count", "report", "abort",
                                                                                          "null", NULL};
  read_word("RTMALLOC_MODE", modes, "expected general, seg or pag; the mode is general", &o->mode);
  read_word("RTMALLOC_ON_MISS", on_miss, "expected count, report, abort or null; misses are counted", &o->on_miss);
  read_signal("RTMALLOC_RECORD_SIGNAL", &o->record_signal);
  read_flag("RTMALLOC_SEAL", &o->seal);
  if (o->record_signal && !o->record[0])
    message_warn("RTMALLOC_RECORD_SIGNAL", get("RTMALLOC_RECORD_SIGNAL"),
                 "no profile is recorded: set RTMALLOC_RECORD to its file; no signal saves one");
  if (o->record[0] && o->mode) {
    message_warn("RTMALLOC_RECORD", o->record, "a profile is recorded in mode general only; RTMALLOC_MODE is left out");
    o->mode = 0;
    o->profile[0] = 0;
    o->seal = false;
  }
}

static void read_all(struct options *o) {
  const char *value = get("RTMALLOC_PURGE");
  if (value && *value) {
    if (strcmp(value, "eager") == 0)
      o->purge = PURGE_EAGER;
    else if (strcmp(value, "never") == 0)
      o->purge = PURGE_NEVER;
    else if (strcmp(value, "lazy") != 0)
      message_warn("RTMALLOC_PURGE", value, "expected eager, lazy or never; lazy is used");
  }
  read_bytes("RTMALLOC_LIMIT", &o->limit);
  read_bytes("RTMALLOC_RESERVE", &o->reserve);
  if (is_for_this_program()) read_of_program(o);
  const char *secure = get("RTMALLOC_SECURE");
  if (SECURE_VARIANT)
    secure_start(secure, o->mode != 0 || o->record[0]);
  else if (secure && *secure)
    message_warn("RTMALLOC_SECURE", secure, "it is for librtmalloc-secure.so; the option is left out");
  // In the real-time modes a report tells of misses, not of each operation: the fast paths stay.
  o->count = o->verbose || (o->report[0] && !o->mode);
}

void options_read(void) {
  static bool done;  // the start may be tried again when there was no memory
  if (!done) read_all(&rtm_options);
  done = true;
}

void options_apply(void) {
  if (rtm_options.reserve && !arena_reserve(rtm_options.reserve))
    message_warn("RTMALLOC_RESERVE", get("RTMALLOC_RESERVE"),
                 "the machine, the system or RTMALLOC_LIMIT does not give that much memory; nothing is reserved");
}

// ---- by call ----

static const char *set(enum rtm_option option, uint64_t value, int *error) {
  *error = EINVAL;
  switch (option) {
    case RTM_OPTION_PURGE:
      if (value > PURGE_NEVER) return "RTM_OPTION_PURGE: expected 0 (lazy), 1 (eager) or 2 (never)";
      rtm_options.purge = (enum purge)value;
      if (mode_now() != MODE_GENERAL) return NULL;  // nothing goes back
      arena_set_purge(rtm_options.purge);
      if (rtm_heap != &rtm_no_heap) segment_keep(rtm_heap, 0);
      return NULL;
    case RTM_OPTION_LIMIT:
      rtm_options.limit = value;
      RTM_WRITE_RELAXED(rtm_arena.bytes_limit, value);
      return NULL;
    case RTM_OPTION_RESERVE:
      *error = EBUSY;
      if (rtm_arena.granules_reserved) return "RTM_OPTION_RESERVE: a reserve is there already";
      *error = ENOMEM;
      if (!arena_reserve(value))
        return "RTM_OPTION_RESERVE: the machine, the system or the limit does not give that much memory";
      rtm_options.reserve = value;
      return NULL;
    case RTM_OPTION_ON_MISS:
      if (value > MISS_NULL) return "RTM_OPTION_ON_MISS: expected 0 (count), 1 (report), 2 (abort) or 3 (null)";
      RTM_WRITE_RELAXED(rtm_options.on_miss, (unsigned)value);
      return NULL;
    default:
      return "expected one of enum rtm_option";
  }
}

int rtm_option_set(enum rtm_option option, uint64_t value) {
  if (!process_init()) return ENOMEM;
  int error;
  const char *wrong = set(option, value, &error);
  if (!wrong) return 0;
  char number[24];
  struct text text = {number, sizeof number - 1, 0};
  text_add_number(&text, value);
  number[text.length] = 0;
  message_warn("rtm_option_set", number, wrong);
  return error;
}

uint64_t rtm_option_get(enum rtm_option option) {
  if (!process_init()) return UINT64_MAX;
  const struct options *o = &rtm_options;
  return option == RTM_OPTION_PURGE     ? o->purge
         : option == RTM_OPTION_LIMIT   ? o->limit
         : option == RTM_OPTION_RESERVE ? o->reserve
         : option == RTM_OPTION_ON_MISS ? o->on_miss
                                        : UINT64_MAX;
}
