// Implements switches.h: the environment's words and what they stand for.
#include "switches.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"
#include "profile_file.h"

_Noreturn static void refuse(const char *variable, const char *given, const char *wanted) {
  RTMI_SAY(variable, " is '", given, "', wanted ", wanted);
  _exit(2);
}

#ifdef RTMI_FIXED

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
void rtmi_read_switches(void) {
  const char *setting = getenv("RT_MIMALLOC_SETTING");
  if (setting && strcmp(setting, TEXT(RTMI_FIXED)) != 0)
    refuse("RT_MIMALLOC_SETTING", setting,
           TEXT(RTMI_FIXED) ": this library has no other; take librt-mimalloc-preload.so");
}

#else

struct rtmi_switches rtmi_switches = RTMI_SETTING_original;

static const char *const no_yes[] = {"0", "1", NULL};
static const struct {
  const char *variable;
  size_t field;
  const char *const *words;
} variables[] = {
    {"RT_MIMALLOC_FREE_SEGMENTS", offsetof(struct rtmi_switches, free_segments), no_yes},
    {"RT_MIMALLOC_FREE_PAGES", offsetof(struct rtmi_switches, free_pages),
     (const char *const[]){"all", "not-huge", "none", NULL}},
    {"RT_MIMALLOC_EXTEND", offsetof(struct rtmi_switches, extend),
     (const char *const[]){"proportional", "two", "whole", NULL}},
    {"RT_MIMALLOC_FIND", offsetof(struct rtmi_switches, find), (const char *const[]){"linear", "bitmap", NULL}},
    {"RT_MIMALLOC_DIRECT", offsetof(struct rtmi_switches, direct), (const char *const[]){"entries", "pointer", NULL}},
    {"RT_MIMALLOC_COLLECT_RETIRED", offsetof(struct rtmi_switches, collect_retired), no_yes},
    {"RT_MIMALLOC_PREPARE", offsetof(struct rtmi_switches, prepare), rtmi_prepare_words},
};

// The word's place in the list.
static int choose(const char *variable, const char *given, const char *const *words) {
  char wanted[80] = "";
  for (int i = 0; words[i]; i++) {
    if (strcmp(given, words[i]) == 0) return i;
    strcat(strcat(wanted, i ? " or " : ""), words[i]);
  }
  refuse(variable, given, wanted);
}

void rtmi_read_switches(void) {
  static const struct rtmi_switches settings[] = {RTMI_SETTING_original, RTMI_SETTING_seg, RTMI_SETTING_pag};
  struct rtmi_switches read = settings[0];
  const char *setting = getenv("RT_MIMALLOC_SETTING");
  if (setting)
    read = settings[choose("RT_MIMALLOC_SETTING", setting, (const char *const[]){"original", "seg", "pag", NULL})];
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *given = getenv(variables[i].variable);
    if (given) *(int *)((char *)&read + variables[i].field) = choose(variables[i].variable, given, variables[i].words);
  }
  rtmi_switches = read;
}

#endif
