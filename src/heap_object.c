// See heap_object.h; the contracts are in include/rtmalloc.h.
#include "heap_object.h"

#include <errno.h>
#include <string.h>

#include "alloc.h"
#include "area.h"
#include "check.h"
#include "hooks.h"
#include "message.h"
#include "mode.h"
#include "process.h"
#include "segment.h"
#include "walk.h"

// Under the arena's lock, which a fork holds.
static struct {
  struct rtm_heap *with_core, *without;  // ended ones; the first keep an empty heap
} ended;

RTM_INLINE void check_live(const struct rtm_heap *object) {
  if (RTM_UNLIKELY(!object) || RTM_UNLIKELY(object->mark != HEAP_OBJECT_LIVE))
    message_misuse(object, "invalid heap", "it is none of rtm_heap_new's, or has been destroyed or deleted");
}

static void *object_out_of_memory(void) {
  errno = ENOMEM;
  return NULL;
}

// ---- working on a heap: it is the thread's own for the length of one call ----

struct own {
  struct heap *heap, *fast;
};

RTM_INLINE struct own enter(const struct rtm_heap *object) {
  struct own own = {rtm_heap, rtm_fast_heap};
  rtm_heap = object->core;
  rtm_fast_heap = object->fast;
  return own;
}
RTM_INLINE void leave(struct own own) {
  rtm_heap = own.heap;
  rtm_fast_heap = own.fast;
}

// ---- beginning and ending ----

static struct rtm_heap *pop(struct rtm_heap **list) {
  os_lock_acquire(&rtm_arena.lock);
  struct rtm_heap *object = *list;
  if (object) *list = object->next;
  os_lock_release(&rtm_arena.lock);
  return object;
}

static void push(struct rtm_heap **list, struct rtm_heap *object) {
  object->mark = 0;
  os_lock_acquire(&rtm_arena.lock);
  object->next = *list;
  *list = object;
  os_lock_release(&rtm_arena.lock);
}

struct rtm_heap *rtm_heap_new(void) {
  enum { NO_ROUTINE = 1 };  // profiles match threads by their start routine: none starts there
  if (!process_init()) return object_out_of_memory();
  if (mode_is_sealed() && !mode_miss_memory(NULL, SEGMENT_SIZE)) return object_out_of_memory();
  struct rtm_heap *object = pop(&ended.with_core);
  if (!object) {
    object = pop(&ended.without);
    if (!object) object = arena_metadata(sizeof *object);
    if (!object) return object_out_of_memory();
    object->core = heap_new(NO_ROUTINE, 0, heap_owned());
    if (!object->core) {
      push(&ended.without, object);
      return object_out_of_memory();
    }
    object->core->is_object = true;
  } else if (!object->core->spare_state && !rtm_mode_watches) {
    segment_begin(object->core);
  }
  object->fast = heap_fast(object->core);
  object->mark = HEAP_OBJECT_LIVE;
  return object;
}

static void refuse_memory(const char *function, size_t bytes, const char *why) {
  message_warn_number(function, bytes, why);
  errno = EINVAL;
}

struct rtm_heap *rtm_heap_new_in(void *memory, size_t bytes) {
  const char *wrong;
  if (!process_init()) return object_out_of_memory();  // the window of addresses is known from here on
  struct area *area = area_make(memory, bytes, &wrong);
  if (area) return &area->object;
  refuse_memory("rtm_heap_new_in: bytes", bytes, wrong);
  return NULL;
}

size_t rtm_heap_overhead(size_t bytes) { return area_overhead(bytes); }
size_t rtm_heap_memory_for(size_t live, size_t largest) { return area_size_for(live, largest); }

// As if the heap were new. Its hint trees stay, all vacant.
static void reset(struct heap *core) {
  for (unsigned class = 0; class <= CLASSES; class ++) core->page[class] = &rtm_no_page;
  memset(core->queue, 0, sizeof core->queue);
  memset(core->pages, 0, sizeof core->pages);
  memset(core->poor, 0, sizeof core->poor);
  memset(&core->spans, 0, sizeof core->spans);
  core->segments = core->live = core->dirty = core->waiting = core->turn = 0;
  core->partly_mapped = core->purges_unusually = false;
  RTM_WRITE_RELAXED(core->limited, false);
  memset(&core->limits, 0, sizeof core->limits);
  __atomic_store_n(&core->state, heap_owned(), __ATOMIC_RELAXED);
  core->keep_of_live = core->learned = 0;
  segment_keep(core, 0);
  hint_reset(&core->hints);
}

