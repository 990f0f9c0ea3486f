// See arena.h. Not on any bounded path but arena_take_segment and arena_give_segment, which have no loop of their own.
#include "arena.h"
#include "os/pin.h"
#include "os/purge.h"
#include "secure/secure.h"

#include <string.h>

enum segment_state {
  SEGMENT_OUT,     // owned by a heap, or inside a run; says nothing
  SEGMENT_SINGLE,  // in a stack
  SEGMENT_RUN,     // first or last segment of a free run
};

// Until the start no address is within the window, NULL included.
RTM_DATA_TOGETHER uintptr_t rtm_window_base = UINTPTR_MAX / 2 + 1;
RTM_DATA_TOGETHER size_t rtm_window_granules;
RTM_DATA_TOGETHER uint32_t *rtm_window_table;
// The compiler's first: the section begins with a page, and is less than one.
RTM_DATA_TOGETHER _Alignas(GRANULE_SIZE) char *rtm_window_spans;
struct arena rtm_arena;

enum {
  FIRST_STEP = 64,      // granules: where memory is locked, the first step in which a segment is mapped
  FIRST_DESCRIBED = 6,  // segments
  STEP_LEAST = 16,      // segments that are described ahead in one call
};

#define SPANS_SIZE ((size_t)SEGMENT_GRANULES * SPAN_SIZE)
#define USED_SIZE ((size_t)SEGMENT_USED << GRANULE_SHIFT)
#define TABLE_SIZE ((size_t)SEGMENT_GRANULES * sizeof(uint32_t))
_Static_assert(TABLE_SIZE == GRANULE_SIZE, "a segment's part of the table is one page of the system");

static uintptr_t segment_address(uint32_t segment) { return rtm_window_base + ((uintptr_t)segment << SEGMENT_SHIFT); }
static uint32_t run_segments(uint32_t granules) {
  return segment_of_granule(granules + SEGMENT_GUARD + SEGMENT_GRANULES - 1);
}
static uint32_t run_first(const struct span *run) { return segment_of_granule(span_granule(run)); }

// ---- memory from the system ----

RTM_INLINE bool charge(size_t bytes) {
  size_t now = atomic_fetch_add_explicit(&rtm_arena.bytes_mapped, bytes, memory_order_relaxed) + bytes;
  if (RTM_UNLIKELY(now > rtm_arena.bytes_limit)) {
    atomic_fetch_sub_explicit(&rtm_arena.bytes_mapped, bytes, memory_order_relaxed);
    return false;
  }
  // Two threads that grow at the same moment may leave the smaller of their sums.
  if (now > atomic_load_explicit(&rtm_arena.bytes_mapped_peak, memory_order_relaxed))
    atomic_store_explicit(&rtm_arena.bytes_mapped_peak, now, memory_order_relaxed);
  return true;
}

static void discharge(size_t bytes) { atomic_fetch_sub_explicit(&rtm_arena.bytes_mapped, bytes, memory_order_relaxed); }

static bool map_at(uintptr_t address, size_t bytes, bool *taken) {
  if (charge(bytes)) {
    if (os_map_at(address, bytes, taken)) return true;
    discharge(bytes);
  } else {
    *taken = false;
  }
  return false;
}

static void *map_anywhere(size_t bytes) {
  if (!charge(bytes)) return NULL;
  void *got = SECURE_VARIANT ? secure_map_guarded(bytes) : os_map(bytes);
  if (!got) discharge(bytes);
  return got;
}

static void unmap(uintptr_t address, size_t bytes) {
  os_unmap(address, bytes);
  discharge(bytes);
  atomic_fetch_add_explicit(&rtm_arena.bytes_purged, bytes, memory_order_relaxed);
}

// Maps `granules` of the segment; `*taken`: the range belongs to someone else.
static bool map_segment(uint32_t segment, uint32_t granules, bool *taken) {
  struct segment *s = segment_at(segment);
  if (s->mapped >= granules) return true;
  uintptr_t from = segment_address(segment) + ((uintptr_t)s->mapped << GRANULE_SHIFT);
  if (!map_at(from, (size_t)(granules - s->mapped) << GRANULE_SHIFT, taken)) return false;
  s->mapped = (uint16_t)granules;
  return true;
}

