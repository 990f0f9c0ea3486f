// See profile.h.
#define _GNU_SOURCE
#include "profile.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "os/file.h"
#include "os/os.h"
#include "rtmalloc.h"

static const char magic[8] = {'R', 'T', 'M', 'P', 'R', 'O', 'F', '\n'};
enum { RECORDS_MOST = 65536, PATH_MOST = 4096 };

static uint64_t hash(uint64_t value, const void *bytes, size_t count) {
  const unsigned char *at = bytes;
  for (size_t i = 0; i < count; i++) value = (value ^ at[i]) * UINT64_C(0x100000001b3);
  return value;
}
static const uint64_t hash_start = UINT64_C(0xcbf29ce484222325);

// FNV-1a with the checksum's own bytes taken as zero.
static uint64_t checksum(const struct profile_header *header) {
  static const char zeros[sizeof header->checksum];
  uint64_t value = hash(hash_start, header, offsetof(struct profile_header, checksum));
  value = hash(value, zeros, sizeof zeros);
  return hash(value, header + 1, header->bytes - sizeof *header);
}

// What a profile's figures mean depends on the bins and on the page's shape: a build that changes one has another
// number.
static uint64_t build(void) {
  const uint32_t shape[] = {RTM_VERSION_MAJOR, RTM_VERSION_MINOR, BINS,        CLASSES, BLOCK_MAX,
                            PAGE_BLOCKS_MAX,   PAGE_GRANULES_MAX, GRANULE_SIZE};
  return hash(hash_start, shape, sizeof shape);
}

bool profile_make(struct profile *profile, uint32_t records) {
  size_t bytes = sizeof *profile->header + records * sizeof(struct profile_record);
  profile->mapped = bits_round_up(bytes, GRANULE_SIZE);
  profile->header = os_map(profile->mapped);
  if (!profile->header) return false;
  memcpy(profile->header->magic, magic, sizeof magic);
  profile->header->version = PROFILE_VERSION;
  profile->header->header_bytes = sizeof *profile->header;
  profile->header->build = build();
  profile->header->records = records;
  profile->header->record_bytes = sizeof(struct profile_record);
  profile->header->bins = BINS;
  profile->header->runs = 1;
  profile->header->bytes = bytes;
  profile->record = (struct profile_record *)(profile->header + 1);
  return true;
}

void profile_drop(struct profile *profile) {
  if (profile->header) os_unmap((uintptr_t)profile->header, profile->mapped);
  *profile = (struct profile){0};
}

bool profile_same_routine(const struct profile_record *a, const struct profile_record *b) {
  return a->offset == b->offset && strncmp(a->module, b->module, PROFILE_MODULE) == 0;
}
static bool same_thread(const struct profile_record *a, const struct profile_record *b) {
  return a->index == b->index && profile_same_routine(a, b);
}

static bool is_alignment(uint32_t alignment) {
  return alignment > GRANULE_SIZE && alignment <= STORE_ALIGNMENT_MAX && bits_is_power_of_two(alignment);
}

static const char *check_record(const struct profile *profile, uint32_t at) {
  const struct profile_record *record = &profile->record[at];
  if (!memchr(record->module, 0, PROFILE_MODULE)) return "a record's module name does not end";
  bool process = strcmp(record->module, "*") == 0;
  if (record->flags != (process ? PROFILE_PROCESS : 0)) return "a record has flags that this version does not know";
  if (record->blocks[0]) return "a record counts blocks that cannot exist";
  for (unsigned i = 0; i < PROFILE_DOUBLINGS; i++)
    if (record->alignment[i] && !is_alignment(record->alignment[i])) return "a record has an alignment that cannot be";
  return NULL;
}

// The records are in no order that this reader relies on.
static const char *check_names(const struct profile *profile) {
  uint32_t records = profile->header->records;
  size_t mapped = bits_round_up((records + 1) * sizeof(uint64_t), GRANULE_SIZE);
  uint64_t *name = os_map(mapped);
  if (!name) return "there is no memory to read it";
  const char *wrong = NULL;
  for (uint32_t at = 0; at < records && !wrong; at++) {
    const struct profile_record *record = &profile->record[at];
    name[at] = hash(hash(hash_start, record->module, strlen(record->module)), &record->offset, 12);  // and the index
    for (uint32_t before = 0; before < at; before++)
      if (name[at] == name[before] && same_thread(record, &profile->record[before]))
        wrong = "it has two records for one thread";
  }
  os_unmap((uintptr_t)name, mapped);
  return wrong;
}

