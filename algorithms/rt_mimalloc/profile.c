// Implements profile.h. What a file holds: profile_file.h.
#include "profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

#include "heap.h"
#include "message.h"
#include "page.h"
#include "profile_file.h"
#include "rt_mimalloc.h"
#include "segment.h"

static const char *const kind_names[] = {"small", "medium"};

static struct profile loaded;

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

static uint32_t segments_of(const struct profile *profile) {
  uint32_t segments = profile->segments[SMALL] + profile->segments[MEDIUM], small_pages = 0;
  for (unsigned class = 0; class < CLASSES; class ++) {
    if (kind_of(class_bytes(class)) == SMALL)
      small_pages += profile->pages[class];
    else
      segments += profile->pages[class];
  }
  return segments + (small_pages + PAGES_MOST - 1) / PAGES_MOST;
}

// What threads that ended have left is part of it: else each thread of a chain would add its own to that.
void rtmi_profile_prepare(struct heap *heap) {
  if (rtmi_switches.prepare == PREPARE_NOTHING) return;
  rtmi_heap_adopt_most(heap, segments_of(&loaded));
  for (enum kind kind = SMALL; kind <= MEDIUM; kind++)
    while (heap->segment_peak[kind].now < loaded.segments[kind] && rtmi_segment_alloc(heap, kind, 0)) continue;
  for (unsigned class = 0; class < CLASSES; class ++)
    while (heap->page_peak[class].now < loaded.pages[class] && rtmi_page_fresh(heap, class, class_bytes(class)))
      continue;
}

// ---- reading ----

// Of what the file holds. False, with a message: it is none of ours.
static bool read_profile(int file, const char *path, struct profile *profile) {
  char problem[PROFILE_PROBLEM_MOST];
  if (rtmi_profile_read(file, rtmi_switches.prepare, profile, problem)) return true;
  RTMI_SAY("'", path, "' is no profile for this setting: ", problem, "; record it again");
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
      if (rtmi_profile_holds(rtmi_switches.prepare, class))
        profile->pages[class] = larger(profile->pages[class], heap->page_peak[class].most);
  }
}

static size_t print(const struct profile *profile, char *text) {
  size_t length = (size_t)sprintf(text, "rt-mimalloc profile 1 %s\n", rtmi_prepare_words[rtmi_switches.prepare]);
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
  char text[PROFILE_TEXT_MOST];
  size_t length = print(&profile, text);
  good = good && ftruncate(file, 0) == 0 && pwrite(file, text, length, 0) == (ssize_t)length;
  if (!good) RTMI_SAY("cannot write the profile '", path, "': ", strerror(errno));
  if (file >= 0) close(file);
  return good;
}