// Unmaps what the segment has beyond `granules`.
static void cut_segment(uint32_t segment, uint32_t granules) {
  struct segment *s = segment_at(segment);
  if (s->mapped <= granules) return;
  unmap(segment_address(segment) + ((uintptr_t)granules << GRANULE_SHIFT), (size_t)(s->mapped - granules)
                                                                               << GRANULE_SHIFT);
  s->mapped = (uint16_t)granules;
}

// The granule behind a huge block of the secure variant is a guard: not mapped, or else without access, so that what is
// mapped behind it need not be mapped again for the next block. Noted in run->used, if so.
static void guard_run(struct span *run, uint32_t granules) {
  if (!SECURE_VARIANT) return;
  uint32_t segment = run_first(run) + granules / SEGMENT_GRANULES, at = granules % SEGMENT_GRANULES;
  if (segment_at(segment)->mapped <= at) return;
  if (secure_deny(run->start + ((size_t)granules << GRANULE_SHIFT)))
    run->used = granules;
  else
    cut_segment(segment, at);
}
static void unguard_run(struct span *run) {
  if (!SECURE_VARIANT) return;
  uint32_t granules = run->used;
  run->used = 0;
  if (granules && !secure_permit(run->start + ((size_t)granules << GRANULE_SHIFT)))
    cut_segment(run_first(run) + granules / SEGMENT_GRANULES, granules % SEGMENT_GRANULES);
}

// The descriptors' contents go back with the segment, but for the first page of them, which has the segment's record.
static void unmap_segment(uint32_t segment) {
  enum { KEPT = GRANULE_SIZE / SPAN_SIZE };
  struct segment *s = segment_at(segment);
  if (s->mapped) unmap(segment_address(segment), (size_t)s->mapped << GRANULE_SHIFT);
  if (s->first_unused > KEPT) os_purge((uintptr_t)segment_slot(segment, KEPT), SPANS_SIZE - GRANULE_SIZE);
  s->mapped = 0;
  s->first_unused = FIRST_SPAN_SLOT;
}

// Where memory is locked (mlockall(MCL_FUTURE)), what is mapped is there at once, and programs pay for little more than
// they use: in steps. Known from a whole segment of which the last page is there though nobody has used it yet.
void arena_see_locked(void) {
  uint32_t segment = rtm_arena.unchecked;
  rtm_arena.unchecked = 0;
  uintptr_t last = segment_address(segment) + ((uintptr_t)(SEGMENT_USED - 1) << GRANULE_SHIFT);
  if (!rtm_arena.locked && os_resident(last)) rtm_arena.locked = true;
}

static RTM_NOINLINE bool map_in_steps(uint32_t segment, uint32_t granules, bool *taken) {
  uint32_t want = 2u * segment_at(segment)->mapped;
  if (want < granules) want = granules;
  if (want < FIRST_STEP) want = FIRST_STEP;
  if (want > SEGMENT_USED || !rtm_arena.locked) want = SEGMENT_USED;
  if (map_segment(segment, want, taken) || map_segment(segment, granules, taken)) return true;
  if (*taken) return false;
  arena_trim();
  return map_segment(segment, granules, taken);
}

// A segment of which nothing is mapped.
RTM_INLINE bool map_whole(uint32_t segment, bool *taken) {
  *taken = false;
  if (RTM_UNLIKELY(rtm_arena.locked) || RTM_UNLIKELY(!charge(USED_SIZE))) return false;
  if (RTM_UNLIKELY(!os_map_at(segment_address(segment), USED_SIZE, taken))) {
    discharge(USED_SIZE);
    return false;
  }
  segment_at(segment)->mapped = SEGMENT_USED;
  atomic_store_explicit(&rtm_arena.unchecked, segment, memory_order_relaxed);
  return true;
}

bool arena_map(uint32_t segment, uint32_t granules, bool *taken) {
  if (!segment_at(segment)->mapped) {
    if (RTM_LIKELY(map_whole(segment, taken))) return true;
    if (*taken) return false;
  }
  return map_in_steps(segment, granules, taken);
}

RTM_COLD void arena_want_huge_pages(uint32_t segment, uint32_t others) {
  enum { FEW = 16, SMALL = 4 };
  uint32_t in_use = atomic_load_explicit(&rtm_arena.segments_in_use, memory_order_relaxed);
  if (!segment || ((in_use < 2 || in_use > FEW) && others < SMALL)) return;
  if (rtm_arena.unchecked == segment) arena_see_locked();  // later it could not be seen any more
  if (!rtm_arena.locked && segment_at(segment)->mapped == SEGMENT_USED)
    os_want_huge_pages(segment_address(segment), USED_SIZE);
}

