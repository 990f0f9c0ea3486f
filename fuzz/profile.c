// Fuzzing of the profile's reader: any bytes as a file. It has to be refused with a reason, or hold what the format
// promises; then it is levelled, merged and written, and what was written has to be read again as it was.
//
//   byte 0   1: magic, version, lengths, build and checksum are made right, so that what lies behind them is reached
//   rest     the file
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../src/extent.h"
#include "../src/plan.h"
#include "../src/profile.c"

#define CHECK(condition) ((condition) ? (void)0 : (fprintf(stderr, "failed: %s\n", #condition), abort()))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int file;
static char path[64];

static void repair(unsigned char *contents, size_t size) {
  struct profile_header *header = (struct profile_header *)contents;
  if (size < sizeof *header) return;
  memcpy(header->magic, magic, sizeof magic);
  header->version = PROFILE_VERSION;
  header->header_bytes = sizeof *header;
  header->build = build();
  header->records = (uint32_t)((size - sizeof *header) / sizeof(struct profile_record));
  header->record_bytes = sizeof(struct profile_record);
  header->bins = BINS;
  header->reserved = 0;
  header->bytes = size;
  header->checksum = checksum(header);
}

static void put(const unsigned char *contents, size_t size) {
  CHECK(ftruncate(file, 0) == 0);
  CHECK(pwrite(file, contents, size, 0) == (ssize_t)size);
}

static uint64_t blocks_of_all(const struct profile *profile) {
  uint64_t sum = 0;
  for (uint32_t at = 0; at < profile->header->records; at++)
    for (unsigned bin = 0; bin < BINS; bin++) sum += profile->record[at].blocks[bin];
  return sum;
}

// Each recorded size has a store of blocks at least as large, or (mode `seg`) its place in the extent.
static void check_plans(const struct profile_record *record) {
  static const enum mode modes[] = {MODE_SEG, MODE_PAG};
  for (unsigned i = 0; i < 2; i++) {
    struct plan plan;
    plan_make(record, modes[i], &plan);
    CHECK(plan.spans_most >= BLOCK_MAX && plan.spans_most <= EXTENT_MAX);
    for (unsigned bin = 1; bin < BINS; bin++) {
      unsigned store = plan.store[bin];
      bool in_extent = modes[i] == MODE_SEG && bin_size(bin) <= plan.spans_most;
      CHECK((store != 0) == (record->blocks[bin] && !in_extent));
      CHECK(!store || (store >= bin && plan.blocks[store]));
    }
  }
}

// A thread that shares keeps less than its peak, and has chunks for the rest.
static void check_share(struct profile *profile, const struct profile *before) {
  uint64_t reserve, chunks = plan_share(profile, &reserve);
  CHECK(chunks <= EXTENT_MOST / EXTENT_CHUNK);
  for (uint32_t at = 0; at < profile->header->records; at++) {
    const struct profile_record *record = &profile->record[at];
    bool shares = record->flags & PROFILE_SHARES;
    CHECK(!shares || (chunks && record->span_largest <= EXTENT_CHUNK));
    CHECK(shares ? record->granules <= before->record[at].granules : record->granules == before->record[at].granules);
  }
}

// What all threads have in common is no thread's own, and no more than of all together; the rest stays.
static void check_common(struct profile *profile) {
  uint32_t records = profile->header->records;
  uint64_t before = blocks_of_all(profile);
  CHECK(plan_common(profile));
  uint32_t more = profile->header->records - records;
  CHECK(more <= 1 && blocks_of_all(profile) <= 3 * before);
  for (uint32_t at = 0; at < profile->header->records; at++)
    CHECK(!(profile->record[at].flags & PROFILE_COMMON) == (at < records));
  for (uint32_t at = records; at < profile->header->records; at++) check_plans(&profile->record[at]);
}

// A good profile: what the rest of the library relies on.
static void use(struct profile *profile) {
  uint32_t records = profile->header->records;
  CHECK(sizeof *profile->header + records * sizeof(struct profile_record) == profile->header->bytes);
  for (uint32_t at = 0; at < records; at++) {
    CHECK(memchr(profile->record[at].module, 0, PROFILE_MODULE));
    CHECK(profile->record[at].blocks[0] == 0);
  }
  for (uint32_t at = 0; at < records; at++) check_plans(&profile->record[at]);
  uint64_t before = blocks_of_all(profile);
  struct profile same;
  CHECK(profile_read(path, &same) == NULL);
  CHECK(profile_merge(profile, &same));
  CHECK(profile->header->records == records && blocks_of_all(profile) == before);
  CHECK(profile_level(profile));
  CHECK(blocks_of_all(profile) >= before);
  // What is known in memory only.
  for (uint32_t at = 0; at < records; at++) profile->record[at].flags %= PROFILE_SPREAD;
  profile->header->checksum = checksum(profile->header);
  put((unsigned char *)profile->header, profile->header->bytes);
  profile_drop(&same);
  CHECK(profile_read(path, &same) == NULL);
  CHECK(memcmp(same.record, profile->record, records * sizeof(struct profile_record)) == 0);
  check_share(profile, &same);
  CHECK(profile_level(&same));
  check_common(&same);
  profile_drop(&same);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!file) {
    file = memfd_create("profile", 0);
    CHECK(file > 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  }
  if (size < 1) return 0;
  unsigned char *contents = malloc(size);
  memcpy(contents, data + 1, size - 1);
  if (data[0] & 1) repair(contents, size - 1);
  put(contents, size - 1);
  free(contents);
  struct profile profile;
  const char *wrong = profile_read(path, &profile);
  if (wrong) {
    CHECK(wrong[0] && !profile.header);
  } else {
    use(&profile);
    profile_drop(&profile);
  }
  return 0;
}
