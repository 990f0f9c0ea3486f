// See plan.h.
#include "plan.h"

#include <string.h>

#include "extent.h"
#include "medium.h"
#include "store.h"

size_t plan_bytes(uint64_t blocks, unsigned bin) { return bits_round_up(blocks * bin_size(bin), GRANULE_SIZE); }
size_t plan_store_bytes(const struct plan *plan, unsigned bin) {
  return plan_bytes(plan->blocks[bin], bin) + plan->room[bin];
}

// ---- stores ----

// A bin in pages has a few blocks more, as a free may be on its way for a while. Of eight bins, of which the last is a
// power of two and at most twice as large as the first (but for 16 to 128 bytes), those that were not at their peaks at
// the same time share the last one's store, where that takes a quarter less memory: so their blocks are still near each
// other, and have whatever alignment their own would have.
struct eight {
  unsigned first, last;   // bins
  uint64_t blocks, more;  // of one store for all; of these, BLOCKS_MORE for each bin that has any
  uint64_t apart;         // bytes of a store for each
};
enum { BLOCKS_MORE = 2 };

static struct eight look_at_eight(const struct profile_record *thread, unsigned number) {
  struct eight eight = {.first = number * CLASSES_PER_DOUBLING + 1};
  eight.last = eight.first + CLASSES_PER_DOUBLING - 1;
  uint64_t sum = 0, at_once = thread->small_at_once[number];
  for (unsigned bin = eight.first; bin <= eight.last; bin++) {
    if (!thread->blocks[bin]) continue;
    sum += thread->blocks[bin];
    eight.more += BLOCKS_MORE;
    eight.apart += plan_bytes(thread->blocks[bin] + (uint64_t)BLOCKS_MORE, bin);
  }
  eight.blocks = (at_once && at_once < sum ? at_once : sum) + eight.more;
  return eight;
}

// (Who asks for what all have in common may ask as an eight of its own heap, which shares a store: PROFILE_EIGHT.)
static bool shares_store(const struct profile_record *thread, unsigned number, const struct eight *eight) {
  if (!eight->more || eight->blocks > STORE_BLOCKS_MAX) return false;
  return thread->flags & (uint32_t)PROFILE_EIGHT << number ||
         plan_bytes(eight->blocks, eight->last) <= eight->apart / 4 * 3;
}

static void plan_eight(const struct profile_record *thread, unsigned number, struct plan *plan) {
  struct eight eight = look_at_eight(thread, number);
  bool share = shares_store(thread, number, &eight);
  for (unsigned bin = eight.first; bin <= eight.last; bin++) {
    if (!thread->blocks[bin]) continue;
    plan->store[bin] = (uint16_t)(share ? eight.last : bin);
    plan->blocks[plan->store[bin]] = share ? eight.blocks : thread->blocks[bin] + (uint64_t)BLOCKS_MORE;
    plan->reserve += BLOCKS_MORE * bin_size(plan->store[bin]);
  }
}

static void plan_pages(const struct profile_record *thread, struct plan *plan) {
  for (unsigned eight = 0; eight < PROFILE_EIGHTS; eight++) plan_eight(thread, eight, plan);
}

// Large sizes that were not at their peaks at the same time share a store, of blocks of the largest of them, where that
// takes less memory than a store for each. Which do is chosen by doublings of the size, as the profile has for each
// doubling how many blocks were at least as large at one time. Whatever the order of requests, the store has a block.

enum { FIRST = CLASSES + 1, STEP = CLASSES_PER_DOUBLING };

// What compares: no overflow, and too much is too much.
static uint64_t weight(uint64_t blocks, unsigned bin) {
  const uint64_t most = UINT64_C(1) << 56;
  return blocks > most / bin_size(bin) ? most : blocks * bin_size(bin);
}

struct doubling {
  uint64_t blocks, apart;  // of all its bins; bytes where each bin has its own store
  unsigned largest;        // bin; 0: it has no blocks
  uint64_t least;          // bytes for this and all smaller ones,
  unsigned from;           // where those from this one on share a store; PROFILE_DOUBLINGS: this one's bins do not
};

static void look_at(const struct profile_record *thread, size_t from, unsigned number, struct doubling *doubling) {
  *doubling = (struct doubling){.from = PROFILE_DOUBLINGS};
  if (thread->alignment[number]) return;  // they share no store
  for (unsigned bin = FIRST + number * STEP; bin < FIRST + (number + 1) * STEP; bin++) {
    if (!thread->blocks[bin] || bin_size(bin) <= from) continue;
    doubling->blocks += thread->blocks[bin];
    doubling->apart += weight(thread->blocks[bin], bin);
    doubling->largest = bin;
  }
}

