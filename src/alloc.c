// The paths behind the fast ones, and the rtm_ interface. See alloc.h and include/rtmalloc.h.
#include "alloc.h"

#include <errno.h>
#include <string.h>

#include "area.h"
#include "check.h"
#include "hooks.h"
#include "huge.h"
#include "medium.h"
#include "message.h"
#include "mode.h"
#include "options.h"
#include "page.h"
#include "process.h"
#include "record.h"
#include "remote.h"
#include "rtmalloc.h"
#include "stats.h"
#include "store.h"

static const char foreign[] = "rtmalloc did not allocate it";
static const char not_allocated[] = "no block starts there: it was freed before, or never allocated";

static RTM_COLD void *no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

// While a thread works on a heap object, rtm_heap is not its own; the callbacks come once that is over (heap_object.c).
static RTM_COLD void *out_of_memory(void) {
  if (!rtm_heap->is_object) hooks_error(ENOMEM);
  return no_memory();
}

static bool try_again(size_t size) {
  return !mode_is_sealed() && !rtm_heap->is_object && hooks_out_of_memory(size - secure_pad(0));
}

static size_t usable(const struct span *span) {
  if (span->kind == SPAN_HUGE) return huge_size(span);
  if (span->kind == SPAN_STORE) return span->store_size;
  return span->kind == SPAN_MEDIUM ? (size_t)(span->length - span_guard()) << GRANULE_SHIFT
                                   : rtm_shape[span->kind].block_size;
}

// ---- malloc ----

RTM_INLINE void *counted(void *block, size_t size) {
  if (DEBUG_VARIANT) check_operation(rtm_heap);
  if (RTM_UNLIKELY(rtm_options.count) && block) stats_count_malloc(block, size);
  return block;
}

// The heap that serves what this thread's prepared one has not; the thread's own if it is a general one. NULL: out of
// memory.
static struct heap *general(struct heap *heap) {
  struct stores *stores = heap->stores;
  if (!stores) return heap;
  if (!stores->general) stores->general = heap_general();
  return stores->general;
}

// The system gives no more: once again, with everything given back that is only kept for later.
RTM_COLD void *page_out_of_memory(unsigned class) {
  static _Thread_local bool again __attribute__((tls_model("initial-exec")));
  if (again || mode_is_sealed()) return no_memory();
  again = true;
  alloc_trim();
  void *block = page_malloc(general(rtm_heap), class);
  while (!block && try_again(rtm_shape[class].block_size)) block = page_malloc(general(rtm_heap), class);
  again = false;
  return block ? block : out_of_memory();
}

// Where the path is long anyway; the short ones look for themselves.
static void heartbeat(void) {
  if (RTM_UNLIKELY(rtm_hooks.deferred_free != NULL) && !rtm_heap->is_object) hooks_heartbeat(false);
}

// ---- limits (limit.h) ----

// Bytes of the block that a request gets.
static size_t bytes_for(size_t size) {
  bool alone = SECURE_VARIANT && rtm_secure.features & SECURE_ALONE;
  return size <= BLOCK_MAX && !alone ? rtm_shape[size_class(size)].block_size : bits_round_up(size, GRANULE_SIZE);
}

// False: over a limit.
RTM_INLINE bool limits_permit(struct heap *heap, size_t size) {
  return RTM_LIKELY(!heap->limited) || limits_take(&heap->limits, bytes_for(size));
}

RTM_INLINE void *limits_kept(struct heap *heap, void *block, size_t size) {
  if (RTM_UNLIKELY(heap->limited) && !block) limits_undo(&heap->limits, bytes_for(size));
  return block;
}

// ---- prepared heaps ----

// What the profile has not.
static RTM_NOINLINE void *miss(size_t size) {
  struct heap *heap = rtm_heap;
  if (!mode_miss(heap, size)) return out_of_memory();
  if (size <= heap->stores->extent_max) {
    void *late = extent_late(heap, size);
    if (late) return late;
  }
  struct heap *other = general(heap);
  if (!other) return out_of_memory();
  if (size <= BLOCK_MAX) return page_malloc(other, size_class(size));
  bool zero;
  void *block = size <= MEDIUM_MAX ? medium_malloc(other, size) : huge_malloc(size, 1, &zero);
  return block ? block : out_of_memory();
}