static void set_retained_most(void) {
  struct arena *a = &rtm_arena;
  uint32_t most = a->purge == PURGE_EAGER ? 0
                  : a->segments_huge > 1  ? a->segments_huge * SEGMENT_GRANULES
                                          : SEGMENT_GRANULES;
  a->retained_most = a->purge == PURGE_NEVER || a->keeps ? UINT32_MAX
                     : most > a->granules_reserved       ? most
                                                         : a->granules_reserved;
}

// ---- the window ----

// The window's end is free: it does not go beyond the addresses that there are, nor into what is mapped above it.
static bool ends_free(uintptr_t base, uint32_t segments) {
  uintptr_t last = base + segments * SEGMENT_SIZE - GRANULE_SIZE;
  bool taken, free = os_map_at(last, GRANULE_SIZE, &taken);
  if (free) os_unmap(last, GRANULE_SIZE);
  return free;
}

static bool try_window(uintptr_t base, uint32_t segments) {
  uintptr_t spans = base - segments * SPANS_SIZE, table = spans - segments * TABLE_SIZE;
  bool taken;
  if (!ends_free(base, segments)) return false;
  if (!map_at(spans, FIRST_DESCRIBED * SPANS_SIZE, &taken)) return false;
  if (!map_at(table, FIRST_DESCRIBED * TABLE_SIZE, &taken)) {
    unmap(spans, FIRST_DESCRIBED * SPANS_SIZE);
    return false;
  }
  __atomic_store_n(&rtm_window_base, base, __ATOMIC_RELAXED);
  rtm_window_table = (uint32_t *)table;
  rtm_window_spans = (char *)spans;
  rtm_arena.segments_most = segments;
  rtm_arena.spans_described = FIRST_DESCRIBED;
  rtm_arena.table_described = FIRST_DESCRIBED;
  rtm_arena.described = FIRST_DESCRIBED;
  rtm_arena.segments_known = 1;  // segment 0 holds no memory: its first descriptor is the null span
  return true;
}

// The window lies well below the place where the kernel maps by itself, so that the two do not grow into each other;
// smaller windows serve where there is less address space (39 bits, sanitizers, emulators).
bool arena_init(enum purge purge, size_t limit) {
#if defined(__SANITIZE_THREAD__)
  static const unsigned shifts[] = {16, 13, 9};  // its shadow covers a few terabytes only
#else
  static const unsigned shifts[] = {21, 17, 15, 13, 11, 9};
#endif
  rtm_arena.purge = purge;
  set_retained_most();
  rtm_arena.bytes_limit = limit;
  char *hint = os_map(GRANULE_SIZE);
  if (!hint) return false;
  os_unmap((uintptr_t)hint, GRANULE_SIZE);
  for (unsigned i = 0; i < sizeof shifts / sizeof shifts[0]; i++) {
    uint32_t segments = 1u << shifts[i];
    uintptr_t size = segments * (SEGMENT_SIZE + SPANS_SIZE + TABLE_SIZE), reach = 2 * size;
    uintptr_t here = (uintptr_t)hint & ~(SEGMENT_SIZE - 1);
    if (SECURE_VARIANT) reach += secure_shift(size / 2);
    if (here > reach + size && try_window(here - reach, segments)) return true;
    if (here < UINTPTR_MAX / 2 - reach && try_window(here + reach, segments)) return true;
  }
  return false;
}

// ---- runs of segments; the lock is held ----

static struct span *run_make(uint32_t first, uint32_t segments) {
  struct span *run = segment_slot(first, RUN_SLOT);
  run->kind = SPAN_FREE;
  run->start = granule_address(first * SEGMENT_GRANULES);
  run->length = segments;
  segment_at(first)->state = SEGMENT_RUN;
  segment_at(first + segments - 1)->state = SEGMENT_RUN;
  segment_at(first + segments - 1)->run = first;
  return run;
}

static void insert_run(struct span *run) { tlsf_insert(&rtm_arena.runs, tlsf_list_of(run->length), run); }
static void remove_run(struct span *run) { tlsf_remove(&rtm_arena.runs, run); }
static struct span *find_run(uint32_t segments) {
  return tlsf_take(&rtm_arena.runs, tlsf_list_for(segments), TLSF_WORDS);
}