// Blocks of the doublings `from` to `last` at one time, at most.
static uint64_t at_once(const struct profile_record *thread, const struct doubling *all, unsigned from, unsigned last) {
  uint64_t sum = 0;
  for (unsigned i = from; i <= last; i++) sum += all[i].blocks;
  return thread->large_from[from] && thread->large_from[from] < sum ? thread->large_from[from] : sum;
}

static void choose(const struct profile_record *thread, struct doubling *all, unsigned last) {
  struct doubling *d = &all[last];
  d->least = d->apart + (last ? all[last - 1].least : 0);
  if (!d->largest) return;
  for (unsigned from = last + 1; from-- > 0;) {
    uint64_t below = from ? all[from - 1].least : 0;
    uint64_t shared = below + weight(at_once(thread, all, from, last), d->largest);
    if (shared < d->least) d->least = shared, d->from = from;
  }
}

static size_t alignment_of(const struct profile_record *thread, unsigned bin) {
  return thread->alignment[(bin - FIRST) / STEP];
}

// Its blocks are aligned as some of their doubling have to be; or, where their size is no multiple of that, to as much
// as it is a multiple of.
static void plan_own_store(const struct profile_record *thread, unsigned bin, struct plan *plan) {
  size_t alignment = alignment_of(thread, bin), most = bin_size(bin) & -bin_size(bin);
  plan->store[bin] = (uint16_t)bin;
  plan->blocks[bin] = thread->blocks[bin];
  plan->room[bin] = alignment ? (uint32_t)((alignment < most ? alignment : most) - GRANULE_SIZE) : 0;
  plan->reserve += plan->room[bin];
}

// Of blocks larger than plan->spans_most.
static void plan_large(const struct profile_record *thread, struct plan *plan) {
  struct doubling all[PROFILE_DOUBLINGS];
  for (unsigned i = 0; i < PROFILE_DOUBLINGS; i++) {
    look_at(thread, plan->spans_most, i, &all[i]);
    choose(thread, all, i);
  }
  for (unsigned last = PROFILE_DOUBLINGS; last-- > 0;) {
    bool shares = all[last].from < PROFILE_DOUBLINGS;
    unsigned from = shares ? all[last].from : last, shared = all[last].largest;
    if (shares) plan->blocks[shared] = at_once(thread, all, from, last);
    for (unsigned bin = FIRST + from * STEP; bin < FIRST + (last + 1) * STEP; bin++) {
      if (!thread->blocks[bin] || bin_size(bin) <= plan->spans_most) continue;
      if (shares && !alignment_of(thread, bin))
        plan->store[bin] = (uint16_t)shared;
      else
        plan_own_store(thread, bin, plan);
    }
    last = from;
  }
}

// ---- the extent ----

static uint32_t granules_of(unsigned bin) { return (uint32_t)(bin_size(bin) >> GRANULE_SHIFT); }

// Granules for pages and spans where each segment may have less than `length` left in one piece, and those that are
// longer, of which there are `longer`, have half a segment each.
static uint64_t apart(const struct profile_record *thread, uint32_t length, uint64_t longer) {
  uint64_t granules = thread->granules, spans = thread->span_granules;
  return granules + spans * EXTENT_GRANULES / (EXTENT_GRANULES + 1 - length) - spans + longer * (SEGMENT_GRANULES / 2);
}

// What a segment's end is too short for: less than the largest span of each, or of most.
static uint64_t least_apart(const struct profile_record *thread, uint32_t largest) {
  uint64_t least = apart(thread, largest, 0), longer = 0;
  for (unsigned bin = BINS; bin-- > FIRST;) {
    if (bin_size(bin) > EXTENT_MAX || !thread->blocks[bin]) continue;
    uint64_t this = apart(thread, granules_of(bin), longer);
    if (granules_of(bin) < largest && this < least) least = this;
    longer += thread->blocks[bin];
  }
  return least;
}

