// See prepare.h.
#include "prepare.h"

#include <string.h>

#include "arena.h"
#include "os/os.h"
#include "os/pin.h"
#include "plan.h"
#include "prepared.h"

static const char too_large[] = "it needs more memory than the machine, or its control group, has at the moment";

enum { LINE = 64 };

static bool shares(const struct profile_record *thread) { return thread->flags & PROFILE_SHARES; }
static bool is_common(const struct profile_record *thread) { return thread->flags & PROFILE_COMMON; }

// `*sum`: bytes of all.
static const char *check_size(const struct plan *plan, size_t machine, size_t *sum) {
  for (unsigned bin = 1; bin < BINS; bin++) {
    uint64_t blocks = plan->blocks[bin];
    if (blocks > STORE_BLOCKS_MAX) return "it has more blocks of one size than a store can hold";
    if (blocks && bin_size(bin) > machine / blocks) return too_large;
    *sum += plan_store_bytes(plan, bin);
    if (*sum > machine) return too_large;
  }
  if (plan->granules > EXTENT_MOST) return "one of its threads needs more than 16 GiB: mode pag has no such limit";
  *sum += plan->granules << GRANULE_SHIFT;
  return *sum > machine ? too_large : NULL;
}

const char *prepare_check(const struct profile *profile, enum mode mode, uint64_t chunks) {
  size_t sum = chunks * EXTENT_CHUNK << GRANULE_SHIFT, machine = os_available_memory();
  bool any = false;
  for (uint32_t at = 0; at < profile->header->records; at++) {
    if (!profile_is_thread(&profile->record[at])) continue;
    any = true;
    struct plan plan;
    plan_make(&profile->record[at], mode, &plan);
    const char *wrong = check_size(&plan, machine, &sum);
    if (wrong) return wrong;
  }
  return any ? NULL : "it holds no thread";
}

// ---- where things lie ----

// Three times the same way: to measure the run, to lock it, and to make what lies there.
struct layout {
  const struct profile *profile;
  enum mode mode;
  uint64_t chunks;
  uint32_t first;      // granule of the window where the run begins; 0: there is none yet
  size_t hints;        // bytes of the extents' hint trees, which come first, as they are aligned more; up to here
  size_t heaps;        // the same of heaps and what else belongs to them
  uint64_t stores;     // of all heaps
  uint64_t extents;    // granule of the run from which on each has its descriptor
  uint64_t at;         // granule of the run: what is before it is taken
  uint64_t from;       // and where what is in use began
  uint32_t *granules;  // of each record's extent
  struct made *pins;   // what is in use is locked, and counted there; NULL: not this time
  struct heap **heap;  // of each record; NULL: they are not made this time
};

static uint64_t metadata_granules(const struct layout *l) {
  return bits_round_up(l->hints + l->heaps, GRANULE_SIZE) >> GRANULE_SHIFT;
}

static void pin(const void *address, size_t bytes, struct made *made) {
  made->bytes += bytes;
  if (!os_pin(address, bytes)) made->permitted = false;
}

// Granules [from, at) of the run are in use, and some more where that makes a huge page of the last ones.
static void pin_granules(const struct layout *l, uint64_t end) {
  uint32_t first = l->first + (uint32_t)l->from;
  pin(granule_address(first), (end - l->from) << GRANULE_SHIFT, l->pins);
  pin(&rtm_window_table[first], (l->at - l->from) * sizeof *rtm_window_table, l->pins);
  uint64_t described = l->from > l->extents ? l->from : l->extents;
  if (l->at > described)
    pin(span_at(l->first + (uint32_t)described), (l->at - described + 1) * SPAN_SIZE, l->pins);
}

// What is in use ends here, and goes on at `next`, or where the last huge page ends.
static void leave(struct layout *l, uint64_t next) {
  enum { ALMOST = HUGE_PAGE_GRANULES - HUGE_PAGE_GRANULES / 16 };
  uint64_t end = l->at % HUGE_PAGE_GRANULES >= ALMOST ? bits_round_up(l->at, HUGE_PAGE_GRANULES) : l->at;
  if (l->pins) pin_granules(l, end);
  l->from = l->at = next > end ? next : end;
}