// The segment's descriptors are as before their first use, but that their memory may be there: no free finds a block by
// them, and whoever takes one finds the zeros that it expects.
static void forget_descriptors(uint32_t segment) {
  uint32_t used = segment_at(segment)->first_unused - FIRST_SPAN_SLOT;
  memset(segment_slot(segment, FIRST_SPAN_SLOT), 0, (size_t)used << SPAN_SHIFT);
}

// A huge block is freed, and its contents go back to the system.
static bool wipe(void *block, size_t bytes, void *argument) {
  if (span_of(window_granule(block))->kind != SPAN_HUGE) memset(block, 0, bytes);
  return (void)argument, true;
}

static void destroy_core(struct heap *core) {
  uint32_t known = walk_segments();
  if (SECURE_VARIANT) {
    secure_flush(core);
    if (rtm_secure.features & SECURE_ZERO) walk_heap(core, wipe, NULL);
  }
  for (uint32_t segment = 1; segment < known; segment++) {
    struct span *huge = walk_huge(core, segment);
    if (huge) free_fast(huge->start);
    if (!walk_owns(core, segment)) continue;
    if (SECURE_VARIANT) secure_unguard_segment(segment);
    forget_descriptors(segment);
    arena_give_segment(segment, segment_at(segment));
  }
  if (core->spare) arena_give_segment(core->spare, segment_at(core->spare));
  core->spare = 0;
  core->spare_state = SPARE_UNREADY;
  while (arena_must_shrink()) arena_shrink();
  reset(core);
}

void rtm_heap_destroy(struct rtm_heap *object) {
  check_live(object);
  if (object->area) {
    area_end(object->area);
    return;
  }
  destroy_core(object->core);
  push(&ended.with_core, object);
}

static bool stop(void *block, size_t bytes, void *argument) { return (void)block, (void)bytes, (void)argument, false; }

int rtm_heap_delete(struct rtm_heap *object) {
  check_live(object);
  if (object->area) {
    if (!area_walk(object->area, stop, NULL)) {
      message_warn("rtm_heap_delete", "heap over a caller's memory",
                   "it has live blocks, which cannot outlive it; free them, or rtm_heap_destroy");
      return EBUSY;
    }
    area_end(object->area);
    return 0;
  }
  struct heap *core = object->core;
  object->core = NULL;
  push(&ended.without, object);
  core->is_object = false;
  heap_orphan(core);
  return 0;
}

// ---- blocks ----

// The callbacks, with the thread's own heap in place again. True: try again. A limit's refusal is final.
static RTM_COLD bool failed(struct rtm_heap *object, size_t size, uint64_t refused) {
  struct limits *limits = object->core ? &object->core->limits : &object->area->limits;
  if (limits->refused == refused) {
    if (object->core && !mode_is_sealed() && hooks_out_of_memory(size)) return true;
    hooks_error(ENOMEM);
  }
  errno = ENOMEM;
  return false;
}

static uint64_t refused(const struct rtm_heap *object) {
  return object->core ? object->core->limits.refused : object->area->limits.refused;
}

static void *aligned(struct rtm_heap *object, size_t alignment, size_t size) {
  if (object->area) return area_malloc(object->area, alignment, size);
  struct own own = enter(object);
  void *block = alloc_aligned(alignment, size);
  leave(own);
  return block;
}

static RTM_NOINLINE void *aligned_or(struct rtm_heap *object, size_t alignment, size_t size) {
  uint64_t before;
  void *block;
  do {
    before = refused(object);
    block = aligned(object, alignment, size);
  } while (RTM_UNLIKELY(!block) && failed(object, size, before));
  return block;
}

