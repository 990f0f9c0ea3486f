// What every program of the misuse suite is made of. Each program (cases.py) does one wrong thing and tells on stdout
// how far it came, a letter at a time; run.py reads the letters and how the program ended:
//   b  the misuse comes now         a  the misuse has been done, and the program lives
//   h  no harm was seen             m  harm was seen: memory of the program changed, or what must not be read was read
// Live memory is filled with a pattern of its own, so that any harm to it shows.
#ifndef MISUSE_H
#define MISUSE_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static void tell(char letter) {
  if (write(1, &letter, 1) != 1) _exit(3);
}
static void misuse(void) { tell('b'); }  // call right before
static void done(void) { tell('a'); }    // and right after

// ---- live memory ----

enum { LIVE_MOST = 4096 };
static struct live {
  unsigned char *start;
  size_t size;
  unsigned char pattern;
} live[LIVE_MOST];
static unsigned live_count;
static unsigned char trap[4096] __attribute__((aligned(64)));  // the program's own; no allocator may hand it out

static void watch(void *start, size_t size) {
  if (live_count == LIVE_MOST) _exit(3);
  struct live *one = &live[live_count++];
  one->start = (unsigned char *)start;
  one->size = size;
  one->pattern = (unsigned char)(1 + live_count % 250);
  memset(start, one->pattern, size);
}

static void unwatch(void *start) {
  for (unsigned i = live_count; i-- > 0;)
    if (live[i].start == start) {
      live[i] = live[--live_count];
      return;
    }
}

static bool holds(const struct live *one) {
  return one->size == 0 || (one->start[0] == one->pattern && memcmp(one->start, one->start + 1, one->size - 1) == 0);
}

static bool damaged(void) {
  bool any = false;
  for (unsigned i = 0; i < live_count; i++)
    if (!holds(&live[i])) any = true;
  return any;
}

static unsigned char pattern_of(const void *start) {
  for (unsigned i = 0; i < live_count; i++)
    if (live[i].start == start) return live[i].pattern;
  return 0;
}

static unsigned char *take(size_t size) {
  void *block = malloc(size);
  if (!block) _exit(3);
  watch(block, size);
  return (unsigned char *)block;
}

static void give(void *block) {
  unwatch(block);
  free(block);
}

// Enough blocks to fill the space around.
static unsigned count_for(size_t size) { return size > MIB ? 3 : size > 32 * KIB ? 8 : 40; }
static unsigned char *take_among(size_t size) {  // a block with neighbours on both sides
  unsigned char *middle = NULL;
  for (unsigned i = 0, count = count_for(size); i < count; i++) {
    unsigned char *block = take(size);
    if (i == count / 2) middle = block;
  }
  return middle;
}

// ---- what comes after ----

static bool zeroes(size_t size) {  // calloc's blocks are zero
  bool good = true;
  for (unsigned i = 0, count = count_for(size); i < count; i++) {
    unsigned char *block = (unsigned char *)calloc(1, size);
    if (!block) _exit(3);
    if (block[0] || memcmp(block, block + 1, size - 1)) good = false;
    watch(block, size);
  }
  return good;
}

// The program goes on: it allocates and frees, of the same size and of others, then frees all it has.
static void finish(size_t size) {
  bool harm = damaged();
  size_t sizes[] = {size, size, 16, 200, 3000, 60 * KIB};
  for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    if (s == 1 && !zeroes(size)) harm = true;
    for (unsigned i = 0, count = count_for(sizes[s]); i < count; i++) take(sizes[s]);
    if (damaged()) harm = true;
  }
  while (live_count) {
    void *start = live[live_count - 1].start;
    bool own = live[live_count - 1].pattern == 0;
    if (!holds(&live[live_count - 1])) harm = true;
    live_count--;
    if (!own) free(start);
  }
  for (unsigned i = 0; i < 100; i++) take(size > MIB ? 300 * KIB : size);
  if (damaged()) harm = true;
  malloc_trim(0);
  tell(harm ? 'm' : 'h');
  _exit(0);
}

// Memory that is the program's own and must stay as it is; never freed.
static void keep(void *start, size_t size) {
  watch(start, size);
  memset(start, 0, size);
  live[live_count - 1].pattern = 0;
}

static void verdict(bool harm) {
  tell(harm ? 'm' : 'h');
  _exit(0);
}

// Of `size` bytes at `start`: a run of eight of this value somewhere?
static bool reads(const volatile unsigned char *start, size_t size, unsigned char value) {
  unsigned run = 0;
  for (size_t i = 0; i < size; i++) {
    run = start[i] == value ? run + 1 : 0;
    if (run == 8) return true;
  }
  return false;
}
// Any live block's pattern.
static bool reads_live(const volatile unsigned char *start, size_t size) {
  unsigned run = 0;
  unsigned char last = 0;
  for (size_t i = 0; i < size; i++) {
    unsigned char value = start[i];
    run = value == last && value != 0 ? run + 1 : 1;
    last = value;
    if (run < 8) continue;
    for (unsigned b = 0; b < live_count; b++)
      if (live[b].pattern == value && holds(&live[b])) return true;
  }
  return false;
}

// ---- other threads ----

static void *free_there(void *block) {
  free(block);
  return NULL;
}
static void give_by_thread(void *block) {
  pthread_t thread;
  unwatch(block);
  if (pthread_create(&thread, NULL, free_there, block)) _exit(3);
  pthread_join(thread, NULL);
}
static void *take_there(void *size) { return malloc((size_t)size); }
static unsigned char *take_by_thread(size_t size) {  // of a thread that has exited
  pthread_t thread;
  void *block;
  if (pthread_create(&thread, NULL, take_there, (void *)size)) _exit(3);
  pthread_join(thread, &block);
  if (!block) _exit(3);
  watch(block, size);
  return (unsigned char *)block;
}

__attribute__((constructor)) static void start(void) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  alarm(20);
  keep(trap, sizeof trap);
}

#endif
