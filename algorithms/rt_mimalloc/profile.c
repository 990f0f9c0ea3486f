// Implements profile.h. A file is text:
//   rt-mimalloc profile 1 segments        or pages: what it was recorded with, and what it prepares
//   segments small 3                      only with segments: the most at once in any heap
//   segments medium 2
//   pages 655360 1                        the most pages of that block size; with segments only huge ones
//   end
#include "profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>

#include "heap.h"
#include "message.h"
#include "page.h"
#include "rt_mimalloc.h"
#include "segment.h"

enum { TEXT_MOST = 16384, COUNT_MOST = 1 << 20 };
static const char *const kind_names[] = {"small", "medium"};

struct profile {
  uint32_t segments[2], pages[CLASSES];
};
static struct profile loaded;

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

void rtmi_profile_prepare(struct heap *heap) {
  if (rtmi_switches.prepare == PREPARE_SEGMENTS)
    for (enum kind kind = SMALL; kind <= MEDIUM; kind++)
      for (uint32_t i = 0; i < loaded.segments[kind] && rtmi_segment_alloc(heap, kind, 0); i++) continue;
  for (unsigned class = 0; class < CLASSES; class ++)
    for (uint32_t i = 0; i < loaded.pages[class] && rtmi_page_fresh(heap, class, class_bytes(class)); i++) continue;
}

// Does a profile of this setting hold pages of the class?
static bool holds(unsigned class) { return rtmi_switches.prepare == PREPARE_PAGES || class >= MEDIUM_CLASSES; }

// ---- reading ----

static bool begins(char **text, const char *with) {
  size_t length = strlen(with);
  if (strncmp(*text, with, length) != 0) return false;
  *text += length;
  return true;
}

static bool number(char **text, char after, unsigned long most, unsigned long *value) {
  char *end;
  if (**text < '0' || **text > '9') return false;
  *value = strtoul(*text, &end, 10);
  if (*end != after || *value > most) return false;
  *text = end + 1;
  return true;
}

// NULL, or what was wanted at the place that *text has come to.
static const char *parse(char **text, struct profile *profile) {
  if (!begins(text, "rt-mimalloc profile 1 ")) return "'rt-mimalloc profile 1'";
  char *name = *text;
  if (!begins(text, rtmi_prepare_name()) || !begins(text, "\n")) {
    *text = name;
    return rtmi_prepare_name();
  }
  while (!begins(text, "end\n")) {
    char *line = *text;
    unsigned long bytes, count;
    if (begins(text, "pages ")) {
      if (number(text, ' ', CLASS_BYTES_MOST, &bytes) && number(text, '\n', COUNT_MOST, &count) &&
          class_bytes(class_of(bytes)) == bytes && holds(class_of(bytes))) {
        profile->pages[class_of(bytes)] = (uint32_t)count;
        continue;
      }
    } else if (begins(text, "segments ") && rtmi_switches.prepare == PREPARE_SEGMENTS) {
      enum kind kind = begins(text, "small ") ? SMALL : MEDIUM;
      if ((kind == SMALL || begins(text, "medium ")) && number(text, '\n', COUNT_MOST, &count)) {
        profile->segments[kind] = (uint32_t)count;
        continue;
      }
    }
    *text = line;
    return "'pages BYTES COUNT' with a block size of the set B, 'segments small|medium COUNT', or 'end'";
  }
  return **text ? "the file's end" : NULL;
}

// Of what the file holds. False, with a message: it is none of ours.
static bool read_profile(int file, const char *path, struct profile *profile) {
  char text[TEXT_MOST + 1], *at = text;
  size_t length = 0;
  ssize_t got;
  while (length < TEXT_MOST && (got = read(file, text + length, TEXT_MOST - length)) > 0) length += (size_t)got;
  text[length] = 0;
  const char *wanted = parse(&at, profile);
  if (!wanted) return true;
  char found[40];
  snprintf(found, sizeof found, "%.*s", (int)strcspn(at, "\n") < 30 ? (int)strcspn(at, "\n") : 30, at);
  RTMI_SAY("'", path, "' is no profile for this setting: '", found, "' where ", wanted,
           " was expected; record it again");
  return false;
}

static bool prepares_nothing(const char *what) {
  if (rtmi_switches.prepare != PREPARE_NOTHING) return false;
  RTMI_SAY("a profile cannot be ", what,
           ": RT_MIMALLOC_PREPARE is 'nothing', wanted segments or pages"
           " (RT_MIMALLOC_SETTING=seg or pag)");
  return true;
}

bool rtmi_load_profile(const char *path) {
  if (prepares_nothing("loaded")) return false;
  struct profile profile = {0};
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    RTMI_SAY("cannot read the profile '", path, "': ", strerror(errno), "; record it with RT_MIMALLOC_SAVE");
    return false;
  }
  bool good = read_profile(file, path, &profile);
  close(file);
  if (good) loaded = profile;
  return good;
}

// ---- writing ----

static void add_peaks(struct profile *profile) {
  for (struct heap *heap = rtmi_heap_first(); heap; heap = heap->next) {
    for (int kind = SMALL; kind <= MEDIUM && rtmi_switches.prepare == PREPARE_SEGMENTS; kind++)
      profile->segments[kind] = larger(profile->segments[kind], heap->segment_peak[kind].most);
    for (unsigned class = 0; class < CLASSES; class ++)
      if (holds(class)) profile->pages[class] = larger(profile->pages[class], heap->page_peak[class].most);
  }
}

static size_t print(const struct profile *profile, char *text) {
  size_t length = (size_t)sprintf(text, "rt-mimalloc profile 1 %s\n", rtmi_prepare_name());
  for (int kind = SMALL; kind <= MEDIUM && rtmi_switches.prepare == PREPARE_SEGMENTS; kind++)
    length += (size_t)sprintf(text + length, "segments %s %u\n", kind_names[kind], profile->segments[kind]);
  for (unsigned class = 0; class < CLASSES; class ++)
    if (profile->pages[class] > 0)
      length += (size_t)sprintf(text + length, "pages %zu %u\n", class_bytes(class), profile->pages[class]);
  return length + (size_t)sprintf(text + length, "end\n");
}

bool rtmi_save_profile(const char *path) {
  if (prepares_nothing("saved")) return false;
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  bool good = file >= 0 && flock(file, LOCK_EX) == 0;  // other processes may save at this moment
  struct profile profile = {0};
  if (good && lseek(file, 0, SEEK_END) > 0) {
    lseek(file, 0, SEEK_SET);
    if (!read_profile(file, path, &profile)) {
      close(file);
      return false;
    }
  }
  add_peaks(&profile);
  char text[TEXT_MOST];
  size_t length = print(&profile, text);
  good = good && ftruncate(file, 0) == 0 && pwrite(file, text, length, 0) == (ssize_t)length;
  if (!good) RTMI_SAY("cannot write the profile '", path, "': ", strerror(errno));
  if (file >= 0) close(file);
  return good;
}
