// Options, read once from the environment, and some by call. Layer: above message. The README has the names.
#ifndef RTM_OPTIONS_H
#define RTM_OPTIONS_H

#include "arena.h"

struct options {
  enum purge purge;   // RTMALLOC_PURGE
  size_t limit;       // RTMALLOC_LIMIT, bytes; SIZE_MAX: none
  size_t reserve;     // RTMALLOC_RESERVE, bytes
  bool verbose;       // RTMALLOC_VERBOSE
  char report[4096];  // RTMALLOC_REPORT, a file name; empty: none
  char record[4096];  // RTMALLOC_RECORD, RTMALLOC_PROFILE: file names; empty: none
  char profile[4096];
  int record_signal;  // RTMALLOC_RECORD_SIGNAL; 0: none
  unsigned mode;      // RTMALLOC_MODE: enum mode
  unsigned on_miss;   // RTMALLOC_ON_MISS: enum on_miss
  bool seal;          // RTMALLOC_SEAL
  bool count;         // operations are counted: verbose or report
};
RTM_HIDDEN extern struct options rtm_options;

// Reads the environment; needs no memory and no constructor. A value that cannot be understood is reported in a line on
// stderr and left out.
void options_read(void);
// Carries out what needs the arena (the reserve).
void options_apply(void);

#endif
