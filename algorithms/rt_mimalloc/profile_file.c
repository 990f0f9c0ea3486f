// Implements profile_file.h.
#include "profile_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT_MOST = 1 << 20 };
const char *const rtmi_prepare_words[] = {"nothing", "segments", "pages", NULL};

bool rtmi_profile_holds(int prepare, unsigned class) { return prepare == PREPARE_PAGES || class >= MEDIUM_CLASSES; }

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
static const char *parse(char **text, int prepare, struct profile *profile) {
  if (!begins(text, "rt-mimalloc profile 1 ")) return "'rt-mimalloc profile 1'";
  char *name = *text;
  if (!begins(text, rtmi_prepare_words[prepare]) || !begins(text, "\n")) {
    *text = name;
    return rtmi_prepare_words[prepare];
  }
  while (!begins(text, "end\n")) {
    char *line = *text;
    unsigned long bytes, count;
    if (begins(text, "pages ")) {
      if (number(text, ' ', CLASS_BYTES_MOST, &bytes) && number(text, '\n', COUNT_MOST, &count) &&
          class_bytes(class_of(bytes)) == bytes && rtmi_profile_holds(prepare, class_of(bytes))) {
        profile->pages[class_of(bytes)] = (uint32_t)count;
        continue;
      }
    } else if (begins(text, "segments ") && prepare == PREPARE_SEGMENTS) {
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

bool rtmi_profile_read(int file, int prepare, struct profile *profile, char problem[PROFILE_PROBLEM_MOST]) {
  char text[PROFILE_TEXT_MOST + 1], *at = text;
  size_t length = 0;
  ssize_t got;
  while (length < PROFILE_TEXT_MOST && (got = read(file, text + length, PROFILE_TEXT_MOST - length)) > 0)
    length += (size_t)got;
  text[length] = 0;
  const char *wanted = parse(&at, prepare, profile);
  if (!wanted) return true;
  int shown = (int)strcspn(at, "\n");
  snprintf(problem, PROFILE_PROBLEM_MOST, "'%.*s' where %s was expected", shown < 30 ? shown : 30, at, wanted);
  return false;
}
