// See area.h.
#include "area.h"

#include <string.h>

#include "message.h"
#include "store.h"
#include "tlsf_area.h"

enum {
  UNIT = 16,  // a bit of the trees stands for so many bytes
  LINE = 64,
};
#define STRIPE_SIZE (STORE_BLOCKS_MAX * UNIT)
_Static_assert(UNIT == TLSF_ALIGNMENT, "each block starts in a unit of its own");
_Static_assert((int)RTM_HEAP_ALIGNMENT == LINE && _Alignof(struct area) <= LINE, "the caller aligns for the structure");

// ---- which area an address is in ----

// Slots are written under the arena's lock, which a fork holds; whoever reads them holds a block of the area that it
// looks for, or none at all.
static struct {
  _Atomic uint32_t used;  // slots [0, used) have been in use
  struct {
    _Atomic uintptr_t start, end;  // end 0: empty
  } slot[AREAS_MOST];
} areas;

struct area *area_of(const void *address) {
  uintptr_t at = (uintptr_t)address;
  uint32_t used = atomic_load_explicit(&areas.used, memory_order_acquire);
  for (uint32_t i = 0; i < used; i++) {
    uintptr_t start = atomic_load_explicit(&areas.slot[i].start, memory_order_relaxed);
    if (at >= start && at < atomic_load_explicit(&areas.slot[i].end, memory_order_acquire)) return (struct area *)start;
  }
  return NULL;
}

static const char *enter(uintptr_t start, uintptr_t end) {
  const char *wrong = NULL;
  os_lock_acquire(&rtm_arena.lock);
  uint32_t free = AREAS_MOST, used = atomic_load_explicit(&areas.used, memory_order_relaxed);
  for (uint32_t i = 0; i < AREAS_MOST && !wrong; i++) {
    uintptr_t other = i < used ? atomic_load_explicit(&areas.slot[i].end, memory_order_relaxed) : 0;
    if (!other && i < free) free = i;
    if (other && start < other && atomic_load_explicit(&areas.slot[i].start, memory_order_relaxed) < end)
      wrong = "it overlaps another heap's memory; rtm_heap_destroy that heap first";
  }
  if (!wrong && free == AREAS_MOST) wrong = "there are 64 such heaps already; rtm_heap_destroy one first";
  if (!wrong) {
    atomic_store_explicit(&areas.slot[free].start, start, memory_order_relaxed);
    atomic_store_explicit(&areas.slot[free].end, end, memory_order_release);
    if (free >= used) atomic_store_explicit(&areas.used, free + 1, memory_order_release);
  }
  os_lock_release(&rtm_arena.lock);
  return wrong;
}

static void leave(uintptr_t start) {
  os_lock_acquire(&rtm_arena.lock);
  for (uint32_t i = 0; i < AREAS_MOST; i++)
    if (atomic_load_explicit(&areas.slot[i].start, memory_order_relaxed) == start)
      atomic_store_explicit(&areas.slot[i].end, 0, memory_order_release);
  os_lock_release(&rtm_arena.lock);
}

// ---- layout ----

struct layout {
  uint32_t stripes;
  size_t trees;  // offsets from the start of the memory
  size_t tlsf;
};

static size_t tree_size(size_t stripe_bytes) {
  return bits_round_up(store_words((stripe_bytes + UNIT - 1) / UNIT), LINE);
}

static size_t stripe_bytes(size_t bytes, uint32_t stripe) {
  size_t left = bytes - stripe * STRIPE_SIZE;
  return left < STRIPE_SIZE ? left : STRIPE_SIZE;
}

static struct layout layout_of(size_t bytes) {
  struct layout layout = {.stripes = (uint32_t)((bytes + STRIPE_SIZE - 1) / STRIPE_SIZE)};
  layout.trees = bits_round_up(sizeof(struct area) + layout.stripes * sizeof(struct span), LINE);
  layout.tlsf = layout.trees;
  for (uint32_t i = 0; i < layout.stripes; i++) layout.tlsf += tree_size(stripe_bytes(bytes, i));
  return layout;
}

struct area *area_make(void *memory, size_t bytes, const char **wrong) {
  uintptr_t start = (uintptr_t)memory, end;
  size_t window = (size_t)rtm_arena.segments_most << SEGMENT_SHIFT;
  *wrong = !memory || start % LINE ? "the memory's address is no multiple of RTM_HEAP_ALIGNMENT, 64"
           : __builtin_add_overflow(start, bytes, &end) ? "its size reaches beyond the end of all addresses"
           : area_overhead(bytes) == SIZE_MAX
               ? "it is too small, or larger than 64 GiB; rtm_heap_memory_for says how much a load needs"
           : start < rtm_window_base + window && end > rtm_window_base
               ? "it is memory of rtmalloc's; give a static array or memory of the system's, or use rtm_heap_new"
               : NULL;
  if (*wrong) return NULL;
  *wrong = enter(start, end);
  if (*wrong) return NULL;
  struct layout layout = layout_of(bytes);
  memset(memory, 0, layout.tlsf);
  struct area *area = memory;
  area->object = (struct rtm_heap){.area = area, .fast = &rtm_no_heap, .mark = HEAP_OBJECT_LIVE};
  area->end = (char *)end;
  area->stripes = layout.stripes;
  char *tree = (char *)memory + layout.trees;
  for (uint32_t i = 0; i < layout.stripes; i++) {
    size_t size = stripe_bytes(bytes, i);
    store_make_tree(&area->stripe[i], (char *)memory + i * STRIPE_SIZE, UNIT, (uint32_t)((size + UNIT - 1) / UNIT),
                    (_Atomic uint64_t *)tree);
    tree += tree_size(size);
  }
  area->blocks = tlsf_init((char *)memory + layout.tlsf, bytes - layout.tlsf, NULL);
  return area;
}

