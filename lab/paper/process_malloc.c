// See process_malloc.h.
#define _GNU_SOURCE
#include "process_malloc.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rtmalloc.h"

enum { PAGE = 4096 };

// ---- memory ----

typedef void stats_function(struct rtm_stats *);

static stats_function *find_stats(void) {
  static stats_function *found;
  static bool looked;
  if (!looked) *(void **)&found = dlsym(RTLD_DEFAULT, "rtm_stats");
  looked = true;
  return found;
}

bool process_has_stats(void) { return find_stats() != NULL; }

struct process_memory process_memory_now(void) {
  struct rtm_stats stats;
  find_stats()(&stats);
  return (struct process_memory){stats.in_use, stats.free_held};
}

size_t process_usable_size(void *block) { return malloc_usable_size(block); }

static _Noreturn void unreadable(const char *name) {
  fprintf(stderr, "load: cannot read %s, which says how much memory is resident\n", name);
  exit(3);
}

static size_t resident_bytes(int pagemap, uintptr_t from, uintptr_t to) {
  enum { AT_ONCE = 512 };
  uint64_t entries[AT_ONCE];
  size_t resident = 0;
  while (from < to) {
    size_t pages = (to - from) / PAGE < AT_ONCE ? (to - from) / PAGE : AT_ONCE, bytes = pages * sizeof *entries;
    if (pread(pagemap, entries, bytes, (off_t)(from / PAGE * sizeof *entries)) != (ssize_t)bytes)
      unreadable("/proc/self/pagemap");
    for (size_t i = 0; i < pages; i++) resident += entries[i] >> 63;
    from += pages * PAGE;
  }
  return resident * PAGE;
}

size_t process_metadata(const void *low, const void *high) {
  uintptr_t block_low = (uintptr_t)low, block_high = (uintptr_t)high;
  int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  FILE *maps = fopen("/proc/self/maps", "re");
  if (pagemap < 0 || !maps) unreadable("/proc/self/maps and pagemap");
  char line[512], permissions[8], path[256];
  size_t resident = 0;
  while (fgets(line, sizeof line, maps)) {
    uintptr_t from, to;
    *path = 0;
    if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255[^\n]", &from, &to, permissions, path) < 3) continue;
    if (permissions[1] != 'w' || (*path && !strstr(path, "rtmalloc"))) continue;
    resident += resident_bytes(pagemap, from, to < block_low ? to : from < block_low ? block_low : from);
    resident += resident_bytes(pagemap, from > block_high ? from : to > block_high ? block_high : to, to);
  }
  fclose(maps);
  close(pagemap);
  return resident;
}

// ---- operations ----

static void *process_init(void *memory, size_t bytes) {
  (void)bytes;
  return memory;
}
static void *process_malloc(void *heap, size_t size) {
  (void)heap;
  return malloc(size);
}
static bool process_free(void *heap, void *block) {
  (void)heap;
  free(block);
  return true;
}

const struct algorithm algorithm_process_malloc = {
    .name = "malloc",
    .description = "the malloc that the program runs with",
    .worst_case = "as it is",
    .init = process_init,
    .malloc = process_malloc,
    .free = process_free,
};