// Of what all threads have in common; NULL: nothing of that size.
RTM_INLINE void *common_block(size_t size) {
  const struct stores *common = rtm_heap->stores->common;
  if (!common || size > BIN_SIZE_MAX) return NULL;
  return store_take_common(size <= BLOCK_MAX ? common->heap->page[size_class(size)] : common->large[bin_large(size)]);
}

static void *first_of_store(struct span *store);
static void *prepared_large(size_t size, const struct stores *stores);

// From the heap that the thread has changed to, which was made with blocks of that size: so it is not left again.
static RTM_NOINLINE void *alloc_after_change(size_t size) {
  struct heap *heap = rtm_heap;
  if (size > BLOCK_MAX) return size < heap->store_from ? extent_large(heap, size) : prepared_large(size, heap->stores);
  struct span *store = heap->page[size_class(size)];
  return store->kind == SPAN_STORE ? first_of_store(store) : extent_malloc_any(heap, size);
}

static RTM_NOINLINE void *miss_in_heap_without_blocks(size_t size) {
  unsigned bin = size <= BLOCK_MAX ? size_class(size) : bin_of_large(size);
  return heap_change(bin) ? alloc_after_change(size) : miss(size);
}

// No store of the thread has a block left, or its extent no span.
RTM_NOINLINE void *alloc_miss(size_t size) {
  void *block = common_block(size);
  if (RTM_LIKELY(block != NULL)) return block;
  return rtm_heap->prepared || size > BIN_SIZE_MAX ? miss(size) : miss_in_heap_without_blocks(size);
}

// The store stands for the size: what is not kept for this rare path makes the way before it shorter.
static RTM_NOINLINE void *take_late(struct span *store) {
  void *block = store_is_empty(store) ? NULL : store_take_again(store);
  return block ? block : alloc_miss(store->store_size);
}

static RTM_NOINLINE void *large_late(struct span *store, size_t size) {
  void *block = store_is_empty(store) ? NULL : store_take_again(store);
  return block ? block : alloc_miss(size);
}

// `size`: BLOCK_MAX to BIN_SIZE_MAX.
static RTM_NOINLINE void *prepared_large(size_t size, const struct stores *stores) {
  struct span *store = stores->large[bin_large(size)];
  void *block = store_take_first(store);
  return RTM_LIKELY(block != NULL) ? block : large_late(store, size);
}

static void *first_of_store(struct span *store) {
  void *block = store_take_first(store);
  return block ? block : take_late(store);
}

// What stands in a profile, and in stores, for a request that is aligned to more than a granule: a size above BLOCK_MAX
// that is a multiple of the alignment, as then all blocks of its bin are; and above EXTENT_MAX if no extent aligns it.
// 0: no store can have such blocks. `size`: at most PTRDIFF_MAX.
static size_t aligned_size(size_t size, size_t alignment) {
  if (alignment > STORE_ALIGNMENT_MAX) return 0;
  size_t least = size + alignment - GRANULE_SIZE > EXTENT_MAX ? EXTENT_MAX + 1 : BLOCK_MAX + 1;
  size_t rounded = bits_round_up(size > least ? size : least, alignment);
  return rounded > BIN_SIZE_MAX ? 0 : rounded;
}

static bool is_aligned(const struct span *store, size_t alignment) {
  return !(((uintptr_t)store->start | store->store_size) & (alignment - 1));
}

// Of the extent, or of the heap's own store, without a loop. NULL: it has none, or no block left.
static void *take_aligned(struct heap *heap, size_t size, size_t alignment) {
  size_t rounded = aligned_size(size, alignment);
  if (!rounded) return NULL;
  if (rounded < heap->store_from) return extent_aligned(heap, size, alignment);
  struct span *store = heap->stores->large[bin_large(rounded)];
  return is_aligned(store, alignment) ? store_take_first(store) : NULL;
}