static void run_unmark(struct span *run) {
  uint32_t first = run_first(run);
  segment_at(first)->state = SEGMENT_OUT;
  segment_at(first + run->length - 1)->state = SEGMENT_OUT;
  run->kind = SPAN_NONE;
}

static struct span *run_before(uint32_t segment) {
  if (segment <= 1 || segment_at(segment - 1)->state != SEGMENT_RUN) return NULL;
  return segment_slot(segment_at(segment - 1)->run, RUN_SLOT);
}

static struct span *run_at(uint32_t segment) {
  if (segment >= rtm_arena.segments_known || segment_at(segment)->state != SEGMENT_RUN) return NULL;
  return segment_slot(segment, RUN_SLOT);
}

// Immediate coalescing (TLSF, section 4.4).
static void run_release(uint32_t first, uint32_t segments) {
  struct span *before = run_before(first), *after = run_at(first + segments);
  if (before) {
    remove_run(before);
    first = run_first(before);
    segments += before->length;
    run_unmark(before);
  }
  if (after) {
    remove_run(after);
    segments += after->length;
    run_unmark(after);
  }
  insert_run(run_make(first, segments));
}

static void singles_to_runs(void) {
  while (rtm_arena.singles) {
    uint32_t segment = rtm_arena.singles;
    rtm_arena.singles = segment_at(segment)->next;
    segment_at(segment)->state = SEGMENT_OUT;
    run_release(segment, 1);
  }
}

// ---- descriptors and table ----

// Maps descriptors, or the table's part, for segments up to `to`.
static bool describe_spans(uint32_t to) {
  struct arena *a = &rtm_arena;
  uint32_t from = a->spans_described;
  bool taken;
  if (!map_at((uintptr_t)rtm_window_spans + from * SPANS_SIZE, (to - from) * SPANS_SIZE, &taken)) return false;
  a->spans_described = to;
  RTM_WRITE_RELAXED(a->described, to < a->table_described ? to : a->table_described);
  return true;
}

static bool describe_table(uint32_t to) {
  struct arena *a = &rtm_arena;
  uint32_t from = a->table_described;
  bool taken;
  if (!map_at((uintptr_t)rtm_window_table + from * TABLE_SIZE, (to - from) * TABLE_SIZE, &taken)) return false;
  a->table_described = to;
  RTM_WRITE_RELAXED(a->described, to < a->spans_described ? to : a->spans_described);
  return true;
}

static uint32_t step_from(uint32_t segments) {
  enum { STEP_MOST = 64 };
  segments = (uint32_t)bits_round_up(segments, STEP_LEAST);
  uint32_t step = segments / 4 < STEP_LEAST ? STEP_LEAST : segments / 4 < STEP_MOST ? segments / 4 : STEP_MOST;
  return segments + step < rtm_arena.segments_most ? segments + step : rtm_arena.segments_most;
}

// More descriptors or more of the table, whichever is behind. (The window's end is a multiple of the step.)
static bool describe_more(void) {
  struct arena *a = &rtm_arena;
  if (a->described == a->segments_most) return false;
  return a->spans_described <= a->table_described ? describe_spans(a->spans_described + STEP_LEAST)
                                                  : describe_table(a->table_described + STEP_LEAST);
}

bool arena_describe(void) {
  os_lock_acquire(&rtm_arena.lock);
  bool more = describe_more();
  os_lock_release(&rtm_arena.lock);
  return more;
}

static void describe_ahead(void) {
  while (arena_describes_few() && describe_more()) continue;
}

static void know(uint32_t end) {
  RTM_WRITE_RELAXED(rtm_arena.segments_known, end);
  __atomic_store_n(&rtm_window_granules, (size_t)end * SEGMENT_GRANULES, __ATOMIC_RELAXED);
}

// Makes segments [0, end) known, and leaves some described ahead. False: no memory for their descriptors, or the window
// is full.
static bool describe(uint32_t end) {
  struct arena *a = &rtm_arena;
  if (end > a->segments_most) return false;
  if (end > a->spans_described && !describe_spans(step_from(end)) && !describe_spans(end)) return false;
  if (end > a->table_described && !describe_table(step_from(end)) && !describe_table(end)) return false;
  know(end);
  describe_ahead();
  return true;
}