// What the recorded thread had in pages and spans at one time, and for what their places may cost a PAGES_PART of the
// pages, a quarter of the spans and an eighth of the first 8 MiB of them, and MORE and the longest span. (They lie
// elsewhere even where requests come as they were recorded: a general heap gives spans back when there is time, an
// extent at once. Where there are many, it is a smaller part of them.) Who shares has chunks: one that needs little has
// as much more.
enum { PAGES_PART = 12, SPANS_PART = 4, MORE = 64 };
static uint64_t usual_granules(const struct profile_record *thread) {
  enum { FEW = (8 << 20) / GRANULE_SIZE };
  uint64_t granules = thread->granules;
  if (!granules) return 0;
  // Spans above EXTENT_SPAN_MAX have stores.
  uint32_t largest = thread->span_largest < EXTENT_SPAN_MAX ? thread->span_largest : EXTENT_SPAN_MAX;
  uint64_t spans = thread->span_granules < granules ? thread->span_granules : granules;
  uint64_t more = granules + (granules - spans) / PAGES_PART + (2 * spans + (spans < FEW ? spans : FEW)) / 8;
  uint64_t parts = least_apart(thread, largest ? largest : 1);
  uint64_t at_least = parts > more ? parts : more;
  if (thread->flags & PROFILE_SHARES) return at_least + (granules < MORE ? granules : MORE);
  return at_least + MORE + largest;
}

// But where the recorded thread left more free between its blocks than that, as no later request fitted, at least what
// its heap had in use and free together, and a little more.
static uint64_t footprint_granules(const struct profile_record *thread) {
  enum { FOOTPRINT_PART = 32 };
  return thread->footprint + thread->footprint / FOOTPRINT_PART + MORE;
}

static uint64_t extent_granules(const struct profile_record *thread) {
  uint64_t usual = usual_granules(thread), footprint = footprint_granules(thread);
  return thread->granules && footprint > usual ? footprint : usual;
}

// ---- the reserve of chunks ----

static bool leaves_much_free(const struct profile_record *thread) {
  uint64_t usual = usual_granules(thread);
  return footprint_granules(thread) > usual + usual / 8;
}

// One that had nothing may, too: a thread may come to use its heap that came to another one's while it was recorded.
static bool may_share(const struct profile_record *record) {
  if (!profile_is_thread(record) || record->span_largest > EXTENT_CHUNK) return false;
  return !record->granules || (record->granules > record->granules_least && !leaves_much_free(record));
}

// What a thread that shares keeps for itself.
static struct profile_record own_of(const struct profile_record *thread) {
  struct profile_record own = *thread;
  own.granules = thread->granules_least || !thread->granules ? thread->granules_least : 1;
  own.footprint = 0;
  own.flags |= PROFILE_SHARES;
  return own;
}

static bool is_first_of_routine(const struct profile *profile, const struct profile_record *record) {
  const struct profile_record *first = profile->record;
  while (!profile_is_thread(first) || !profile_same_routine(first, record)) first++;
  return first == record;
}

// What threads had together beyond the least of each: at most what the peaks of those that share are beyond it. `of`:
// those of its routine; NULL: all.
static uint64_t beyond_least(const struct profile *profile, uint64_t together, const struct profile_record *of) {
  uint64_t least = 0, most = 0;
  for (uint32_t at = 0; at < profile->header->records; at++) {
    const struct profile_record *record = &profile->record[at];
    if (!profile_is_thread(record) || (of && !profile_same_routine(record, of))) continue;
    least += record->granules_least;
    if (may_share(record)) most += record->granules - record->granules_least;
  }
  uint64_t beyond = together > least ? together - least : 0;
  return beyond < most ? beyond : most;
}

// In the run where all threads had the most, or where those of each routine had, whichever is less.
static uint64_t most_beyond_least(const struct profile *profile) {
  uint64_t all = 0, routines = 0;
  for (uint32_t at = 0; at < profile->header->records; at++) {
    const struct profile_record *record = &profile->record[at];
    if (!profile_is_thread(record))
      all = beyond_least(profile, record->granules, NULL);
    else if (is_first_of_routine(profile, record))
      routines += beyond_least(profile, record->together, record);
  }
  return all < routines ? all : routines;
}

// For what is left of a thread's last chunk half a one; and of the pages and the spans, of which there are `spans` in
// `granules`, as much more as in an extent.
static uint64_t chunks_for(uint64_t beyond, uint64_t spans, uint64_t granules, uint64_t threads) {
  uint64_t in_spans = granules ? (uint64_t)((unsigned __int128)beyond * spans / granules) : 0;
  uint64_t more = (beyond - in_spans) / PAGES_PART + in_spans / SPANS_PART;
  return (beyond + more + threads * (EXTENT_CHUNK / 2) + EXTENT_CHUNK - 1) / EXTENT_CHUNK;
}