// Where that has nothing: what is late, or what all threads have in common; or of another heap of the thread's routine,
// if its own was made without blocks.
static RTM_NOINLINE void *take_aligned_late(size_t size, size_t alignment) {
  struct heap *heap = rtm_heap;
  void *block = take_aligned(heap, size, alignment);
  size_t rounded = aligned_size(size, alignment);
  if (block || !rounded) return block;
  unsigned bin = bin_large(rounded);
  const struct stores *common = heap->stores->common;
  if (rounded >= heap->store_from) {
    struct span *store = heap->stores->large[bin];
    if (is_aligned(store, alignment) && !store_is_empty(store)) block = store_take_again(store);
    if (!block && common && is_aligned(common->large[bin], alignment)) block = store_take_common(common->large[bin]);
  }
  if (block || heap->prepared || !heap_change(bin_of_large(rounded))) return block;
  return take_aligned(rtm_heap, size, alignment);
}

static void *first_block(size_t size) {
  struct heap *heap = heap_of_thread();
  if (!heap) return out_of_memory();
  heartbeat();
  CHECK_SCOPE();
  if (!limits_permit(heap, size)) return no_memory();
  struct span *store = heap->page[size_class(size)];
  if (store->kind == SPAN_STORE) return counted(first_of_store(store), size);
  if (heap->stores) return counted(extent_malloc_any(heap, size), size);
  return counted(limits_kept(heap, page_malloc(heap, size_class(size)), size), size);
}

static RTM_NOINLINE void *alloc_first(size_t size) {
  void *block = first_block(size);
  heap_end_operation();
  return block;
}

RTM_INLINE void *medium(struct heap *heap, size_t size) {
  return RTM_UNLIKELY(heap->unusual) ? medium_malloc_unusual(heap, size) : medium_malloc_or(heap, size);
}

static RTM_NOINLINE void *alloc_after_heartbeat(size_t size) {
  heartbeat();
  struct heap *heap = rtm_fast_heap;
  if (RTM_UNLIKELY(heap == &rtm_no_heap))  // the callback has set limits
    return size > BLOCK_MAX ? medium_out_of_memory(size) : alloc_first(size);
  if (heap->stores)  // the callback has loaded a profile
    return size > BLOCK_MAX ? medium_out_of_memory(size) : extent_malloc_any(heap, size);
  return size > BLOCK_MAX ? medium(heap, size) : page_malloc(heap, size_class(size));
}

// `page`: the class's current one, which has no block linked.
RTM_CODE_TOGETHER void *alloc_slow(size_t size, struct span *page) {
  if (RTM_UNLIKELY(page->kind == SPAN_STORE)) {
    void *block = store_take(page);
    return RTM_LIKELY(block != NULL) ? block : take_late(page);
  }
  struct heap *heap = rtm_fast_heap;
  // Straight on in seg, whose rare operations find no branch predicted.
  if (RTM_LIKELY(heap->stores != NULL)) return extent_malloc(heap, page, size);
  // No heap yet, or operations are counted.
  if (RTM_UNLIKELY(heap == &rtm_no_heap)) return alloc_first(size);
  if (RTM_UNLIKELY(rtm_hooks.deferred_free != NULL)) return alloc_after_heartbeat(size);
  return page_malloc(heap, size_class(size));
}

static void *try_large(struct heap *heap, size_t size, size_t alignment, bool *zero) {
  void *block = NULL;
  if (size <= MEDIUM_MAX && alignment <= MEDIUM_MAX) {
    block = alignment > GRANULE_SIZE ? medium_aligned(heap, size, alignment) : medium_malloc(heap, size);
    if (block) *zero = span_of(window_granule(block))->flags & MEDIUM_ZERO;
  }
  if (!block && (size > MEDIUM_MAX || alignment > GRANULE_SIZE)) {
    if (RTM_UNLIKELY(rtm_mode_watches) && !mode_miss_memory(NULL, size)) return NULL;
    block = huge_malloc(size, alignment, zero);
  }
  return block;
}