// Takes a run of `segments`, cut to size; 0 if there is none and the window cannot grow.
static uint32_t run_find(uint32_t segments) {
  struct arena *a = &rtm_arena;
  struct span *run = find_run(segments);
  if (!run && segments > 1 && a->singles) {
    singles_to_runs();
    run = find_run(segments);
  }
  if (!run) {
    // Grow at the end, together with the free run there.
    struct span *last = run_before(a->segments_known);
    uint32_t had = last ? last->length : 0, first = a->segments_known - had;
    if (had < segments && !describe(first + segments)) return 0;
    if (last) {
      remove_run(last);
      run_unmark(last);
    }
    run = run_make(first, had > segments ? had : segments);
  }
  uint32_t first = run_first(run), rest = run->length - segments;
  run_unmark(run);
  if (rest) insert_run(run_make(first + segments, rest));
  return first;
}

static uint32_t run_mapped(uint32_t first, uint32_t segments) {
  uint32_t mapped = 0;
  for (uint32_t i = 0; i < segments; i++) mapped += segment_at(first + i)->mapped;
  return mapped;
}

// ---- free segments that stay mapped; the lock is held ----

RTM_INLINE void retain(struct segment *s) {
  struct arena *a = &rtm_arena;
  if (!s->mapped) return;
  a->granules_retained += s->mapped;
  struct segment *older = a->retained_newest;
  s->older = older;
  s->newer = NULL;
  a->retained_newest = s;
  if (older)
    older->newer = s;
  else
    a->retained_oldest = s;
}

static void unretain(struct segment *s) {
  struct arena *a = &rtm_arena;
  if (!s->mapped) return;
  a->granules_retained -= s->mapped;
  if (s->newer)
    s->newer->older = s->older;
  else
    a->retained_newest = s->older;
  if (s->older)
    s->older->newer = s->newer;
  else
    a->retained_oldest = s->newer;
}

static void release_oldest(void) {
  struct segment *s = rtm_arena.retained_oldest;
  unretain(s);
  unmap_segment(segment_number(s));
}

void arena_trim(void) {
  struct arena *a = &rtm_arena;
  os_lock_acquire(&a->lock);
  while (a->granules_retained > a->granules_reserved) release_oldest();
  os_lock_release(&a->lock);
}

// ---- single segments ----

static RTM_NOINLINE uint32_t take_from_run(void) {
  atomic_fetch_add_explicit(&rtm_arena.late, 1, memory_order_relaxed);
  uint32_t segment = run_find(1);
  if (segment) unretain(segment_at(segment));
  return segment;
}

// `s` goes out to a heap.
RTM_INLINE void hand_out(uint32_t segment, struct segment *s) {
  rtm_arena.segments_in_use++;
  s->state = SEGMENT_OUT;
  s->first_unused = FIRST_SPAN_SLOT;
  s->unused = NULL;
  if (SECURE_VARIANT) cut_segment(segment, SEGMENT_USED);
  s->retained = s->mapped;
  os_lock_release(&rtm_arena.lock);
}

// One of which nothing is mapped; 0: none. The lock is held, and released.
RTM_INLINE uint32_t take_bare(void) {
  struct arena *a = &rtm_arena;
  uint32_t segment = a->singles;
  if (segment) {
    a->singles = segment_at(segment)->next;
  } else if (RTM_UNLIKELY(a->segments_known >= a->described)) {
    segment = take_from_run();
  } else {
    segment = a->segments_known;
    know(segment + 1);
  }
  if (RTM_LIKELY(segment))
    hand_out(segment, segment_at(segment));
  else
    os_lock_release(&a->lock);
  return segment;
}

static RTM_NOINLINE uint32_t take_retained(uint32_t segment) {
  struct segment *s = segment_at(segment);
  rtm_arena.singles = s->next;
  unretain(s);
  hand_out(segment, s);
  return segment;
}

// The next one that serves is mapped already.
RTM_INLINE bool next_is_retained(void) { return rtm_arena.singles && segment_at(rtm_arena.singles)->mapped; }

uint32_t arena_take_segment(void) {
  os_lock_acquire(&rtm_arena.lock);
  return next_is_retained() ? take_retained(rtm_arena.singles) : take_bare();
}

