// See shadow.h.
#include "shadow.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "rtmalloc.h"

// ---- the map of intervals: sorted by address ----

struct interval {
  uintptr_t start, end;
};
static struct {
  pthread_mutex_t lock;
  struct interval *items;
  size_t count, capacity;
} map = {.lock = PTHREAD_MUTEX_INITIALIZER};

// The first interval that does not end before `address`.
static size_t map_find(uintptr_t address) {
  size_t low = 0, high = map.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (map.items[middle].end <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void map_add(const char *block, size_t size) {
  uintptr_t start = (uintptr_t)block, end = start + (size ? size : 1);
  pthread_mutex_lock(&map.lock);
  size_t at = map_find(start);
  CHECK(at == map.count || map.items[at].start >= end);
  if (map.count == map.capacity) {
    map.capacity = 2 * map.capacity + 1024;
    map.items = realloc(map.items, map.capacity * sizeof *map.items);
    CHECK(map.items);
  }
  memmove(map.items + at + 1, map.items + at, (map.count - at) * sizeof *map.items);
  map.items[at] = (struct interval){start, end};
  map.count++;
  pthread_mutex_unlock(&map.lock);
}

static void map_remove(const char *block) {
  pthread_mutex_lock(&map.lock);
  size_t at = map_find((uintptr_t)block);
  CHECK(at < map.count && map.items[at].start == (uintptr_t)block);
  map.count--;
  memmove(map.items + at, map.items + at + 1, (map.count - at) * sizeof *map.items);
  pthread_mutex_unlock(&map.lock);
}

// ---- contents: all words of small blocks; of larger ones both ends and the first word of each 4 KiB ----

enum { WHOLE = 16384, END = 256, STRIDE = 4096 };

static size_t next_offset(size_t at, size_t bytes) {
  at += 8;
  if (bytes <= WHOLE || at < END || at + END >= bytes) return at;
  at = (at + STRIDE - 1) / STRIDE * STRIDE;
  return at + END < bytes ? at : (bytes - END + 7) & ~(size_t)7;
}

static uint64_t word_at(uint64_t pattern, size_t at) { return (pattern + at) * 0x9e3779b97f4a7c15u; }

static void fill(const struct shadow_block *block) {
  for (size_t at = 0; at + 8 <= block->usable; at = next_offset(at, block->usable)) {
    uint64_t word = word_at(block->pattern, at);
    memcpy(block->address + at, &word, 8);
  }
}

// The first `bytes` bytes at `address` are those of the block.
static void check_contents(const struct shadow_block *block, const char *address, size_t bytes) {
  for (size_t at = 0; at + 8 <= bytes; at = next_offset(at, block->usable)) {
    uint64_t word;
    memcpy(&word, address + at, 8);
    CHECK_EQUAL(word, word_at(block->pattern, at));
  }
}

static void check_zero(const char *address, size_t bytes) {
  for (size_t at = 0; at < bytes; at++) {
    // Of larger blocks the ends and, below, the places that others write to.
    if (at == 4 * WHOLE && bytes > at + END) at = bytes - END;
    if (address[at]) CHECK_EQUAL(address[at], 0);
  }
  for (size_t at = 0; at + 8 <= bytes; at += STRIDE)
    for (unsigned i = 0; i < 8; i++)
      if (address[at + i]) CHECK_EQUAL(address[at + i], 0);
}

// ---- operations ----

static void check_refused(struct shadow *shadow) {
  CHECK_EQUAL(errno, ENOMEM);
  CHECK(shadow->may_refuse);
  shadow->refused++;
}

static void take_in(struct shadow *shadow, struct shadow_block *block, char *address, size_t size) {
  *block = (struct shadow_block){address, size, rtm_usable_size(address), ++shadow->patterns * 0x10001};
  CHECK(block->usable >= size);
  CHECK_EQUAL((uintptr_t)address % 16, 0);
  map_add(address, block->usable);
  shadow->bytes += block->usable;
  fill(block);
}

static void leave_out(struct shadow *shadow, const struct shadow_block *block) {
  shadow->bytes -= block->usable < shadow->bytes ? block->usable : shadow->bytes;
  map_remove(block->address);
}

static void release(struct shadow *shadow, unsigned slot) {
  struct shadow_block *block = shadow->slot[slot];
  if (!block) return;
  check_contents(block, block->address, block->usable);
  leave_out(shadow, block);
  errno = 77;
  rtm_free(block->address);
  CHECK_EQUAL(errno, 77);
  free(block);
  shadow->slot[slot] = NULL;
}

static void allocate(struct shadow *shadow, const struct operation *operation) {
  unsigned slot = operation->slot;
  size_t size = operation->size, alignment = (size_t)1 << operation->alignment_log;
  char *address;
  release(shadow, slot);
  errno = 0;
  if (operation->kind == OPERATION_CALLOC)
    address = size % 3 ? rtm_calloc(1, size) : rtm_calloc(size / 3, 3);
  else if (operation->kind == OPERATION_ALIGNED)
    address = rtm_aligned_alloc(alignment, size);
  else
    address = rtm_malloc(size);
  if (!address) {
    check_refused(shadow);
    return;
  }
  if (operation->kind == OPERATION_ALIGNED) CHECK_EQUAL((uintptr_t)address % alignment, 0);
  if (operation->kind == OPERATION_CALLOC) check_zero(address, size);
  shadow->slot[slot] = malloc(sizeof *shadow->slot[slot]);
  take_in(shadow, shadow->slot[slot], address, size);
}

static void resize(struct shadow *shadow, const struct operation *operation) {
  struct shadow_block *block = shadow->slot[operation->slot], had;
  size_t size = operation->size;
  if (!block) {
    char *address = rtm_realloc(NULL, size);
    if (!address) {
      check_refused(shadow);
      return;
    }
    shadow->slot[operation->slot] = malloc(sizeof *block);
    take_in(shadow, shadow->slot[operation->slot], address, size);
    return;
  }
  had = *block;
  check_contents(&had, had.address, had.usable);
  // Out of the map before: another thread may get the old place at once.
  leave_out(shadow, &had);
  errno = 0;
  char *address = operation->kind == OPERATION_REALLOCARRAY && size % 5 == 0
                      ? rtm_reallocarray(had.address, size / 5, 5)
                      : rtm_realloc(had.address, size);
  if (address) {
    check_contents(&had, address, had.size < size ? had.size : size);
    take_in(shadow, block, address, size);
  } else if (size == 0) {
    free(block);
    shadow->slot[operation->slot] = NULL;
  } else {
    check_refused(shadow);
    map_add(had.address, had.usable);
    shadow->bytes += had.usable;
    check_contents(&had, had.address, had.usable);
  }
}

static void look(const struct shadow *shadow, unsigned slot) {
  const struct shadow_block *block = shadow->slot[slot];
  if (!block) return;
  CHECK_EQUAL(rtm_usable_size(block->address), block->usable);
  check_contents(block, block->address, block->usable);
}

static void ask_for_the_impossible(const struct shadow *shadow, unsigned slot, size_t size) {
  volatile size_t much = SIZE_MAX - size;
  char *address = shadow->slot[slot] ? shadow->slot[slot]->address : NULL;
  errno = 0;
  CHECK(!rtm_malloc(much));
  CHECK(!rtm_calloc(much, 1));
  CHECK(!rtm_calloc(much / 2, 4));
  CHECK(!rtm_realloc(address, much));
  CHECK(!rtm_reallocarray(address, much / 4, 8));
  CHECK(!rtm_aligned_alloc(64, much));
  CHECK_EQUAL(errno, ENOMEM);
  look(shadow, slot);
}

void shadow_apply(struct shadow *shadow, struct operation operation) {
  bool allocates = operation.kind <= OPERATION_ALIGNED;
  if (allocates && shadow->bytes + operation.size > shadow->bytes_most) operation.kind = OPERATION_FREE;
  switch (operation.kind) {
    case OPERATION_MALLOC:
    case OPERATION_CALLOC:
    case OPERATION_ALIGNED: allocate(shadow, &operation); break;
    case OPERATION_REALLOC:
    case OPERATION_REALLOCARRAY: resize(shadow, &operation); break;
    case OPERATION_FREE:
      release(shadow, operation.slot);
      rtm_free(NULL);
      break;
    case OPERATION_LOOK:
      look(shadow, operation.slot);
      CHECK_EQUAL(rtm_usable_size(NULL), 0);
      break;
    case OPERATION_IMPOSSIBLE: ask_for_the_impossible(shadow, operation.slot, operation.size); break;
    case OPERATION_TRIM: rtm_trim(); break;
    case OPERATION_KINDS: break;
  }
}

void shadow_free_all(struct shadow *shadow) {
  for (unsigned slot = 0; slot < SHADOW_SLOTS; slot++) release(shadow, slot);
}

void shadow_exchange(struct shadow *shadow, unsigned slot, struct shadow_block *_Atomic *place) {
  struct shadow_block *mine = shadow->slot[slot];
  size_t bytes = mine ? mine->usable : 0;
  // Release and acquire: the contents go with the block.
  struct shadow_block *theirs = atomic_exchange_explicit(place, mine, memory_order_acq_rel);
  shadow->slot[slot] = theirs;
  shadow->bytes -= bytes < shadow->bytes ? bytes : shadow->bytes;
  if (theirs) shadow->bytes += theirs->usable;
}

// ---- random operations ----

size_t shadow_random_size(struct random *random, size_t most) {
  static const size_t edges[] = {128, 1024, 4096, 32768, 65536, 1 << 20, 2 << 20, 4 << 20, 8 << 20};
  size_t size;
  switch (random_below(random, 16)) {
    case 0: size = edges[random_below(random, sizeof edges / sizeof edges[0])] + random_below(random, 33) - 16; break;
    case 1: size = random_size(random, most); break;
    case 2:
    case 3: size = random_size(random, 4 << 20); break;
    case 4:
    case 5:
    case 6:
    case 7: size = random_size(random, 32768); break;
    default: size = random_size(random, 1024); break;
  }
  return size < most ? size : most;
}

struct operation shadow_random_operation(struct random *random, size_t size_most) {
  static const uint8_t kinds[] = {
      OPERATION_MALLOC, OPERATION_MALLOC,       OPERATION_MALLOC, OPERATION_CALLOC, OPERATION_CALLOC, OPERATION_REALLOC,
      OPERATION_REALLOC, OPERATION_REALLOCARRAY, OPERATION_ALIGNED, OPERATION_FREE, OPERATION_FREE,   OPERATION_FREE,
      OPERATION_FREE,   OPERATION_FREE,         OPERATION_FREE,   OPERATION_LOOK};
  struct operation operation = {
      .kind = kinds[random_below(random, sizeof kinds)],
      .slot = (unsigned)random_below(random, SHADOW_SLOTS),
      .size = shadow_random_size(random, size_most),
      .alignment_log = 4 + (unsigned)random_below(random, random_below(random, 8) ? 9 : 22),
  };
  uint64_t seldom = random_below(random, 4000);
  if (seldom < 4) operation.kind = OPERATION_IMPOSSIBLE;
  if (seldom == 4) operation.kind = OPERATION_TRIM;
  return operation;
}
