// Preloaded beside the library: watches a real program's page faults from its start, and says on stderr at its end how
// many were the allocator's (faults.h).
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"

static bool watched;

__attribute__((constructor)) static void start(void) {
  watched = faults_start();
  free(malloc(1));  // the profile is loaded by now, and the process sealed
  faults_mark();
}

// The mappings that small blocks come from; the stores of a heap lie side by side. Nothing here asks for more than a
// program that runs has freed.
static void see_memory(void) {
  enum { SEGMENT = 4 << 20 };
  static char maps[1 << 20];
  size_t length = 0;
  ssize_t got;
  int file = open("/proc/self/maps", O_RDONLY);
  while (file >= 0 && (got = read(file, maps + length, sizeof maps - 1 - length)) > 0) length += (size_t)got;
  close(file);
  char *block = malloc(32);
  uintptr_t at = (uintptr_t)block;
  free(block);
  for (char *line = maps; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    uintptr_t low = strtoull(line, &line, 16), high = strtoull(line + 1, NULL, 16);
    if (at < low || at >= high) continue;
    for (uintptr_t segment = low; segment < high; segment += SEGMENT) faults_block((void *)segment);
  }
}

__attribute__((destructor)) static void end(void) {
  unsigned all = 0, own = 0;
  faults_stop();  // what follows asks for blocks of sizes that the program may never have had
  if (watched) {
    see_memory();
    own = faults_of_allocator(&all);
  }
  fprintf(stderr, "watch: faults %d of %u\n", watched ? (int)own : -1, all);
}