// The lock is held, and released.
RTM_INLINE uint32_t take_mapped(void) {
  if (next_is_retained()) return take_retained(rtm_arena.singles);
  uint32_t segment = take_bare();
  bool taken;
  if (RTM_LIKELY(segment) && RTM_LIKELY(!segment_at(segment)->mapped)) map_whole(segment, &taken);
  return segment;
}

uint32_t arena_take_mapped(void) {
  os_lock_acquire(&rtm_arena.lock);
  return take_mapped();
}

uint32_t arena_take_first(void) {
  os_lock_acquire(&rtm_arena.lock);
  describe_ahead();
  return take_mapped();
}

// The lock is held.
RTM_INLINE void give_segment(uint32_t segment, struct segment *s) {
  struct arena *a = &rtm_arena;
  a->segments_in_use--;
  retain(s);
  s->state = SEGMENT_SINGLE;
  s->next = a->singles;
  a->singles = segment;
  os_lock_release(&a->lock);
}

// Apart, as a call in between would cost the usual way its registers.
static RTM_NOINLINE void wait_and_give(uint32_t segment, struct segment *s) {
  os_lock_acquire(&rtm_arena.lock);
  give_segment(segment, s);
}

void arena_give_segment(uint32_t segment, struct segment *s) {
  __atomic_store_n(&s->heap, NULL, __ATOMIC_RELAXED);
  if (RTM_LIKELY(os_lock_try(&rtm_arena.lock)))
    give_segment(segment, s);
  else
    wait_and_give(segment, s);
}

void arena_shrink(void) {
  struct arena *a = &rtm_arena;
  os_lock_acquire(&a->lock);
  if (arena_must_shrink()) release_oldest();
  os_lock_release(&a->lock);
}

// ---- runs for huge blocks ----

static struct span *take_run(uint32_t segments, uint32_t alignment) {
  struct arena *a = &rtm_arena;
  os_lock_acquire(&a->lock);
  uint32_t found = run_find(segments + alignment - 1);
  struct span *run = NULL;
  if (found) {
    uintptr_t at = segment_address(found) >> SEGMENT_SHIFT;
    uint32_t skip = (uint32_t)(-at & (alignment - 1)), first = found + skip;
    if (skip) run_release(found, skip);
    if (alignment - 1 - skip) run_release(first + segments, alignment - 1 - skip);
    run = segment_slot(first, RUN_SLOT);
    run->start = granule_address(first * SEGMENT_GRANULES);
    run->length = segments;
    run->kind = SPAN_HUGE;
    run->used = 0;
    a->segments_in_use += segments;
    a->segments_huge += segments;
    set_retained_most();
    for (uint32_t i = 0; i < segments; i++) unretain(segment_at(first + i));
  }
  os_lock_release(&a->lock);
  return run;
}

// Maps whole stretches of bare segments with one call each.
static bool map_run(struct span *run, uint32_t granules, bool *taken) {
  uint32_t first = run_first(run), i = 0;
  *taken = false;
  while (i < run->length) {
    uint32_t end = granules - i * SEGMENT_GRANULES;
    if (segment_at(first + i)->mapped) {
      if (end > SEGMENT_GRANULES) end = SEGMENT_GRANULES;
      bool more = segment_at(first + i)->mapped < end;
      if (!map_segment(first + i, end, taken)) return false;
      if (more && rtm_arena.keeps) os_want_huge_pages(segment_address(first + i), (size_t)end << GRANULE_SHIFT);
      i++;
      continue;
    }
    uint32_t from = i;
    while (i < run->length && !segment_at(first + i)->mapped) i++;
    uint32_t bare = granules - from * SEGMENT_GRANULES;
    if (SECURE_VARIANT && !bare) break;  // a segment for the guard only
    if (bare > (i - from) * SEGMENT_GRANULES) bare = (i - from) * SEGMENT_GRANULES;
    if (!map_at(segment_address(first + from), (size_t)bare << GRANULE_SHIFT, taken)) return false;
    // It stays, so it is worth the system's large pages, which a huge block fills.
    if (rtm_arena.keeps) os_want_huge_pages(segment_address(first + from), (size_t)bare << GRANULE_SHIFT);
    for (uint32_t j = from; j < i; j++, bare -= SEGMENT_GRANULES)
      segment_at(first + j)->mapped = (uint16_t)(bare < SEGMENT_GRANULES ? bare : SEGMENT_GRANULES);
  }
  guard_run(run, granules);
  return true;
}