// As alloc_fast, of this heap: the usual case without becoming its thread. NULL: not the usual case.
RTM_INLINE void *take_linked(const struct rtm_heap *object, size_t size) {
  if (SECURE_VARIANT || RTM_UNLIKELY(size > BLOCK_MAX)) return NULL;
  struct span *page = object->fast->page[size_class(size)];
  void *block = page->free;
  if (RTM_UNLIKELY(!block)) return NULL;
  page->free = *(void **)block;
  page->used++;
  return block;
}

void *rtm_heap_malloc(struct rtm_heap *object, size_t size) {
  check_live(object);
  void *block = take_linked(object, size);
  return RTM_LIKELY(block != NULL) ? block : aligned_or(object, 1, size);
}

void *rtm_heap_aligned_alloc(struct rtm_heap *object, size_t alignment, size_t size) {
  check_live(object);
  if (bits_is_power_of_two(alignment)) return aligned_or(object, alignment, size);
  errno = EINVAL;
  return NULL;
}

void *rtm_heap_calloc(struct rtm_heap *object, size_t count, size_t size) {
  check_live(object);
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return object_out_of_memory();
  if (object->core && bytes > BLOCK_MAX) {  // may be known to be zero
    struct own own = enter(object);
    uint64_t before = refused(object);
    void *block = alloc_zeroed(1, bytes);
    leave(own);
    if (block || !failed(object, bytes, before)) return block;
  }
  void *block = aligned_or(object, 1, bytes);
  return block ? memset(block, 0, bytes) : NULL;
}

static void *realloc_elsewhere(struct rtm_heap *object, void *block, size_t size) {
  size_t had = alloc_usable_size(block);
  void *moved = aligned_or(object, 1, size);
  if (!moved) return NULL;
  memcpy(moved, block, had < size ? had : size);
  free_fast(block);
  return moved;
}

static void *realloc_here(struct rtm_heap *object, void *block, size_t size) {
  if (object->area) {
    if (area_of(block) != object->area) return realloc_elsewhere(object, block, size);
    return area_realloc(object->area, block, size);
  }
  struct own own = enter(object);
  void *again = alloc_again(block, size);
  leave(own);
  return again;
}

void *rtm_heap_realloc(struct rtm_heap *object, void *block, size_t size) {
  check_live(object);
  if (!block) return aligned_or(object, 1, size);
  if (!size) {
    free_fast(block);
    return NULL;
  }
  uint64_t before;
  void *again;
  do {
    before = refused(object);
    again = realloc_here(object, block, size);
  } while (RTM_UNLIKELY(!again) && failed(object, size, before));
  return again;
}

static bool contains(const struct rtm_heap *object, const void *block) {
  if (object->area) return area_of(block) == object->area;
  size_t granule = window_granule(block);
  if (granule >= RTM_READ_RELAXED(rtm_window_granules)) return false;
  struct span *span = span_of(granule);
  if (span->kind == SPAN_HUGE) return RTM_READ_RELAXED(span->owner) == object->core;
  return (span_tag(span) & ~(uintptr_t)TAG_SLOW) == (uintptr_t)object->core;
}

bool rtm_heap_contains(const struct rtm_heap *object, const void *block) {
  check_live(object);
  return block && contains(object, block);
}

static RTM_NOINLINE void free_other(struct rtm_heap *object, void *block) {
  if (!block) return;
  if (RTM_UNLIKELY(!contains(object, block)))
    message_misuse(block, "invalid free", "it is no live block of this heap; rtm_free takes a block of any heap");
  if (object->area) {
    area_free(object->area, block);
    return;
  }
  struct own own = enter(object);
  free_fast(block);
  leave(own);
}

// As free_fast, of this heap: a page that keeps a block in use, and does not become empty.
void rtm_heap_free(struct rtm_heap *object, void *block) {
  check_live(object);
  size_t granule = window_granule(block);
  if (RTM_LIKELY(granule < RTM_READ_RELAXED(rtm_window_granules))) {
    struct span *page = span_of(granule);
    if (!SECURE_VARIANT && RTM_LIKELY(span_tag(page) == (uintptr_t)object->fast) && page->free != block &&
        page->used > 1) {
      *(void **)block = page->free;
      page->free = block;
      page->used--;
      return;
    }
  }
  free_other(object, block);
}