uint64_t plan_share(struct profile *profile, uint64_t *reserve) {
  const uint64_t most = EXTENT_MOST / 2;  // a heap has a place for all chunks beside its own
  uint64_t before = 0, after = 0, threads = 0, spans = 0, granules = 0, beyond = most_beyond_least(profile);
  struct profile_record *end = profile->record + profile->header->records;
  for (struct profile_record *record = profile->record; record < end; record++) {
    if (!may_share(record)) continue;
    const struct profile_record kept = own_of(record);
    uint64_t own = extent_granules(&kept);
    if (own > most) return 0;
    before += extent_granules(record);
    after += own;
    threads += record->granules > 0;
    spans += record->span_granules < record->granules ? record->span_granules : record->granules;
    granules += record->granules;
  }
  uint64_t chunks = chunks_for(beyond, spans, granules, threads);
  *reserve = (chunks * EXTENT_CHUNK - beyond) << GRANULE_SHIFT;
  after += chunks * EXTENT_CHUNK;
  // Chunks of several threads lie among each other, and spans do not go from one to the next: it has to be worth that.
  if (!beyond || chunks * EXTENT_CHUNK > most || after + spans / SPANS_PART >= before) return 0;
  for (struct profile_record *record = profile->record; record < end; record++) {
    if (may_share(record)) *record = own_of(record);
  }
  return chunks;
}

// ---- what all threads have in common ----

// There are others of its routine, and one of these, or it, needed less by more than a 32nd in one run than in another.
static bool races(const struct profile *profile, const struct profile_record *thread) {
  enum { LITTLE = PROFILE_SPREAD_MOST / 32 };
  uint32_t threads = 0, differ = 0;
  for (uint32_t at = 0; at < profile->header->records; at++) {
    const struct profile_record *record = &profile->record[at];
    if (!profile_is_thread(record) || !profile_same_routine(record, thread)) continue;
    threads++;
    differ += profile_spread(record) > LITTLE;
  }
  return threads > 1 && differ;
}

// By as much as it differed it may differ once more, to an eighth of it. Of large blocks whole ones only.
static void add_spread(uint64_t *blocks, const struct profile_record *thread) {
  enum { MOST = PROFILE_SPREAD_MOST / 8 };
  uint64_t part = profile_spread(thread) < MOST ? profile_spread(thread) : MOST, up = PROFILE_SPREAD_MOST - 1;
  for (unsigned bin = 1; bin < BINS; bin++)
    blocks[bin] += (thread->blocks[bin] * part + (bin <= CLASSES ? up : 0)) / PROFILE_SPREAD_MOST;
}

static uint32_t sum_of(uint64_t a, uint64_t b) { return a + b < UINT32_MAX ? (uint32_t)(a + b) : UINT32_MAX; }

// A thread that has these, to be merged with others.
static void add_blocks(struct profile_record *common, const uint64_t *blocks) {
  struct profile_record more = *common;
  for (unsigned bin = 1; bin < BINS; bin++) {
    more.blocks[bin] = sum_of(common->blocks[bin], blocks[bin]);
    if (bin <= CLASSES) {
      uint32_t *eight = &more.small_at_once[(bin - 1) / CLASSES_PER_DOUBLING];
      *eight = sum_of(*eight, blocks[bin]);
      continue;
    }
    for (unsigned doubling = 0; doubling <= (bin - FIRST) / STEP; doubling++)
      more.large_from[doubling] = sum_of(more.large_from[doubling], blocks[bin]);
  }
  profile_most(common, &more);  // what is not known of `common` stays so
}

static uint32_t eights_that_share(const struct profile_record *thread) {
  uint32_t eights = 0;
  for (unsigned number = 0; number < PROFILE_EIGHTS; number++) {
    struct eight eight = look_at_eight(thread, number);
    if (shares_store(thread, number, &eight)) eights |= (uint32_t)PROFILE_EIGHT << number;
  }
  return eights;
}