// Where huge blocks stay mapped, what is mapped for one of many segments ends with a huge page.
static uint32_t run_mapping(uint32_t granules) {
  enum { MANY = 2 * SEGMENT_GRANULES };
  bool wanted = rtm_arena.keeps && !rtm_arena.locked && !SECURE_VARIANT && granules > MANY;
  return wanted ? (uint32_t)bits_round_up(granules, HUGE_PAGE_GRANULES) : granules;
}

struct span *arena_take_run(uint32_t granules, uint32_t alignment, bool *zero) {
  enum { ATTEMPTS = 8 };
  bool trimmed = false;
  for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
    struct span *run = take_run(run_segments(granules), alignment);
    if (!run) return NULL;
    *zero = run_mapped(run_first(run), run->length) == 0;
    bool taken;
    if (map_run(run, run_mapping(granules), &taken) || (!taken && map_run(run, granules, &taken))) return run;
    if (taken) {
      // Part of it belongs to someone else: leave the bare segments out of use for good, give the others back.
      for (uint32_t i = 0, n = run->length, first = run_first(run); i < n; i++) {
        rtm_arena.segments_huge--;  // retained_most follows at the next change
        if (segment_at(first + i)->mapped)
          arena_give_segment(first + i, segment_at(first + i));
        else
          rtm_arena.segments_in_use--;
      }
      run->kind = SPAN_NONE;
      continue;
    }
    arena_give_run(run);
    if (trimmed) return NULL;
    trimmed = true;
    arena_trim();
  }
  return NULL;
}

static void shrink_by(uint32_t segments) {
  for (uint32_t i = 0; i < segments && arena_must_shrink(); i++) release_oldest();
}

static void give_segments(uint32_t first, uint32_t segments) {
  struct arena *a = &rtm_arena;
  os_lock_acquire(&a->lock);
  a->segments_in_use -= segments;
  a->segments_huge -= segments;
  set_retained_most();
  for (uint32_t i = 0; i < segments; i++) retain(segment_at(first + i));
  run_release(first, segments);
  // As much is kept as huge blocks have, so at most twice as much goes as is given. Where those that go are smaller
  // than half a segment some are left, and go with later operations.
  shrink_by(4 * segments + 1);
  os_lock_release(&a->lock);
}

void arena_unmap_run(struct span *run) {
  for (uint32_t i = 0, first = run_first(run); i < run->length; i++) unmap_segment(first + i);
  run->used = 0;
}

void arena_give_run(struct span *run) {
  unguard_run(run);
  run->kind = SPAN_NONE;
  give_segments(run_first(run), run->length);
}

// Moves the pages of [first, first + segments) to the bare segments at `target`. Those are mapped first, as a move
// would silently take the place of somebody else's mapping.
static bool move_pages(uint32_t first, size_t bytes, uint32_t target, size_t target_bytes) {
  bool taken;
  if (!os_map_at(segment_address(target), target_bytes, &taken)) return false;
  if (os_move(segment_address(first), bytes, segment_address(target), target_bytes)) return true;
  os_unmap(segment_address(target), target_bytes);
  return false;
}

struct span *arena_move_run(struct span *run, uint32_t granules) {
  unguard_run(run);
  uint32_t first = run_first(run);
  uint32_t had = (run->length - 1) * SEGMENT_GRANULES + segment_at(first + run->length - 1)->mapped;
  size_t bytes = (size_t)had << GRANULE_SHIFT, target_bytes = (size_t)granules << GRANULE_SHIFT;
  if (had > granules || !charge(target_bytes - bytes)) return NULL;
  struct span *to = take_run(run_segments(granules), 1);
  if (to) {
    uint32_t target = run_first(to);
    for (uint32_t i = 0; i < to->length; i++) unmap_segment(target + i);
    if (move_pages(first, bytes, target, target_bytes)) {
      for (uint32_t i = 0; i < run->length; i++) segment_at(first + i)->mapped = 0;
      for (uint32_t i = 0, left = granules; i < to->length; i++, left -= SEGMENT_GRANULES)
        segment_at(target + i)->mapped = (uint16_t)(left < SEGMENT_GRANULES ? left : SEGMENT_GRANULES);
      rtm_window_table[span_granule(run)] = 0;  // before the place is anyone's
      arena_give_run(run);
      return to;
    }
    arena_give_run(to);
  }
  discharge(target_bytes - bytes);
  return NULL;
}