// A piece of an extent, or a chunk: its granule in the run. The one in front of it is nobody's.
static uint64_t place(struct layout *l, uint32_t granules) {
  enum { LITTLE = 16 };  // not worth a second range, and two huge pages in a whole segment are
  uint64_t segment = l->at & ~(uint64_t)(SEGMENT_GRANULES - 1), offset = l->at - segment + 1;
  if (offset < EXTENT_FIRST) offset = EXTENT_FIRST;
  if (offset + granules > EXTENT_END) {
    segment += SEGMENT_GRANULES;
    offset = EXTENT_FIRST;
    if (segment - l->at > LITTLE) leave(l, segment);
  }
  l->at = segment + offset + granules;
  return segment + offset;
}

static void place_extent(struct layout *l, uint32_t record, uint64_t number, uint32_t granules) {
  uint64_t at = place(l, granules);
  if (l->heap) extent_add(l->heap[record], l->first + (uint32_t)at, number, granules);
}

// What of a record's extent is no whole piece; and the shortest such part of all that is longer, 0: none is.
static uint32_t part_of(const struct layout *l, uint32_t record) { return l->granules[record] % EXTENT_GRANULES; }
static uint32_t part_above(const struct layout *l, uint32_t length) {
  uint32_t next = 0;
  for (uint32_t i = 0; i < l->profile->header->records; i++)
    if (part_of(l, i) > length && (!next || part_of(l, i) < next)) next = part_of(l, i);
  return next;
}

// Parts first, the short ones before the long ones, so that as many as can be are near to what comes before; and so
// that the order of the records is of no account (memory.py).
static void place_extents(struct layout *l) {
  uint32_t records = l->profile->header->records;
  for (uint32_t length = 0; (length = part_above(l, length));)
    for (uint32_t i = 0; i < records; i++)
      if (part_of(l, i) == length) place_extent(l, i, 0, length);
  for (uint64_t i = 0; i < l->chunks; i++) {
    uint64_t at = place(l, EXTENT_CHUNK);
    if (l->heap) extent_add_chunk(l->first + (uint32_t)at, i);
  }
  for (uint32_t i = 0; i < records; i++)
    for (uint32_t at = part_of(l, i); at < l->granules[i]; at += EXTENT_GRANULES)
      place_extent(l, i, at, EXTENT_GRANULES);
}

// Places for so many bytes: hints, from the run's start on; and what is beside them.
static size_t take_hints(struct layout *l, size_t bytes) {
  size_t at = l->hints;
  l->hints += bits_round_up(bytes, EXTENT_ALIGNMENT);
  return at;
}
static size_t take(struct layout *l, size_t bytes) {
  size_t at = l->heaps;
  l->heaps += bits_round_up(bytes, LINE);
  return at;
}

struct places {
  size_t hints, heap, stores, trees;
};

static struct places take_places(struct layout *l, const struct profile_record *thread, const struct plan *plan) {
  struct places places = {.heap = take(l, sizeof(struct heap)), .stores = take(l, sizeof(struct stores))};
  if (l->mode == MODE_SEG) places.hints = take_hints(l, extent_bytes(plan->granules, shares(thread)));
  places.trees = take(l, 0);
  for (unsigned bin = 1; bin < BINS; bin++)
    if (plan->blocks[bin]) take(l, store_words(plan->blocks[bin]));
  return places;
}

static size_t take_list(struct layout *l) { return take(l, l->profile->header->records * sizeof *l->heap); }
static size_t take_chunks(struct layout *l) { return take_hints(l, extent_share_bytes(l->chunks)); }

RTM_INLINE void measure(struct layout *l) {
  uint64_t granules = 0;
  take_list(l);
  take_chunks(l);
  for (uint32_t i = 0; i < l->profile->header->records; i++) {
    if (!profile_is_thread(&l->profile->record[i])) continue;
    struct plan plan;
    plan_make(&l->profile->record[i], l->mode, &plan);
    take_places(l, &l->profile->record[i], &plan);
    l->granules[i] = (uint32_t)plan.granules;
    for (unsigned bin = 1; bin < BINS; bin++) {
      if (!plan.blocks[bin]) continue;
      granules += plan_store_bytes(&plan, bin) >> GRANULE_SHIFT;
      l->stores++;
    }
  }
  l->extents = metadata_granules(l) + granules;
}

// From what was measured, as often as wanted.
static void place_all(struct layout *l) {
  l->from = SECURE_VARIANT ? metadata_granules(l) : 0;
  l->at = l->extents;
  place_extents(l);
  leave(l, l->at);
}

// ---- making it ----

