// See huge.h.
#include "huge.h"
#include "os/purge.h"

#include "message.h"
#include "record.h"
#include "secure/secure.h"

static bool too_large(size_t size) { return size > (size_t)rtm_arena.segments_most << SEGMENT_SHIFT; }
static uint32_t granules_for(size_t size) { return (uint32_t)((size + GRANULE_SIZE - 1) >> GRANULE_SHIFT); }

static void *start(struct span *run, uint32_t granules) {
  run->reciprocal = granules;
  span_set_tag(run, TAG_HUGE);
  rtm_window_table[span_granule(run)] = span_index(run);
  RTM_WRITE_RELAXED(run->owner, rtm_heap);
  run->record = rtm_heap->record;
  if (RTM_UNLIKELY(run->record != NULL)) record_large(run->record, huge_size(run));
  return run->start;
}

// Before the run is given back: a descriptor that has an owner is that of a live block.
static struct heap *disown(struct span *run) {
  struct heap *owner = run->owner;
  if (RTM_UNLIKELY(RTM_READ_RELAXED(owner->limited))) limits_give(&owner->limits, huge_size(run));
  RTM_WRITE_RELAXED(run->owner, NULL);
  return owner;
}

void *huge_malloc(size_t size, size_t alignment, bool *zero) {
  if (too_large(size) || too_large(alignment)) return NULL;
  uint32_t unit = alignment > SEGMENT_SIZE ? (uint32_t)(alignment >> SEGMENT_SHIFT) : 1;
  uint32_t granules = granules_for(size ? size : 1);
  struct span *run = arena_take_run(granules, unit, zero);
  return run ? start(run, granules) : NULL;
}

void huge_free(struct span *span, void *block) {
  if (RTM_UNLIKELY(block != span->start)) message_misuse(block, "invalid free", "the pointer lies inside a block");
  if (RTM_UNLIKELY(__atomic_exchange_n(&span->tag, TAG_NONE, __ATOMIC_RELAXED) != TAG_HUGE))
    message_misuse(block, "double free", "another thread freed the block at the same time");
  rtm_window_table[span_granule(span)] = 0;
  disown(span);
  if (RTM_UNLIKELY(span->record != NULL)) record_large_gone(span->record, huge_size(span));
  if (SECURE_VARIANT)
    secure_give_run(span);
  else
    arena_give_run(span);
}

void *huge_resize(struct span *span, size_t size) {
  if (too_large(size)) return NULL;
  uint32_t granules = granules_for(size), had = span->reciprocal;
  struct record *record = span->record;
  // What has a limit grows by a new block, which counts.
  if (RTM_UNLIKELY(span->owner->limited) && granules > had) return NULL;
  if (arena_resize_run(span, granules)) {
    if (RTM_UNLIKELY(span->owner->limited))
      limits_give(&span->owner->limits, (size_t)(had - granules) << GRANULE_SHIFT);
    span->reciprocal = granules;
    if (RTM_UNLIKELY(record != NULL)) {
      record_large(record, huge_size(span));
      record_large_gone(record, (size_t)had << GRANULE_SHIFT);
    }
    if (granules < had && rtm_arena.purge != PURGE_NEVER) {
      // What is left of the last segment goes back too.
      uint32_t end = span->length * SEGMENT_GRANULES;
      if (end > had) end = had;
      if (end > granules)
        os_purge((uintptr_t)granule_address(span_granule(span) + granules), (size_t)(end - granules) << GRANULE_SHIFT);
    }
    return span->start;
  }
  if (granules <= had) return NULL;
  struct heap *owner = disown(span);
  struct span *moved = arena_move_run(span, granules);
  if (!moved) {
    RTM_WRITE_RELAXED(span->owner, owner);
    return NULL;
  }
  void *block = start(moved, granules);
  RTM_WRITE_RELAXED(moved->owner, owner);
  if (RTM_UNLIKELY(record != NULL)) record_large_gone(record, (size_t)had << GRANULE_SHIFT);
  return block;
}