static bool run_extend(struct span *run, uint32_t segments) {
  struct arena *a = &rtm_arena;
  uint32_t end = run_first(run) + run->length, more = segments - run->length;
  os_lock_acquire(&a->lock);
  if (end < a->segments_known && segment_at(end)->state == SEGMENT_SINGLE) {
    singles_to_runs();
  }
  struct span *after = run_at(end);
  uint32_t have = after ? after->length : 0;
  bool done = have >= more || (end + have == a->segments_known && describe(end + more));
  if (done) {
    if (after) {
      remove_run(after);
      run_unmark(after);
    }
    if (have > more) insert_run(run_make(end + more, have - more));
    a->segments_in_use += more;
    a->segments_huge += more;
    set_retained_most();
    for (uint32_t i = 0; i < more; i++) unretain(segment_at(end + i));
    run->length = segments;
  }
  os_lock_release(&a->lock);
  return done;
}

static bool resize_run(struct span *run, uint32_t granules) {
  uint32_t had = run->length, want = run_segments(granules);
  if (want > had && !run_extend(run, want)) return false;
  bool taken;
  if (want >= had && !map_run(run, granules, &taken)) {
    if (want > had) {
      run->length = had;
      give_segments(run_first(run) + had, want - had);
    }
    return false;
  }
  if (want < had) {
    run->length = want;
    give_segments(run_first(run) + want, had - want);
  }
  return true;
}

bool arena_resize_run(struct span *run, uint32_t granules) {
  unguard_run(run);
  bool done = resize_run(run, granules);
  if (SECURE_VARIANT && !run->used) guard_run(run, done ? granules : run->reciprocal);
  return done;
}

// ---- metadata and reserve ----

void arena_keep(void) {
  os_lock_acquire(&rtm_arena.lock);
  rtm_arena.keeps = true;
  set_retained_most();
  os_lock_release(&rtm_arena.lock);
}

void arena_set_purge(enum purge purge) {
  os_lock_acquire(&rtm_arena.lock);
  rtm_arena.purge = purge;
  set_retained_most();
  os_lock_release(&rtm_arena.lock);
}

static bool map_metadata(size_t bytes) {
  enum { STEP = 64 << 10 };
  struct arena *a = &rtm_arena;
  size_t step = bits_round_up(bytes > STEP ? bytes : STEP, GRANULE_SIZE);
  char *more = map_anywhere(step);
  if (!more) return false;
  RTM_WRITE_RELAXED(a->meta, more);
  RTM_WRITE_RELAXED(a->meta_end, more + step);
  return true;
}

bool arena_map_metadata(size_t bytes) {
  os_lock_acquire(&rtm_arena.lock);
  bool mapped = !arena_short_of_metadata(bytes) || map_metadata(bytes);
  os_lock_release(&rtm_arena.lock);
  return mapped;
}

// None was mapped ahead.
static RTM_NOINLINE bool map_metadata_late(size_t bytes) { return map_metadata(bytes); }

void *arena_metadata(size_t bytes) {
  enum { LINE = 64 };
  struct arena *a = &rtm_arena;
  void *result = NULL;
  bytes = bits_round_up(bytes, LINE);
  os_lock_acquire(&a->lock);
  if (RTM_LIKELY(!arena_short_of_metadata(bytes)) || map_metadata_late(bytes)) {
    result = a->meta;
    RTM_WRITE_RELAXED(a->meta, a->meta + bytes);
  }
  os_lock_release(&a->lock);
  return result;
}

bool arena_reserve(size_t bytes) {
  // Touching more than the machine has would end the process.
  if (bytes > os_machine_memory() || bytes > (size_t)rtm_arena.segments_most << SEGMENT_SHIFT) return false;
  uint32_t granules = (uint32_t)((bytes + GRANULE_SIZE - 1) >> GRANULE_SHIFT);
  bool zero;
  struct span *run = arena_take_run(granules, 1, &zero);
  if (!run) return false;
  memset(run->start, 0, (size_t)granules << GRANULE_SHIFT);
  rtm_arena.granules_reserved = run->length * SEGMENT_GRANULES;
  set_retained_most();
  arena_give_run(run);
  return true;
}