// Above BLOCK_MAX, or with an alignment of more than a granule. `*zero`: known to be zero.
static void *large_block(size_t size, size_t alignment, bool *zero) {
  struct heap *heap = heap_of_thread();
  if (!heap || size > PTRDIFF_MAX) return out_of_memory();
  heartbeat();
  CHECK_SCOPE();
  struct stores *stores = heap->stores;
  if (RTM_UNLIKELY(stores != NULL)) {
    *zero = false;
    if (alignment <= GRANULE_SIZE)
      return counted(size <= stores->extent_max ? extent_large(heap, size)
                     : size <= BIN_SIZE_MAX     ? prepared_large(size, stores)
                                                : alloc_miss(size),
                     size);
    void *block = take_aligned_late(size, alignment);
    if (block) return counted(block, size);
    heap = rtm_heap;
    size_t missed = aligned_size(size, alignment);
    if (!mode_miss(heap, missed ? missed : size)) return out_of_memory();
    if (heap->stores->extent_max) {
      extent_collect(heap);
      block = extent_aligned(heap, size, alignment);
      if (block) return counted(block, size);
    }
    heap = general(heap);
    if (!heap) return out_of_memory();
  }
  if (!limits_permit(heap, size)) return no_memory();
  size_t recorded = alignment > GRANULE_SIZE && heap->record ? aligned_size(size, alignment) : 0;
  size_t made = recorded ? recorded : size;
  void *block = try_large(heap, made, alignment, zero);
  if (RTM_UNLIKELY(!block) && !mode_is_sealed()) {
    alloc_trim();
    block = try_large(heap, made, alignment, zero);
    while (!block && try_again(size)) block = try_large(heap, made, alignment, zero);
  }
  if (recorded && block) record_aligned(heap->record, recorded, alignment);
  return limits_kept(heap, block, size) ? counted(block, size) : out_of_memory();
}

static RTM_NOINLINE void *large(size_t size, size_t alignment, bool *zero) {
  void *block = large_block(size, alignment, zero);
  heap_end_operation();
  return block;
}

// The same, the short way where a general heap has it.
static RTM_NOINLINE void *medium_or_large(size_t size, size_t alignment, bool *zero) {
  struct heap *heap = rtm_fast_heap;
  bool is_medium = size <= MEDIUM_MAX && alignment <= MEDIUM_MAX;
  if (!is_medium || heap->unusual || rtm_hooks.deferred_free) return large(size, alignment, zero);
  bool aligned = alignment > GRANULE_SIZE;
  void *block = aligned ? medium_aligned(heap, size, alignment) : medium_malloc_or(heap, size);
  // (medium_malloc_or has tried all, and told the program.)
  if (RTM_UNLIKELY(!block)) return aligned ? large(size, alignment, zero) : NULL;
  *zero = span_of(window_granule(block))->flags & MEDIUM_ZERO;
  return block;
}

static RTM_NOINLINE void *prepared_aligned(size_t size, size_t alignment, bool *zero) {
  *zero = false;
  {
    CHECK_SCOPE();
    void *block = take_aligned(rtm_heap, size, alignment);
    if (RTM_LIKELY(block != NULL)) return counted(block, size);
  }
  return medium_or_large(size, alignment, zero);
}

// The same where the thread may have a prepared heap, which serves it without a loop.
static RTM_NOINLINE void *prepared_or_large(size_t size, size_t alignment, bool *zero) {
  struct heap *heap = rtm_heap;
  if (!heap->stores || size > BIN_SIZE_MAX) return medium_or_large(size, alignment, zero);
  if (alignment > GRANULE_SIZE) return prepared_aligned(size, alignment, zero);
  CHECK_SCOPE();
  *zero = false;
  return counted(RTM_UNLIKELY(size < heap->store_from) ? extent_large(heap, size) : prepared_large(size, heap->stores),
                 size);
}

RTM_COLD void *medium_out_of_memory(size_t size) {
  bool zero;
  return large(size, 1, &zero);
}

void *alloc_large(size_t size) {
  struct heap *heap = rtm_fast_heap;
  if (RTM_UNLIKELY(size - heap->store_from < heap->store_reach)) return prepared_large(size, heap->stores);
  if (RTM_UNLIKELY(size > MEDIUM_MAX)) {
    bool zero;
    return large(size, 1, &zero);
  }
  if (RTM_UNLIKELY(rtm_hooks.deferred_free != NULL)) return alloc_after_heartbeat(size);
  return medium(heap, size);
}

// The contents were zero when the block came free. A line of it is looked at: the program will touch it anyway.
static void check_zero(const void *block) {
  const uint64_t *line = block;
  uint64_t any = line[0] | line[1] | line[2] | line[3] | line[4] | line[5] | line[6] | line[7];
  if (RTM_UNLIKELY(any)) message_misuse(block, "write after free", "the block was zero, and changed while it was free");
}