bool plan_common(struct profile *profile) {
  uint32_t had = profile->header->records;
  struct profile_record common = {.flags = PROFILE_COMMON};
  uint64_t spread[BINS] = {0};
  const struct profile_record *before = NULL;
  bool racing = false;
  for (uint32_t at = 0; at < had; at++) {
    const struct profile_record *record = &profile->record[at];
    if (!profile_is_thread(record)) continue;
    // (The records of one routine often follow each other.)
    if (!before || !profile_same_routine(before, record)) racing = races(profile, record);
    before = record;
    common.flags |= eights_that_share(record);
    if (racing) {
      profile_most(&common, record);
    } else {
      add_spread(spread, record);
      profile_most_aligned(&common, record);
    }
  }
  add_blocks(&common, spread);
  if (!profile_has_blocks(&common, 1, BINS)) return true;
  struct profile larger;
  if (!profile_make(&larger, had + 1)) return false;
  memcpy(larger.record, profile->record, had * sizeof *larger.record);
  larger.record[had] = common;
  profile_drop(profile);
  *profile = larger;
  return true;
}

// ---- mode `seg`: which spans have stores ----

// What larger medium blocks have in stores is not in the extent.
static uint32_t footprint_without(const struct profile_record *thread, size_t spans_most) {
  uint64_t larger = 0;
  for (unsigned bin = FIRST; bin < BINS && bin_size(bin) <= MEDIUM_MAX; bin++)
    if (bin_size(bin) > spans_most) larger += thread->blocks[bin] * (uint64_t)granules_of(bin);
  return larger < thread->footprint ? thread->footprint - (uint32_t)larger : 0;
}

// What is left of it for the extent, if larger spans have stores: at most what its sizes need that are not larger.
static struct profile_record without_larger(const struct profile_record *thread, size_t spans_most) {
  struct profile_record left = *thread;
  uint64_t spans = 0;
  for (unsigned bin = FIRST; bin < BINS; bin++) {
    if (bin_size(bin) <= spans_most)
      spans += left.blocks[bin] * (uint64_t)granules_of(bin);
    else
      left.blocks[bin] = 0;
  }
  if (spans < left.span_granules) left.span_granules = (uint32_t)spans;
  uint64_t granules = (uint64_t)left.page_granules + left.span_granules;
  if (granules < left.granules) left.granules = (uint32_t)granules;
  uint32_t most = (uint32_t)(spans_most >> GRANULE_SHIFT);
  if (most < left.span_largest) left.span_largest = most;
  return left;
}

// The stores of blocks that could be spans have an eighth and one more of them, as an extent has room for some more.
static void plan_spans(const struct profile_record *thread, size_t spans_most, struct plan *plan) {
  *plan = (struct plan){.spans_most = spans_most};
  plan_large(thread, plan);
  for (unsigned bin = FIRST; bin < BINS && bin_size(bin) <= EXTENT_MAX; bin++) {
    uint64_t more = plan->blocks[bin] ? plan->blocks[bin] / 8 + 1 : 0;
    plan->blocks[bin] += more;
    plan->reserve += more * bin_size(bin);
  }
  struct profile_record left = spans_most < EXTENT_MAX ? without_larger(thread, spans_most) : *thread;
  left.footprint = footprint_without(thread, spans_most);
  plan->granules = extent_granules(&left);
  plan->longest = left.span_largest < EXTENT_SPAN_MAX ? left.span_largest : EXTENT_SPAN_MAX;
  plan->reserve += (plan->granules - left.granules) << GRANULE_SHIFT;
}

static uint64_t bytes_of(const struct plan *plan) {
  uint64_t sum = plan->granules << GRANULE_SHIFT;
  for (unsigned bin = FIRST; bin < BINS; bin++) sum += plan->blocks[bin] ? weight(plan->blocks[bin], bin) : 0;
  return sum;
}

// Large spans leave much of each segment that they do not fit into. Where an eighth of the memory is saved, those from
// some doubling of the size on have stores.
static void plan_extent(const struct profile_record *thread, struct plan *plan) {
  plan_spans(thread, EXTENT_MAX, plan);
  uint64_t all = bytes_of(plan), least = all - all / 8;
  for (size_t most = 2 * BLOCK_MAX; most < EXTENT_MAX && !(thread->flags & PROFILE_SHARES); most *= 2) {
    struct plan other;
    plan_spans(thread, most, &other);
    if (bytes_of(&other) < least) *plan = other, least = bytes_of(plan);
  }
}

void plan_make(const struct profile_record *thread, enum mode mode, struct plan *plan) {
  if (mode == MODE_SEG) {
    plan_extent(thread, plan);
    return;
  }
  *plan = (struct plan){.spans_most = BLOCK_MAX};
  plan_pages(thread, plan);
  plan_large(thread, plan);
}
