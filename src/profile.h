// The profile: how many blocks of each bin each thread has at most, as a file. Layer: above bin, os, message.
// Used by record (which writes it) and mode (which loads it). docs/profile-format.md has the layout.
#ifndef RTM_PROFILE_H
#define RTM_PROFILE_H

#include "bin.h"
#include "message.h"

enum {
  PROFILE_VERSION = 8,
  PROFILE_MODULE = 56,
  PROFILE_PAGE_KINDS = 3,
  PROFILE_PROCESS = 1,
  // In memory only:
  PROFILE_SHARES = 2,       // plan_share
  PROFILE_COMMON = 4,       // plan_common
  PROFILE_SPREAD = 8,       // profile_level: 0 to 64 of these
  PROFILE_EIGHT = 1 << 16,  // plan_common: from here on a bit for each eight that shares a store
  PROFILE_DOUBLINGS = BINS_LARGE / CLASSES_PER_DOUBLING,
  PROFILE_EIGHTS = CLASSES / CLASSES_PER_DOUBLING
};

// One thread's peaks; a record of the file has these very bytes, which fill a multiple of 4.
struct __attribute__((packed, aligned(4))) profile_record {
  char module[PROFILE_MODULE];  // file name of the module with the thread's start routine; "": main; "*": the process
  uint64_t offset;              // of the routine in the module
  uint32_t index;               // among the live threads of that routine
  uint32_t flags;               // PROFILE_PROCESS
  uint32_t blocks[BINS];
  uint32_t pages[PROFILE_PAGE_KINDS];  // of at most 4, 32 and 64 KiB
  uint32_t granules;                   // in pages and medium blocks together, at one time
  uint32_t span_granules;              // in medium blocks
  uint32_t span_largest;               // granules
  uint32_t threads_peak;
  uint32_t page_granules;  // in pages
  // Granules of all blocks at their peaks, in the run where these were the fewest; 0: one run had no such thread.
  uint32_t least;
  uint32_t granules_least;  // what `granules` was in the run where it was the fewest; 0: one run had no such thread
  uint32_t together;        // `granules` of all threads of its routine, in the run where they were the most
  uint32_t footprint;       // granules of pages and medium blocks, and of what was free between them
  // Blocks larger than BLOCK_MAX << i at one time.
  uint32_t large_from[PROFILE_DOUBLINGS];
  // Blocks of the bins 8i + 1 to 8i + 8 at one time.
  uint32_t small_at_once[PROFILE_EIGHTS];
  // The largest alignment above a granule that was asked for, of blocks larger than BLOCK_MAX << i, and not than twice
  // that: bytes; 0: none.
  uint32_t alignment[PROFILE_DOUBLINGS];
};

struct profile_header {
  char magic[8];
  uint32_t version, header_bytes;
  uint64_t build;
  uint32_t records, record_bytes, bins, runs;
  uint64_t bytes, reserved, checksum;
};
_Static_assert(sizeof(struct profile_header) == 64, "as the format says");
_Static_assert(sizeof(struct profile_record) == 72 + 4 * BINS + 48 + 8 * PROFILE_DOUBLINGS + 4 * PROFILE_EIGHTS,
               "as the format says");

// A whole profile in memory of its own (os_map).
struct profile {
  struct profile_header *header;
  struct profile_record *record;
  size_t mapped;
};

// Reads and checks the file. NULL, or why it cannot be used; then nothing is held.
const char *profile_read(const char *path, struct profile *profile);
// Memory for so many records, zeroed, with a header for them. False: out of memory.
bool profile_make(struct profile *profile, uint32_t records);
// Writes it beside the file, and then in its place, so that the old one is whole until the new one is. NULL, or why it
// failed; then the old one is as it was.
const char *profile_write(const char *path, struct profile *profile);
void profile_drop(struct profile *profile);
// Takes over the other's records: by maximum where both have one. False: out of memory.
bool profile_merge(struct profile *profile, const struct profile *other);
// `profile` was merged with `old`, and is no run more: the number of runs, and what a thread had at least, stay as they
// were.
void profile_same_runs(struct profile *profile, const struct profile *old);
// As profile_merge with what forked children of the same run have written: no run more.
bool profile_join(struct profile *profile, const struct profile *part);
// Threads of a routine whose peaks are alike get the maximum over these: which of them comes first is chance. Alike are
// those with at most PROFILE_ALIKE times as many bytes in blocks, PROFILE_LITTLE more counted for each, unless the runs
// tell them apart: in PROFILE_TELLS runs or more, the one never had two thirds of what the other always had. (A program
// may start all its threads at one routine, as the JVM does. Where they differ by less, the one may still come to have
// what the other had: where one ends before another starts, which no recorded run needs to have shown.) Threads that
// are alike both ways, of which neither always had more than the other ever, get the least of what they had at least,
// too; and all of a routine what they had together. False: out of memory, and nothing changed.
enum { PROFILE_ALIKE = 4, PROFILE_LITTLE = 16 << 10, PROFILE_TELLS = 5 };
//
// Each gets how many 64ths less one run had of it than another: that many times PROFILE_SPREAD in its flags.
enum { PROFILE_SPREAD_MOST = 64 };
bool profile_level(struct profile *profile);
RTM_INLINE uint32_t profile_spread(const struct profile_record *record) {
  return record->flags % PROFILE_EIGHT / PROFILE_SPREAD;
}
// Any, of the bins from `first` on, before `end`.
bool profile_has_blocks(const struct profile_record *record, unsigned first, unsigned end);
// The maximum of both, but for what a thread had at least; and of their alignments alone.
void profile_most(struct profile_record *mine, const struct profile_record *other);
void profile_most_aligned(struct profile_record *mine, const struct profile_record *other);
bool profile_same_routine(const struct profile_record *a, const struct profile_record *b);
// Not the whole process's.
RTM_INLINE bool profile_is_thread(const struct profile_record *record) { return !(record->flags & PROFILE_PROCESS); }
// What `least` has of one run: 1 at least.
uint32_t profile_weight(const struct profile_record *record);

#endif