void *alloc_zeroed(size_t count, size_t size) {
  size_t bytes;
  if (RTM_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) return out_of_memory();
  if (secure_pad(bytes) > BLOCK_MAX) {
    bool zero;
    void *block = prepared_or_large(secure_pad(bytes), 1, &zero);
    if (SECURE_VARIANT && bytes <= MEDIUM_MAX) zero = false;
    if (block && !zero)
      memset(block, 0, bytes);
    else if (block)
      check_zero(block);
    return secure_dress(block, bytes);
  }
  void *block = alloc_fast(bytes);
  if (RTM_LIKELY(block != NULL)) memset(block, 0, bytes);
  return block;
}

// A class's size is a multiple of every power of two up to a granule that the rounded-up size is a multiple of (steps
// are powers of two), and pages begin at a granule: such blocks need nothing special.
void *alloc_aligned(size_t alignment, size_t size) {
  if (alignment <= BLOCK_ALIGNMENT) return alloc_fast(size);
  if (size > PTRDIFF_MAX) return out_of_memory();
  if (alignment <= GRANULE_SIZE && size <= BLOCK_MAX) {
    size_t padded = secure_pad(size);
    size_t rounded = bits_round_up(padded ? padded : 1, alignment);
    return secure_dress(alloc_plain(rounded), size);
  }
  bool zero;
  size_t padded = secure_pad(size ? size : 1);
  return secure_dress(prepared_or_large(padded, alignment < GRANULE_SIZE ? 1 : alignment, &zero), size);
}

// ---- free ----

RTM_COLD void free_outside(void *block) {
  if (!block) return;
  struct area *area = area_of(block);
  if (!area) message_misuse(block, "invalid free", foreign);
  area_free_remote(area, block);
}

void free_twice(void *block) { message_misuse(block, "double free", "it was the last block to be freed"); }

static RTM_COLD void free_special(void *block, struct span *span) {
  if (span_tag(span) != TAG_HUGE) message_misuse(block, "invalid free", not_allocated);
  if (rtm_options.count) stats_count_free(SPAN_HUGE, huge_size(span));
  huge_free(span, block);
}

// Where operations are counted or checked, or the heap has limits.
static RTM_NOINLINE void free_watched(struct heap *owner, void *block, struct span *span) {
  if (RTM_UNLIKELY(RTM_READ_RELAXED(owner->limited))) limits_give(&owner->limits, usable(span));
  if (owner != rtm_heap) {
    remote_free_unowned(owner, span, block);
    return;
  }
  if (DEBUG_VARIANT) check_operation(rtm_heap);
  if (rtm_options.count) {
    // The fast path, which would have seen it, is off.
    if (span_is_page(span) && span->free == block) free_twice(block);
    stats_count_free(span->kind, (size_t)span->length << GRANULE_SHIFT);
  }
  local_free(rtm_heap, span, block);
}

// Everything but a block of this thread's own page that has free blocks.
RTM_CODE_TOGETHER void free_slow(void *block, struct span *span, uintptr_t tag) {
  CHECK_SCOPE();
  struct heap *owner = (struct heap *)(tag & ~(uintptr_t)TAG_SLOW);
  if (owner == rtm_fast_heap) {
    if (span->kind == SPAN_MEDIUM)
      medium_free(owner, span, block);
    else
      page_free_full(owner, span, block);
    return;
  }
  if (RTM_UNLIKELY((uintptr_t)owner <= TAG_LAST_SPECIAL)) {
    free_special(block, span);
    return;
  }
  uint32_t state = RTM_READ_RELAXED(owner->state);
  if (RTM_LIKELY(state == HEAP_OWNED))
    remote_mark(span, block);
  else if (RTM_LIKELY(state == HEAP_STORES))
    store_mark(span, block);
  else if (RTM_LIKELY(state < HEAP_STORES))
    remote_free_unowned(owner, span, block);
  else
    free_watched(owner, block, span);
}

// ---- the rest ----

static struct span *span_or_abort(const void *block, const char *what) {
  size_t granule = window_granule(block);
  if (granule >= RTM_READ_RELAXED(rtm_window_granules)) message_misuse(block, what, foreign);
  struct span *span = span_of(granule);
  if (span_tag(span) == TAG_NONE) message_misuse(block, what, not_allocated);
  return span;
}