// The descriptor of store number `number` of all. (There are enough before the extents: each store has a granule at
// least, each heap seven beside.)
static struct span *store_slot(const struct layout *l, uint64_t number) {
  enum { SLOTS = SEGMENT_GRANULES - FIRST_SPAN_SLOT };
  uint64_t segment = number / SLOTS, slot = FIRST_SPAN_SLOT + number % SLOTS;
  return span_at(l->first + (uint32_t)(segment * SEGMENT_GRANULES + slot));
}

// A common store of an eight's last class, which has any alignment of the others, serves those that no thread had, too.
static bool is_last_of_eight(unsigned bin) { return bin <= CLASSES && bin % CLASSES_PER_DOUBLING == 0; }
static bool is_of_eight(unsigned bin, unsigned last) { return bin + CLASSES_PER_DOUBLING > last; }

static void serve(struct heap *heap, unsigned bin, struct span *store) {
  if (bin <= CLASSES)
    heap->page[bin] = store;
  else
    heap->stores->large[bin - CLASSES - 1] = store;
}

// The stores of one heap, and their trees; what comes behind them.
static char *make_stores(struct layout *l, struct heap *heap, const struct plan *plan, bool common, char *start,
                         char *trees) {
  for (unsigned bin = 1; bin < BINS; bin++) {
    uint64_t blocks = plan->blocks[bin];
    if (!blocks) continue;
    struct span *store = store_slot(l, l->stores++);
    struct heap *owner = l->mode == MODE_PAG ? heap : &rtm_huge_stores;
    _Atomic uint64_t *words = (_Atomic uint64_t *)trees;
    char *first = start + (-(uintptr_t)start & plan->room[bin]);
    if (common)
      store_make_common(owner, store, first, bin_size(bin), (uint32_t)blocks, words);
    else
      store_make(owner, store, first, bin_size(bin), (uint32_t)blocks, words);
    start += plan_store_bytes(plan, bin);
    trees += bits_round_up(store_words(blocks), LINE);
    for (unsigned other = 1; other <= bin; other++) {
      bool spare = common && is_last_of_eight(bin) && is_of_eight(other, bin) && !plan->store[other];
      if (plan->store[other] == bin || spare) serve(heap, other, store);
    }
  }
  return start;
}

static uint64_t blocks_bytes(const struct plan *plan) {
  uint64_t bytes = plan->granules << GRANULE_SHIFT;
  for (unsigned bin = 1; bin < BINS; bin++) bytes += plan_bytes(plan->blocks[bin], bin);
  return bytes;
}

static void begin_stores(struct stores *stores, struct heap *heap, const struct plan *plan, enum mode mode) {
  for (unsigned i = 0; i < BINS_LARGE; i++) stores->large[i] = &rtm_no_store[0];
  if (mode == MODE_PAG)
    for (unsigned class = 1; class <= CLASSES; class ++) {
      rtm_no_store[class].store_size = bin_size(class);
      heap->page[class] = &rtm_no_store[class];
    }
  stores->heap = heap;
  stores->mode = mode;
  stores->extent_max = mode == MODE_SEG ? plan->spans_most : 0;
  heap->stores = stores;
  heap->prepared = blocks_bytes(plan);
  heap->unusual = true;
  heap->store_from = plan->spans_most + 1;
  heap->store_reach = BIN_SIZE_MAX + (size_t)1 - heap->store_from;
}

// By their numbers. `last`: who came before, as most come in this order.
static void enlist(struct stores *stores, struct stores **all, struct stores *last) {
  if (last && last->heap->index <= stores->heap->index) all = &last->next;
  while (*all && (*all)->heap->index < stores->heap->index) all = &(*all)->next;
  stores->next = *all;
  *all = stores;
}