void area_end(struct area *area) {
  area->object.mark = 0;
  leave((uintptr_t)area);
}

// ---- sizes ----

// As TLSF counts it: its structure grows with the logarithm of the area only.
size_t area_overhead(size_t bytes) {
  enum { MOST_LOG2 = 36 };
  if (bytes < sizeof(struct area) || bytes > (size_t)1 << MOST_LOG2) return SIZE_MAX;
  size_t before = layout_of(bytes).tlsf, control = bytes > before ? tlsf_overhead(bytes - before) : SIZE_MAX;
  return control == SIZE_MAX ? SIZE_MAX : before + control;
}

size_t area_size_for(size_t live, size_t largest) {
  size_t tlsf_bytes = tlsf_area_size(live, largest, NULL);
  if (tlsf_bytes > (size_t)1 << 48) return SIZE_MAX;
  // The trees' share of themselves: a few steps, as each is a hundredth of the one before.
  size_t bytes = tlsf_bytes, need;
  while ((need = layout_of(bytes).tlsf + tlsf_bytes) > bytes) bytes = bits_round_up(need, LINE);
  return bytes;
}

// ---- blocks ----

static struct span *stripe_of(struct area *area, const void *block) {
  return &area->stripe[(size_t)((const char *)block - (const char *)area) / STRIPE_SIZE];
}

static RTM_COLD void no_block(const void *block) {
  message_misuse(block, "invalid free",
                 "no live block of this heap starts there: it was freed before, or lies inside a block");
}

// Another thread's free is counted where it is made, so that `limits` knows of it at once.
static void give(struct area *area, void *block) {
  if (RTM_UNLIKELY(!tlsf_free(area->blocks, block))) no_block(block);
}

// Up to `most` blocks come back, of one stripe.
static void collect_some(struct area *area, unsigned most) {
  struct span *stripe = &area->stripe[area->turn];
  if (++area->turn == area->stripes) area->turn = 0;
  void *block;
  while (most-- && (block = store_take(stripe))) give(area, block);
}

void area_collect(struct area *area) {
  for (uint32_t i = 0; i < area->stripes; i++) {
    void *block;
    while ((block = store_take(&area->stripe[i])) || (block = store_take_again(&area->stripe[i]))) give(area, block);
  }
}

static void *take(struct area *area, size_t alignment, size_t size) {
  return alignment <= UNIT ? tlsf_malloc(area->blocks, size) : tlsf_aligned_alloc(area->blocks, alignment, size);
}

static void *permitted(struct area *area, void *block) {
  if (RTM_LIKELY(!area->limited) || !block || limits_take(&area->limits, tlsf_usable_size(block))) return block;
  tlsf_free(area->blocks, block);
  return NULL;
}

// As many blocks come back as may be needed for others to keep up, and where there is no memory a word full.
void *area_malloc(struct area *area, size_t alignment, size_t size) {
  enum { USUAL = 2, MOST = 64 };
  collect_some(area, USUAL);
  void *block = take(area, alignment, size);
  if (RTM_UNLIKELY(!block)) {
    collect_some(area, MOST);
    block = take(area, alignment, size);
  }
  return permitted(area, block);
}

// In place where TLSF can, if no limit is to be kept; else as malloc, copy and free.
void *area_realloc(struct area *area, void *block, size_t size) {
  collect_some(area, 1);
  if (!area->limited) return tlsf_realloc(area->blocks, block, size);
  size_t had = tlsf_usable_size(block);
  if (size <= had && size >= had / 2) return block;
  void *again = area_malloc(area, UNIT, size);
  if (!again) return size <= had ? block : NULL;
  memcpy(again, block, size < had ? size : had);
  area_free(area, block);
  return again;
}

static bool is_pending(struct span *stripe, const void *block) {
  return store_has_bit(stripe->store_level[0], (uint64_t)((const char *)block - stripe->start) / UNIT);
}

void area_free(struct area *area, void *block) {
  if (RTM_UNLIKELY((uintptr_t)block % UNIT || is_pending(stripe_of(area, block), block))) no_block(block);
  if (RTM_UNLIKELY(area->limited)) limits_give(&area->limits, tlsf_usable_size(block));
  give(area, block);
}

void area_free_remote(struct area *area, void *block) {
  if (RTM_UNLIKELY((uintptr_t)block % UNIT)) no_block(block);
  if (RTM_UNLIKELY(area->limited)) limits_give(&area->limits, area_usable_size(area, block));
  store_mark(stripe_of(area, block), block);
}

// Of another thread's block, too: the size in its header stays as long as it lives, but the user may change a flag
// beside it at the same time, as a whole word. So the header is read here, where ThreadSanitizer does not look.
_Static_assert(TLSF_HEADER == sizeof(uint64_t), "a header is one word: size and flags");
__attribute__((no_sanitize("thread"))) size_t area_usable_size(const struct area *area, const void *block) {
  (void)area;
  return (((const uint64_t *)block)[-1] & ~(uint64_t)(TLSF_ALIGNMENT - 1)) - TLSF_HEADER;
}

// ---- all of them ----

struct walk {
  struct area *area;
  walk_function *visit;
  void *argument;
};

static bool visit_live(void *block, size_t bytes, void *argument) {
  struct walk *walk = argument;
  return is_pending(stripe_of(walk->area, block), block) || walk->visit(block, bytes, walk->argument);
}

bool area_walk(struct area *area, walk_function *visit, void *argument) {
  area_collect(area);
  struct walk walk = {area, visit, argument};
  return tlsf_visit(area->blocks, visit_live, &walk);
}

const char *area_check(struct area *area) { return tlsf_check(area->blocks); }