// What the program may use; aborts if no block starts there.
static size_t look_at(const void *block, struct span *span, const char *what) {
  if (SECURE_VARIANT) return secure_check(block, span, what);
  bool inside = span->kind == SPAN_MEDIUM || span->kind == SPAN_HUGE ? block != span->start : false;
  if (span_is_page(span)) {
    uint64_t offset = (uint64_t)((const char *)block - span->start), size = rtm_shape[span->kind].block_size;
    inside = (offset * span->reciprocal >> 32) * size != offset;
    // Its owner's alone to read.
    if (span_tag(span) == (uintptr_t)rtm_heap && block == span->free)
      message_misuse(block, what, "it was the last block to be freed");
  }
  if (RTM_UNLIKELY(inside)) message_misuse(block, what, "the pointer lies inside a block");
  return usable(span);
}

size_t alloc_block_size(const void *block) { return usable(span_of(window_granule(block))); }

size_t alloc_usable_size(const void *block) {
  if (!block) return 0;
  static const char what[] = "invalid usable size";
  bool outside = window_granule(block) >= RTM_READ_RELAXED(rtm_window_granules);
  struct area *area = outside ? area_of(block) : NULL;
  return RTM_UNLIKELY(area != NULL) ? area_usable_size(area, block) : look_at(block, span_or_abort(block, what), what);
}

// ---- what the program says of a block that it frees ----

// Which eight classes its class is one of: those to 128 bytes have the lowest number, each doubling the next.
static uint64_t eight_of(size_t size) { return bits_highest((size - 1) | 64); }

// In mode `pag` one store may serve eight classes, and where that has no block left, a page or a common store of its
// size.
static RTM_NOINLINE bool is_of_eight(const struct span *span, size_t size) {
  size_t most = usable(span);
  return mode_now() == MODE_PAG && most <= BLOCK_MAX && eight_of(size ? size : 1) == eight_of(most);
}

// A store may serve several classes. `size`: at most BLOCK_MAX.
static bool is_store_of(const struct span *store, size_t size) {
  return RTM_LIKELY(span_owner(store)->page[size_class(size)] == store) || is_of_eight(store, size);
}

// Whether a request of `size` bytes (padded, rounded) may have got this block.
static bool fits(const struct span *span, size_t size, bool resized) {
  size_t most = usable(span);
  if (size > most) return false;
  if (resized || span->kind == SPAN_HUGE) return resized || size > BLOCK_MAX;
  if (span->kind == SPAN_MEDIUM) return size > BLOCK_MAX || (SECURE_VARIANT && rtm_secure.features & SECURE_ALONE);
  if (span->kind == SPAN_STORE) return size > BLOCK_MAX ? most > BLOCK_MAX : is_store_of(span, size);
  return size <= BLOCK_MAX && (rtm_shape[size_class(size)].block_size == most || is_of_eight(span, size));
}

static RTM_COLD _Noreturn void wrong_size(const void *block) {
  message_misuse(block, "invalid free", "the block was not allocated with this size or alignment");
}

void free_check_size(void *block, struct span *span, size_t size, bool resized) {
  span_or_abort(block, "invalid free");
  if (SECURE_VARIANT && (rtm_secure.features & SECURE_CANARIES)) {
    if (secure_check(block, span, "invalid free") != size) wrong_size(block);
  } else if (!fits(span, secure_pad(size), resized)) {
    wrong_size(block);
  }
}

static RTM_NOINLINE void check_and_free(void *block, struct span *span, size_t size) {
  free_check_size(block, span, size, false);
  free_fast(block);
}

void free_of_other_size(void *block, size_t size) {
  check_and_free(block, span_of(window_granule(block)), size);
}

void free_of_large_size(void *block, size_t size) {
  struct span *span = span_of(window_granule(block));
  // What `fits` says of these, in 27 instructions less.
  bool medium = span->kind == SPAN_MEDIUM && size <= (size_t)span->length << GRANULE_SHIFT;
  bool stored = span->kind == SPAN_STORE && size <= span->store_size;
  if (!SECURE_VARIANT && RTM_LIKELY(medium | stored))
    free_fast(block);
  else
    check_and_free(block, span, size);
}