// ---- all blocks ----

struct usable_visit {
  rtm_visit_function *visit;
  void *argument;
};

static bool visit_usable(void *block, size_t bytes, void *argument) {
  const struct usable_visit *usable = argument;
  return (void)bytes, usable->visit(block, alloc_usable_size(block), usable->argument);
}

bool rtm_heap_visit(struct rtm_heap *object, rtm_visit_function *visit, void *argument) {
  check_live(object);
  if (SECURE_VARIANT && object->core)
    return walk_heap(object->core, visit_usable, &(struct usable_visit){visit, argument});
  return object->area ? area_walk(object->area, visit, argument) : walk_heap(object->core, visit, argument);
}

void rtm_heap_collect(struct rtm_heap *object, bool force) {
  check_live(object);
  if (object->area)
    area_collect(object->area);
  else if (!force)
    heap_collect(object->core);
  else
    heap_trim(object->core);
}

const char *rtm_heap_check(struct rtm_heap *object) {
  check_live(object);
  return object->area ? area_check(object->area) : check_heap(object->core);
}

// ---- limits and usage ----

static bool count(void *block, size_t bytes, void *argument) {
  (void)block;
  struct rtm_usage *usage = argument;
  usage->blocks++;
  usage->held += bytes;
  return true;
}

static bool is_limited(const struct rtm_limits *most) { return most->most_held || most->most_ever || most->rate; }

// The state first: what other threads free from then on is counted.
static void limit_core(struct heap *core, const struct rtm_limits *most) {
  struct rtm_usage now = {0};
  RTM_WRITE_RELAXED(core->limited, is_limited(most));
  __atomic_store_n(&core->state, core->limited ? HEAP_COUNTED : heap_owned(), __ATOMIC_SEQ_CST);
  walk_heap(core, count, &now);
  limits_set(&core->limits, most, now.held);
}

static bool possible(const struct rtm_limits *most, const char *function) {
  const char *wrong = limits_check(most);
  if (wrong) message_warn(function, "limits", wrong);
  return !wrong;
}

int rtm_heap_set_limits(struct rtm_heap *object, const struct rtm_limits *most) {
  check_live(object);
  if (!possible(most, "rtm_heap_set_limits")) return EINVAL;
  if (object->core) {
    limit_core(object->core, most);
    object->fast = heap_fast(object->core);
    return 0;
  }
  struct area *area = object->area;
  struct rtm_usage now = {0};
  area->limited = is_limited(most);
  area_walk(area, count, &now);
  limits_set(&area->limits, most, now.held);
  return 0;
}

int rtm_thread_set_limits(const struct rtm_limits *most) {
  if (!possible(most, "rtm_thread_set_limits")) return EINVAL;
  struct heap *heap = heap_of_thread();
  if (!heap) return ENOMEM;
  if (heap->stores) {
    message_warn("rtm_thread_set_limits", mode_name(), "a profile prepared the thread's heap, and is its limit");
    return ENOTSUP;
  }
  limit_core(heap, most);
  rtm_fast_heap = heap_fast(heap);
  return 0;
}

static void core_usage(struct heap *core, struct rtm_usage *usage) {
  if (core->limits.held_peak || core->limited) limits_usage(&core->limits, usage);
  struct rtm_usage now = {0};
  walk_heap(core, count, &now);
  usage->blocks = now.blocks;
  if (!core->limited) usage->held = now.held;
}

void rtm_heap_usage(struct rtm_heap *object, struct rtm_usage *usage) {
  check_live(object);
  memset(usage, 0, sizeof *usage);
  if (object->core) {
    core_usage(object->core, usage);
    return;
  }
  limits_usage(&object->area->limits, usage);
  struct rtm_usage now = {0};
  area_walk(object->area, count, &now);
  usage->blocks = now.blocks;
  usage->held = now.held;
}

void rtm_thread_usage(struct rtm_usage *usage) {
  memset(usage, 0, sizeof *usage);
  struct heap *heap = heap_of_thread();
  if (heap && !heap->stores) core_usage(heap, usage);
}
