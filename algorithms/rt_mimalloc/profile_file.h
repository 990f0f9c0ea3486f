// A profile as a file holds it, without a heap: read by profile.c and by the pool of ../talloc_pool. A file is text:
//   rt-mimalloc profile 1 segments        or pages: what it was recorded with, and what it prepares
//   segments small 3                      only with segments: the most at once in any heap
//   segments medium 2
//   pages 655360 1                        the most pages of that block size; with segments only huge ones
//   end
#ifndef RT_MIMALLOC_PROFILE_FILE_H
#define RT_MIMALLOC_PROFILE_FILE_H

#include "structure.h"

enum { PROFILE_TEXT_MOST = 16384, PROFILE_PROBLEM_MOST = 200 };

struct profile {
  uint32_t segments[2], pages[CLASSES];
};

extern const char *const rtmi_prepare_words[];  // of enum rtmi_prepare, in the environment and in profiles

// Does a profile that prepares such hold pages of the class?
bool rtmi_profile_holds(int prepare, unsigned class);

// False, and in `problem` what was found in place of what: damaged, or recorded to prepare something else.
bool rtmi_profile_read(int file, int prepare, struct profile *profile, char problem[PROFILE_PROBLEM_MOST]);

#endif