// Blocks with an alignment up to a granule lie in a class whose size is a multiple of it (alloc_aligned).
static void check_alignment(void *block, const struct span *span, size_t alignment) {
  if ((uintptr_t)block & (alignment - 1)) wrong_size(block);
  size_t least = alignment < GRANULE_SIZE ? alignment : GRANULE_SIZE;
  if (span_is_page(span) && rtm_shape[span->kind].block_size & (least - 1)) wrong_size(block);
}

void free_check_alignment(void *block, size_t alignment, size_t size) {
  if (window_granule(block) >= RTM_READ_RELAXED(rtm_window_granules)) return;  // NULL, or free_outside says what it is
  struct span *span = span_or_abort(block, "invalid free");
  check_alignment(block, span, alignment);
  if (size == SIZE_MAX) return;
  if (SECURE_VARIANT && (rtm_secure.features & SECURE_CANARIES)) {
    free_check_size(block, span, size, false);
  } else if (size <= BLOCK_MAX && alignment <= GRANULE_SIZE && alignment > BLOCK_ALIGNMENT) {
    size_t padded = secure_pad(size);
    if (!fits(span, bits_round_up(padded ? padded : 1, alignment), false)) wrong_size(block);
  } else if (secure_pad(size) > usable(span)) {
    wrong_size(block);
  }
}

// Of a heap that is recorded, or was prepared from what was recorded: both must decide alike, as the one counts what
// the other has. So another thread's block is always counted anew, as a block of the thread that asks. And a smaller
// size stays by eights of classes, as a store may serve all of one.
static bool stays_as_recorded(const struct span *span, const struct heap *owner, size_t padded) {
  const struct heap *heap = rtm_heap;
  size_t now = usable(span);
  if (now > BLOCK_MAX)
    return span->kind == SPAN_STORE && padded > BLOCK_MAX && padded <= BIN_SIZE_MAX && heap->stores &&
           heap->stores->large[bin_large(padded)] == span;
  return owner == heap && padded <= now && eight_of(padded) + 1 >= eight_of(now);
}

// In place, or moved without a copy; NULL: neither.
static void *resize_huge(struct span *span, size_t padded) {
  // The caller's store serves what is resized, so while a profile is recorded another thread's block is counted anew.
  if (rtm_heap->stores || (rtm_options.record[0] && RTM_READ_RELAXED(span->owner) != rtm_heap)) return NULL;
  CHECK_SCOPE();
  return padded > MEDIUM_MAX ? huge_resize(span, padded) : NULL;
}

// Whether a block of a page or a store does.
static bool stays(const struct span *span, size_t padded) {
  CHECK_SCOPE();
  const struct heap *owner = span_owner(span);
  if (owner->stores || owner->record || span->kind == SPAN_STORE) return stays_as_recorded(span, owner, padded);
  return padded <= usable(span) && padded >= usable(span) / 2;
}

// The block with another size, or a new one, as alloc_move. It is not huge; `size`: not 0, before padding.
static void *resize_block(void *block, struct span *span, size_t size, size_t had) {
  size_t padded = secure_pad(size);
  if (span->kind == SPAN_MEDIUM && padded > BLOCK_MAX && span_tag(span) == ((uintptr_t)rtm_heap | TAG_SLOW))
    return medium_resize(rtm_heap, span, size, had);
  return stays(span, padded) ? block : alloc_move(block, size, had);
}

static bool is_limited(const struct span *span) {
  const struct heap *owner = span->kind == SPAN_HUGE ? span->owner : span_owner(span);
  return RTM_READ_RELAXED(owner->limited);
}

// A block of an area, by whom else may hold it: only the area's user may do it in place (area_realloc).
static RTM_COLD void *again_outside(void *block, size_t size) {
  struct area *area = area_of(block);
  if (!area) message_misuse(block, "invalid realloc", foreign);
  size_t had = area_usable_size(area, block);
  if (size <= had && size >= had / 2) return block;
  void *again = alloc_fast(size);
  if (!again) return size <= had ? block : NULL;
  memcpy(again, block, size < had ? size : had);
  area_free_remote(area, block);
  return again;
}