static const char *check(const struct profile *profile, size_t got) {
  const struct profile_header *h = profile->header;
  if (got == 0) return "the file is empty; record it again";
  if (memcmp(h->magic, magic, got < sizeof magic ? got : sizeof magic) != 0) return "it is not a profile";
  if (got < sizeof *h) return "it is truncated; record it again";
  if (h->version != PROFILE_VERSION) return "it has another format version; record it again with this library";
  if (h->bytes != got) return got < h->bytes ? "it is truncated; record it again" : "it has bytes behind its end";
  if (checksum(h) != h->checksum) return "it is damaged: its checksum does not fit; record it again";
  if (h->build != build() || h->bins != BINS || h->record_bytes != sizeof(struct profile_record))
    return "it was recorded with another build of rtmalloc; record it again with this one";
  if (h->header_bytes != sizeof *h || h->reserved || h->records > RECORDS_MOST ||
      sizeof *h + (uint64_t)h->records * sizeof(struct profile_record) != got)
    return "its header contradicts itself";
  for (uint32_t at = 0; at < h->records; at++) {
    const char *wrong = check_record(profile, at);
    if (wrong) return wrong;
  }
  return check_names(profile);
}

const char *profile_read(const char *path, struct profile *profile) {
  *profile = (struct profile){0};
  size_t size;
  const char *wrong = os_file_size(path, &size);
  if (wrong) return wrong;
  if (size > sizeof *profile->header + RECORDS_MOST * sizeof(struct profile_record))
    return "it is larger than any profile";
  profile->mapped = bits_round_up(size + sizeof *profile->header, GRANULE_SIZE);
  profile->header = os_map(profile->mapped);
  if (!profile->header) return "there is no memory to read it";
  profile->record = (struct profile_record *)(profile->header + 1);
  long got = os_read_file(path, (char *)profile->header, size);
  wrong = got < 0 ? "it cannot be read; check its permissions" : check(profile, (size_t)got);
  if (wrong) profile_drop(profile);
  return wrong;
}

const char *profile_write(const char *path, struct profile *profile) {
  char beside[PATH_MOST + 32], target[PATH_MAX];
  struct text text = {beside, sizeof beside - 1, 0};
  const char *wrong = os_follow_link(&path, target);
  if (wrong) return wrong;
  if (strlen(path) > PATH_MOST) return "the file name is too long";
  text_add(&text, path);
  text_add(&text, ".");
  text_add_number(&text, (uint64_t)getpid());
  text_add(&text, ".part");
  beside[text.length] = 0;
  profile->header->checksum = checksum(profile->header);
  return os_replace_file(path, beside, (const char *)profile->header, profile->header->bytes);
}

static void most(uint32_t *mine, uint32_t other) {
  if (other > *mine) *mine = other;
}

static void least(uint32_t *mine, uint32_t other) {
  if (other < *mine) *mine = other;
}

bool profile_has_blocks(const struct profile_record *record, unsigned first, unsigned end) {
  for (unsigned bin = first; bin < end; bin++)
    if (record->blocks[bin]) return true;
  return false;
}

// How many blocks of the bins from `first` on, before `end`, there were at one time, in one record or the other. 0
// where there are such blocks: that is not known, as each size is to have its own store.
struct at_once {
  const struct profile_record *record;
  uint32_t blocks;
};
static uint32_t most_at_once(struct at_once a, struct at_once b, unsigned first, unsigned end) {
  bool known = (a.blocks || !profile_has_blocks(a.record, first, end)) &&
               (b.blocks || !profile_has_blocks(b.record, first, end));
  if (!known) return 0;
  return a.blocks > b.blocks ? a.blocks : b.blocks;
}

static void most_of_all_at_once(struct profile_record *mine, const struct profile_record *other) {
  enum { EIGHT = CLASSES_PER_DOUBLING };
  for (unsigned i = 0; i < PROFILE_DOUBLINGS; i++) {
    struct at_once a = {mine, mine->large_from[i]}, b = {other, other->large_from[i]};
    mine->large_from[i] = most_at_once(a, b, CLASSES + 1 + i * EIGHT, BINS);
  }
  for (unsigned i = 0; i < PROFILE_EIGHTS; i++) {
    struct at_once a = {mine, mine->small_at_once[i]}, b = {other, other->small_at_once[i]};
    mine->small_at_once[i] = most_at_once(a, b, i * EIGHT + 1, (i + 1) * EIGHT + 1);
  }
}

