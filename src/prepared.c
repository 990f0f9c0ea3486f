// See prepared.h.
#include "prepared.h"

#include "os/os.h"
#include "os/pin.h"

const char prepared_no_memory[] = "the system does not give the memory that it needs";

enum { LEVELS = 3, BUCKET = 4, HEAPS_MOST = 64 * 64 * 64 };

// The heaps of one start routine. Written at load; later only bits change, by any thread.
struct group {
  uintptr_t routine;
  struct stores **heaps;  // by number
  uint32_t count;
  _Atomic uint64_t *waiting[LEVELS];  // bits
};

static _Atomic uint64_t no_bits;
static struct group nobody = {.waiting = {&no_bits, &no_bits, &no_bits}};

// Groups first, then &nobody.
struct bucket {
  struct group *group[BUCKET];
};
static struct bucket no_groups[2] = {{{&nobody, &nobody, &nobody, &nobody}}, {{&nobody, &nobody, &nobody, &nobody}}};

static struct {
  struct bucket *buckets;
  uint64_t multiplier;  // odd
  unsigned shift;       // 64 - log2(buckets)
} table = {no_groups, 1, 63};

RTM_INLINE size_t bucket_of(uintptr_t routine, uint64_t multiplier, unsigned shift) {
  return (size_t)(routine * multiplier >> shift);
}

RTM_INLINE struct group *find(uintptr_t routine) {
  struct group *const *group = table.buckets[bucket_of(routine, table.multiplier, table.shift)].group;
  if (group[0]->routine == routine) return group[0];
  if (group[1]->routine == routine) return group[1];
  if (group[2]->routine == routine) return group[2];
  return group[3]->routine == routine ? group[3] : &nobody;
}

static uint64_t words_for(uint64_t bits) { return (bits + 63) / 64; }

// ---- taking and leaving ----

struct heap *prepared_take(uintptr_t routine) {
  const struct group *group = find(routine);
  uint64_t number;
  return store_take_shared(group->waiting, LEVELS, group->count, &number) ? group->heaps[number]->heap : NULL;
}

static bool has_blocks(const struct stores *stores, unsigned bin) {
  if (bin_size(bin) <= stores->extent_max) return stores->heap->prepared;
  return (bin <= CLASSES ? stores->heap->page[bin] : stores->large[bin - CLASSES - 1])->store_blocks;
}

static RTM_NOINLINE struct heap *look_for_other(const struct group *group, unsigned bin) {
  enum { LOOKS = 64 };
  _Atomic uint64_t *waiting = group->waiting[0];
  unsigned looks = 0;
  for (uint64_t word = 0; word < words_for(group->count); word++) {
    uint64_t bits = atomic_load_explicit(&waiting[word], memory_order_relaxed);
    for (; bits && looks < LOOKS; bits &= bits - 1, looks++) {
      uint64_t number = word * 64 + bits_lowest(bits);
      if (has_blocks(group->heaps[number], bin) && store_drop_bit(waiting, number)) return group->heaps[number]->heap;
    }
  }
  return NULL;
}

struct heap *prepared_take_other(const struct stores *than, unsigned bin) {
  const struct group *group = than->group;
  bool any = atomic_load_explicit(group->waiting[LEVELS - 1], memory_order_relaxed);
  return RTM_UNLIKELY(any) ? look_for_other(group, bin) : NULL;
}

void prepared_leave(struct stores *stores) {
  const struct group *group = stores->group;
  uint64_t number = stores->number;
  store_set_bit(group->waiting[0], number);
  store_raise(group->waiting[1], number / 64);
  store_raise(group->waiting[2], number / 4096);
}

// ---- the index, at load ----

static struct group *group_of(struct group *groups, uint32_t count, uintptr_t routine) {
  for (uint32_t i = 0; i < count; i++)
    if (groups[i].routine == routine) return &groups[i];
  return NULL;
}

// False: a bucket has no place left.
static bool fill(struct bucket *buckets, struct group *groups, uint32_t count, uint64_t multiplier, unsigned shift) {
  for (size_t i = 0; i < (size_t)1 << (64 - shift); i++) buckets[i] = no_groups[0];
  for (uint32_t i = 0; i < count; i++) {
    struct bucket *bucket = &buckets[bucket_of(groups[i].routine, multiplier, shift)];
    unsigned place = 0;
    while (place < BUCKET && bucket->group[place] != &nobody) place++;
    if (place == BUCKET) return false;
    bucket->group[place] = &groups[i];
  }
  return true;
}

// NULL: no memory, or a bucket overflows whatever is tried (then `*bytes` is not 0).
static struct bucket *make_buckets(struct group *groups, uint32_t count, size_t *bytes) {
  enum { MULTIPLIERS = 64, SIZES = 5 };
  unsigned shift = 63;
  while ((uint64_t)1 << (64 - shift) < count) shift--;
  for (unsigned larger = 0; larger < SIZES; larger++, shift--) {
    *bytes = bits_round_up(sizeof(struct bucket) << (64 - shift), GRANULE_SIZE);
    struct bucket *buckets = os_map(*bytes);
    if (!buckets) {
      *bytes = 0;
      return NULL;
    }
    for (uint64_t i = 0; i < MULTIPLIERS; i++) {
      uint64_t multiplier = UINT64_C(0x9e3779b97f4a7c15) * (2 * i + 1);
      if (!fill(buckets, groups, count, multiplier, shift)) continue;
      table.buckets = buckets;
      table.multiplier = multiplier;
      table.shift = shift;
      return buckets;
    }
    os_unmap((uintptr_t)buckets, *bytes);
  }
  return NULL;
}

const char *prepared_index(struct stores *all, size_t *bytes, bool *permitted) {
  size_t heaps = 0;
  for (struct stores *stores = all; stores; stores = stores->next) heaps++;
  // For each heap at most: a group, its place in it, and one word of each level.
  size_t each = sizeof(struct group) + sizeof(struct stores *) + LEVELS * sizeof(uint64_t);
  *bytes = bits_round_up(heaps * each, GRANULE_SIZE);
  struct group *groups = os_map(*bytes);
  if (!groups) return prepared_no_memory;
  struct stores **place = (struct stores **)(groups + heaps);
  _Atomic uint64_t *words = (_Atomic uint64_t *)(place + heaps);
  uint32_t count = 0;
  for (struct stores *stores = all; stores; stores = stores->next) {
    struct group *group = group_of(groups, count, stores->heap->routine);
    if (!group) {
      group = &groups[count++];
      group->routine = stores->heap->routine;
    }
    stores->group = group;
    stores->number = group->count++;
    if (group->count > HEAPS_MOST) return "it has more threads of one routine than this version can prepare";
  }
  for (struct group *group = groups; group < groups + count; group++) {
    uint64_t zero = words_for(group->count), one = words_for(zero);
    group->heaps = place;
    group->waiting[0] = words;
    group->waiting[1] = words + zero;
    group->waiting[2] = words + zero + one;
    place += group->count;
    words += zero + one + 1;
  }
  for (struct stores *stores = all; stores; stores = stores->next) {
    stores->group->heaps[stores->number] = stores;
    prepared_leave(stores);
  }
  size_t table_bytes;
  struct bucket *buckets = make_buckets(groups, count, &table_bytes);
  if (!buckets) return table_bytes ? "its threads' routines cannot be told apart quickly enough" : prepared_no_memory;
  if (!os_pin(groups, *bytes)) *permitted = false;
  if (!os_pin(buckets, table_bytes)) *permitted = false;
  *bytes += table_bytes;
  return NULL;
}