void *alloc_move(void *block, size_t size, size_t had) {
  void *again = alloc_fast(size);
  if (RTM_UNLIKELY(!again)) return size <= had ? block : NULL;
  memcpy(again, block, size < had ? size : had);
  free_fast(block);
  return again;
}

// Where operations are counted or checked, or in the secure variant; or the block has a limit: then it grows by a new
// block, which counts. (A huge block's end is counted where it goes: huge_resize.)
static RTM_NOINLINE void *again_watched(void *block, struct span *span, size_t size, size_t had) {
  unsigned kind = span->kind;
  size_t whole = usable(span), padded = secure_pad(size);
  bool limited = is_limited(span);
  void *again;
  if (kind == SPAN_HUGE) {
    again = resize_huge(span, padded);
    if (!again) return alloc_move(block, size, had);
  } else {
    again = limited && padded > whole ? alloc_move(block, size, had) : resize_block(block, span, size, had);
    if (again != block) return again;  // a new block, which was counted by itself; or none
  }
  if (limited && kind == SPAN_MEDIUM) limits_give(&rtm_heap->limits, whole - usable(span));
  // The old canary is not for the program.
  if (SECURE_VARIANT && size > had) memset((char *)again + had, 0, (size < whole ? size : whole) - had);
  if (RTM_UNLIKELY(rtm_options.count)) stats_count_free(kind, whole);
  return counted(secure_dress(again, size), size);
}

void *alloc_again(void *block, size_t size) {
  if (!block) return alloc_fast(size);
  if (!size) {
    free_fast(block);
    return NULL;
  }
  if (size > PTRDIFF_MAX) return out_of_memory();
  if (RTM_UNLIKELY(window_granule(block) >= RTM_READ_RELAXED(rtm_window_granules))) return again_outside(block, size);
  struct span *span = span_or_abort(block, "invalid realloc");
  size_t had = look_at(block, span, "invalid realloc");
  if (SECURE_VARIANT || DEBUG_VARIANT || RTM_UNLIKELY(rtm_options.count) || RTM_UNLIKELY(is_limited(span)))
    return again_watched(block, span, size, had);
  if (span->kind != SPAN_HUGE) return resize_block(block, span, size, had);
  void *again = resize_huge(span, size);
  return again ? again : alloc_move(block, size, had);
}

void alloc_trim(void) {
  struct heap *own = rtm_heap;
  if (own != &rtm_no_heap) heap_trim(own);
  for (struct heap *heap = heap_first(); heap; heap = heap->next) {
    if (!heap_claim(heap)) continue;
    heap_trim(heap);
    heap_unclaim(heap);
  }
  if (own != &rtm_no_heap) arena_trim();
}

// ---- include/rtmalloc.h ----

int rtm_version(void) { return 100 * (100 * RTM_VERSION_MAJOR + RTM_VERSION_MINOR) + RTM_VERSION_PATCH; }
void *rtm_malloc(size_t size) { return alloc_fast(size); }
void *rtm_calloc(size_t count, size_t size) { return alloc_zeroed(count, size); }
void *rtm_realloc(void *block, size_t size) { return alloc_again(block, size); }
void rtm_free(void *block) { free_fast(block); }
size_t rtm_usable_size(const void *block) { return alloc_usable_size(block); }
void rtm_trim(void) { alloc_trim(); }

// A prepared heap has what its profile did not cover in a general one.
static void collect(struct heap *heap) {
  if (heap->stores) {
    if (heap->stores->extent_max) extent_collect(heap);
    heap = heap->stores->general;
  }
  if (heap && heap != &rtm_no_heap) heap_collect(heap);
}

void rtm_collect(bool force) {
  hooks_heartbeat(force);
  if (force)
    alloc_trim();
  else
    collect(rtm_heap);
}

void *rtm_reallocarray(void *block, size_t count, size_t size) {
  size_t bytes;
  return __builtin_mul_overflow(count, size, &bytes) ? out_of_memory() : alloc_again(block, bytes);
}

static RTM_COLD void *bad_alignment(void) {
  errno = EINVAL;
  return NULL;
}

void *rtm_aligned_alloc(size_t alignment, size_t size) {
  return bits_is_power_of_two(alignment) ? alloc_aligned(alignment, size) : bad_alignment();
}