void profile_most_aligned(struct profile_record *mine, const struct profile_record *other) {
  for (unsigned i = 0; i < PROFILE_DOUBLINGS; i++) most(&mine->alignment[i], other->alignment[i]);
}

void profile_most(struct profile_record *mine, const struct profile_record *other) {
  profile_most_aligned(mine, other);
  most_of_all_at_once(mine, other);
  for (unsigned bin = 0; bin < BINS; bin++) most(&mine->blocks[bin], other->blocks[bin]);
  for (unsigned kind = 0; kind < PROFILE_PAGE_KINDS; kind++) most(&mine->pages[kind], other->pages[kind]);
  most(&mine->granules, other->granules);
  most(&mine->span_granules, other->span_granules);
  most(&mine->span_largest, other->span_largest);
  most(&mine->threads_peak, other->threads_peak);
  most(&mine->page_granules, other->page_granules);
  most(&mine->together, other->together);
  most(&mine->footprint, other->footprint);
}

static struct profile_record *find(const struct profile *profile, const struct profile_record *thread) {
  for (uint32_t at = 0; at < profile->header->records; at++)
    if (same_thread(&profile->record[at], thread)) return &profile->record[at];
  return NULL;
}

bool profile_merge(struct profile *profile, const struct profile *other) {
  uint32_t had = profile->header->records, more = 0;
  for (uint32_t at = 0; at < other->header->records; at++) more += !find(profile, &other->record[at]);
  struct profile merged;
  if (!profile_make(&merged, had + more)) return false;
  memcpy(merged.record, profile->record, had * sizeof(struct profile_record));
  merged.header->records = had;
  for (uint32_t at = 0; at < had; at++)
    if (!find(other, &merged.record[at])) merged.record[at].least = merged.record[at].granules_least = 0;
  for (uint32_t at = 0; at < other->header->records; at++) {
    struct profile_record *mine = find(&merged, &other->record[at]);
    if (mine) {
      profile_most(mine, &other->record[at]);
      least(&mine->least, other->record[at].least);
      least(&mine->granules_least, other->record[at].granules_least);
    } else {
      mine = &merged.record[merged.header->records++];
      memcpy(mine, &other->record[at], sizeof *mine);
      mine->least = mine->granules_least = 0;
    }
  }
  merged.header->runs = profile->header->runs + other->header->runs;
  profile_drop(profile);
  *profile = merged;
  return true;
}

void profile_same_runs(struct profile *profile, const struct profile *old) {
  profile->header->runs = old->header->runs;
  for (uint32_t at = 0; at < profile->header->records; at++) {
    struct profile_record *record = &profile->record[at];
    const struct profile_record *was = find(old, record);
    record->least = was ? was->least : 0;
    record->granules_least = was ? was->granules_least : 0;
  }
}

bool profile_join(struct profile *profile, const struct profile *part) {
  struct profile own;
  if (!profile_make(&own, profile->header->records)) return false;
  memcpy(own.record, profile->record, profile->header->records * sizeof *own.record);
  uint32_t runs = profile->header->runs;
  bool merged = profile_merge(profile, part);
  for (uint32_t at = 0; merged && at < profile->header->records; at++) {
    struct profile_record *record = &profile->record[at];
    const struct profile_record *was = find(&own, record);
    if (!was) was = find(part, record);
    record->least = was->least;
    record->granules_least = was->granules_least;
  }
  if (merged) profile->header->runs = runs;
  profile_drop(&own);
  return merged;
}

static uint64_t weight(const struct profile_record *record) {
  uint64_t bytes = 0;
  for (unsigned bin = 0; bin < BINS; bin++) bytes += record->blocks[bin] * (uint64_t)bin_size(bin);
  return bytes;
}

uint32_t profile_weight(const struct profile_record *record) {
  uint64_t granules = (weight(record) >> GRANULE_SHIFT) + 1;
  return granules < UINT32_MAX ? (uint32_t)granules : UINT32_MAX;
}