// `hints`: where they are to be; the rest follows.
static bool make_heaps(struct layout *l, char *hints,
                       bool (*find_routine)(const struct profile_record *thread, uintptr_t *routine),
                       struct made *made) {
  char *base = hints + l->hints, *start = granule_address(l->first + (uint32_t)metadata_granules(l));
  l->hints = l->heaps = l->stores = 0;
  l->heap = (struct heap **)(base + take_list(l));
  extent_share_at(hints + take_chunks(l));
  struct stores *last = NULL;
  for (uint32_t i = 0; i < l->profile->header->records; i++) {
    const struct profile_record *thread = &l->profile->record[i];
    if (!profile_is_thread(thread)) continue;
    struct plan plan;
    plan_make(thread, l->mode, &plan);
    struct places places = take_places(l, thread, &plan);
    struct heap *heap = (struct heap *)(base + places.heap);
    uintptr_t routine = 0;
    if (!is_common(thread) && !find_routine(thread, &routine)) return false;
    uint32_t index = is_common(thread) ? HEAP_NEXT_INDEX : thread->index;
    if (!heap_make(heap, routine, index, l->mode == MODE_PAG ? HEAP_STORES : heap_owned())) return false;
    l->heap[i] = heap;
    begin_stores((struct stores *)(base + places.stores), heap, &plan, l->mode);
    start = make_stores(l, heap, &plan, is_common(thread), start, base + places.trees);
    if (l->mode == MODE_SEG) extent_start(heap, plan.granules, plan.longest, shares(thread), hints + places.hints);
    made->reserve += plan.reserve;
    if (is_common(thread)) {
      made->reserve += heap->prepared - plan.reserve;
      made->common = heap->stores;
    } else {
      enlist(heap->stores, &made->all, last);
      last = heap->stores;
    }
  }
  for (struct stores *one = made->all; one; one = one->next) one->common = made->common;
  return true;
}

// What was a heap's or a huge block's before: nothing there leads to a span any more.
static void forget(const struct layout *l, uint64_t granules) {
  if (!SECURE_VARIANT) memset(granule_address(l->first), 0, metadata_granules(l) << GRANULE_SHIFT);
  memset(&rtm_window_table[l->first], 0, granules * sizeof *rtm_window_table);
  for (uint64_t at = 0; at < granules; at += SEGMENT_GRANULES) {
    uint32_t segment = segment_of_granule(l->first + (uint32_t)at);
    size_t used = segment_at(segment)->first_unused;
    if (used > FIRST_SPAN_SLOT)
      memset(segment_slot(segment, FIRST_SPAN_SLOT), 0, (used - FIRST_SPAN_SLOT) << SPAN_SHIFT);
  }
}

// The main thread's heap lies before all others, as it may be small, and wait long: near what the others work on.
RTM_INLINE void put_main_first(struct profile *profile) {
  struct profile_record *first = profile->record, *end = first + profile->header->records;
  while (first < end && !profile_is_thread(first)) first++;
  struct profile_record *main = first;
  while (main < end && (!profile_is_thread(main) || main->module[0] || main->offset || main->index)) main++;
  if (main == end) return;
  struct profile_record before = *first;
  *first = *main;
  *main = before;
}

static const char *make(struct layout *l, bool (*find_routine)(const struct profile_record *thread, uintptr_t *routine),
                        struct made *made) {
  measure(l);
  place_all(l);
  uint64_t granules = l->at;
  if (granules / SEGMENT_GRANULES >= rtm_arena.segments_most)
    return "it needs more memory than this process can have";
  bool zero;
  struct span *run = arena_take_run((uint32_t)granules, 1, &zero);
  if (!run) return "the system or RTMALLOC_LIMIT does not give the memory that it needs";
  l->first = span_granule(run);
  char *metadata = run->start;
  if (SECURE_VARIANT) {
    size_t bytes = metadata_granules(l) << GRANULE_SHIFT;
    metadata = os_map(bytes);
    if (!metadata) return prepared_no_memory;
    pin(metadata, bytes, made);
  }
  l->pins = made;
  place_all(l);
  if (l->stores) pin(store_slot(l, 0), (size_t)(store_slot(l, l->stores) - store_slot(l, 0)) * SPAN_SIZE, made);
  l->pins = NULL;
  if (!zero) forget(l, granules);
  if (!make_heaps(l, metadata, find_routine, made)) return prepared_no_memory;
  place_all(l);
  return NULL;
}

const char *prepare(struct profile *profile, enum mode mode, uint64_t chunks,
                    bool (*find_routine)(const struct profile_record *thread, uintptr_t *routine), struct made *made) {
  struct layout layout = {.profile = profile, .mode = mode, .chunks = chunks};
  size_t bytes = bits_round_up(profile->header->records * sizeof *layout.granules, GRANULE_SIZE);
  if (!(layout.granules = os_map(bytes))) return prepared_no_memory;
  put_main_first(profile);
  extent_share(chunks);
  const char *wrong = make(&layout, find_routine, made);
  os_unmap((uintptr_t)layout.granules, bytes);
  return wrong;
}
