// Fuzzing of the options: any bytes as an environment. What is not understood is left out with a word, and what is read
// lies within its range; numbers of bytes are read as a plain reader reads them. Built as the secure variant, which has
// all options.
//
//   lines   each a variable: its first byte chooses one of the names below, the rest is the value; other first bytes
//           begin an entry of the environment as it stands
#define _GNU_SOURCE
#include <stdio.h>

#include "../src/options.c"

#define CHECK(condition) ((condition) ? (void)0 : (printf("failed: %s\n", #condition), fflush(stdout), abort()))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"PURGE",   "LIMIT",   "RESERVE", "VERBOSE",       "REPORT", "RECORD", "PROFILE",
                                    "MODE",    "ON_MISS", "SEAL",    "RECORD_SIGNAL", "SECURE"};
enum { NAMES = sizeof names / sizeof *names, ENTRIES = 64, BYTES_MOST = 16384 };

// What parse_bytes has to say, with room for every number that it may meet.
static bool plain_bytes(const char *text, size_t *bytes) {
  size_t digits = strspn(text, "0123456789");
  if (!digits) return false;
  unsigned __int128 value = 0, most = UINT64_MAX;
  for (size_t i = 0; i < digits; i++) {
    value = 10 * value + (unsigned)(text[i] - '0');
    if (value > most) return false;
  }
  text += digits;
  for (unsigned unit = 1; unit <= 4 && *text; unit++) {
    if (*text != "kmgt"[unit - 1] && *text != "KMGT"[unit - 1]) continue;
    value <<= 10 * unit;
    text++;
    if (strcmp(text, "iB") == 0 || strcmp(text, "B") == 0) text = "";
    break;
  }
  *bytes = (size_t)value;
  return value <= most && !*text;
}

// The first entry of the name counts, as getenv has it.
static void check_bytes(char **entries, const char *name, size_t before, size_t read) {
  for (; *entries; entries++) {
    const char *value = find_in(*entries, name, strlen(name));
    if (!value) continue;
    size_t bytes = before;
    if (*value && !plain_bytes(value, &bytes)) bytes = before;
    CHECK(read == bytes);
    return;
  }
  CHECK(read == before);
}

static void check_ranges(const struct options *o) {
  CHECK(o->purge <= PURGE_NEVER && o->mode <= MODE_PAG && o->on_miss <= MISS_NULL);
  CHECK(memchr(o->report, 0, sizeof o->report) && memchr(o->record, 0, sizeof o->record));
  CHECK(memchr(o->profile, 0, sizeof o->profile));
  CHECK(!o->record_signal || (o->record_signal > 0 && o->record_signal < NSIG));
  CHECK(!(o->record[0] && o->mode));
  CHECK(rtm_secure.pad <= 128 && rtm_secure.fast_size <= BLOCK_MAX + 1);
  CHECK(!o->mode || !(rtm_secure.features & (SECURE_GUARD_PAGES | SECURE_ALONE)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char text[2 * BYTES_MOST];
  static struct options first, second;
  char *entries[ENTRIES + 1];
  unsigned count = 0;
  char *end = text;
  if (size > BYTES_MOST) return 0;
  for (size_t at = 0; at < size && count < ENTRIES; count++) {
    entries[count] = end;
    if (data[at] < NAMES) end += sprintf(end, "RTMALLOC_%s=", names[data[at++]]);
    while (at < size && data[at] && data[at] != '\n') *end++ = (char)data[at++];
    at++;
    *end++ = 0;
  }
  entries[count] = NULL;
  char **before = environ;
  environ = entries;
  first = second = (struct options){.limit = SIZE_MAX};
  read_all(&first);
  read_all(&second);
  environ = before;
  check_ranges(&first);
  CHECK(memcmp(&first, &second, sizeof first) == 0);
  check_bytes(entries, "RTMALLOC_LIMIT", SIZE_MAX, first.limit);
  check_bytes(entries, "RTMALLOC_RESERVE", 0, first.reserve);
  return 0;
}