// What is compared of a thread. It is alike to those that have the weight that it needs. So those that are alike to a
// thread are the first in the order of what they need: a merge for each thread, and not for each two.
struct standing {
  uint64_t routine;  // a hash of it
  uint64_t weight, need, need_always;
  uint32_t at, granules_least;
  uint32_t spread;
};

static struct standing stand(const struct profile *profile, uint32_t at) {
  const struct profile_record *record = &profile->record[at];
  struct standing s = {.weight = weight(record), .at = at, .granules_least = record->granules_least};
  uint64_t most = profile_weight(record), differs = most - (record->least < most ? record->least : most);
  s.spread = (uint32_t)((differs * PROFILE_SPREAD_MOST + most - 1) / most);
  s.routine = hash(hash(hash_start, record->module, strlen(record->module)), &record->offset, sizeof record->offset);
  uint64_t alike = (s.weight + PROFILE_LITTLE) / PROFILE_ALIKE;
  s.need = alike > PROFILE_LITTLE ? alike - PROFILE_LITTLE : 0;
  bool tells = profile->header->runs >= PROFILE_TELLS && record->least;
  uint64_t always = tells ? (uint64_t)(record->least - 1) << GRANULE_SHIFT : 0;
  s.need_always = s.need > always ? s.need : always;
  if (s.need < always * 2 / 3) s.need = always * 2 / 3;
  return s;
}

static uint64_t by_weight(const struct standing *s) { return s->weight; }
static uint64_t by_need(const struct standing *s) { return s->need; }

// Shell's sort with Gonnet's gaps (Handbook of Algorithms and Data Structures, 1991, 4.1.4): libc's qsort may allocate.
static void sort(struct standing *all, uint32_t count, uint64_t (*key)(const struct standing *)) {
  for (uint32_t gap = count; gap > 1;) {
    gap = gap < 5 ? 1 : (uint32_t)((gap * UINT64_C(5) - 1) / 11);
    for (uint32_t i = gap; i < count; i++) {
      struct standing moving = all[i];
      uint32_t to = i;
      for (; to >= gap; to -= gap) {
        const struct standing *other = &all[to - gap];
        if (other->routine < moving.routine || (other->routine == moving.routine && key(other) <= key(&moving))) break;
        all[to] = *other;
      }
      all[to] = moving;
    }
  }
}

static uint32_t least_of_alike(const struct standing *mine, const struct standing *first, const struct standing *end) {
  uint32_t granules = mine->granules_least;
  for (const struct standing *its = first; its < end; its++)
    if (its->need_always <= mine->weight && mine->need_always <= its->weight) least(&granules, its->granules_least);
  return granules;
}

// One routine's threads. A record that has been levelled may be merged again: it has no more than what is merged.
static void level(struct profile *profile, const struct standing *weighed, const struct standing *needing,
                  uint32_t count) {
  struct profile_record most_of_alike = {0};
  uint32_t together = 0;
  for (uint32_t i = 0; i < count; i++) most(&together, profile->record[weighed[i].at].together);
  for (uint32_t i = 0, merged = 0; i < count; i++) {
    struct profile_record *record = &profile->record[weighed[i].at];
    for (; merged < count && needing[merged].need <= weighed[i].weight; merged++)
      profile_most(&most_of_alike, &profile->record[needing[merged].at]);
    profile_most(record, &most_of_alike);
    record->granules_least = least_of_alike(&weighed[i], weighed, weighed + count);
    record->together = together;
    record->flags |= weighed[i].spread * PROFILE_SPREAD;
  }
}

bool profile_level(struct profile *profile) {
  uint32_t records = profile->header->records;
  if (!records) return true;
  size_t mapped = bits_round_up(2 * records * sizeof(struct standing), GRANULE_SIZE);
  struct standing *weighed = os_map(mapped), *needing = weighed + records;
  if (!weighed) return false;
  for (uint32_t at = 0; at < records; at++) weighed[at] = needing[at] = stand(profile, at);
  sort(weighed, records, by_weight);
  sort(needing, records, by_need);
  for (uint32_t from = 0, to; from < records; from = to) {
    for (to = from; to < records && weighed[to].routine == weighed[from].routine; to++) {
    }
    level(profile, weighed + from, needing + from, to - from);
  }
  os_unmap((uintptr_t)weighed, mapped);
  return true;
}
