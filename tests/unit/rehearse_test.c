// A rehearsal leaves the heap as it was: at the start, and in the middle of a run. With a profile, in both modes
// (CMakeLists.txt); without one there is nothing to rehearse.
#include "rehearse.h"

#include <string.h>

#include "mode.h"
#include "options.h"
#include "rtmalloc.h"
#include "shadow.h"
#include "store.h"

enum { STORES = CLASSES + BINS_LARGE };

// What a heap would hand out next, and what it counts.
static struct seen {
  struct span *page[CLASSES + 1];
  struct page_queue queue[CLASSES + 1];
  uint32_t pages[CLASSES + 1];
  uint64_t lists;
  struct span *first[EXTENT_LISTS];
  uint32_t length[EXTENT_LISTS];
  void *free[STORES];
  uint32_t used[STORES];
  uint64_t misses;
} before, after;

static const struct span *store_at(const struct heap *heap, unsigned i) {
  return i < CLASSES ? heap->page[i + 1] : heap->stores->large[i - CLASSES];
}

static void look_at(struct seen *seen, const struct heap *heap) {
  memset(seen, 0, sizeof *seen);
  memcpy(seen->page, heap->page, sizeof seen->page);
  memcpy(seen->queue, heap->queue, sizeof seen->queue);
  memcpy(seen->pages, heap->pages, sizeof seen->pages);
  seen->lists = heap->extent.lists;
  for (unsigned i = 0; i < EXTENT_LISTS; i++) {
    seen->first[i] = heap->extent.list[i].first;
    seen->length[i] = seen->first[i] ? seen->first[i]->length : 0;
  }
  for (unsigned i = 0; i < STORES; i++) {
    seen->free[i] = store_at(heap, i)->free;
    seen->used[i] = store_at(heap, i)->used;
  }
  seen->misses = rtm_misses();
}

static struct heap *prepared(void) {
  rtm_free(rtm_malloc(1));
  if (rtm_options.profile[0]) CHECK(rtm_heap->stores);
  return rtm_heap->stores ? rtm_heap : NULL;
}

TEST(nothing_is_left_of_a_rehearsal) {
  const struct heap *heap = prepared();
  for (unsigned turn = 0; heap && turn < 3; turn++) {
    look_at(&before, heap);
    rehearse();
    look_at(&after, heap);
    CHECK(memcmp(&before, &after, sizeof before) == 0);
    CHECK_SOUND(rtm_check());
  }
  if (!heap) rehearse();
}

TEST(a_rehearsal_in_the_middle_of_a_run) {
  static struct shadow shadow = {.bytes_most = (size_t)16 << 20};
  struct random random = test_random(0);
  prepared();
  for (uint64_t i = test_operations(20000); i > 0; i--) {
    shadow_apply(&shadow, shadow_random_operation(&random, (size_t)1 << 20));
    if (i % 16) continue;
    uint64_t misses = rtm_misses();
    rehearse();
    CHECK_EQUAL(rtm_misses(), misses);
    if (i % 256 == 0) CHECK_SOUND(rtm_check());
  }
  shadow_free_all(&shadow);
}
