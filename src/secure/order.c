// Which of a page's free blocks is handed out next. See secure.h.
#include "../heap.h"
#include "secure.h"

RTM_INLINE void *choose(struct span *page, uint32_t word, bool ahead) {
  page->hand = word * sizeof *page->private;
  secure_choose(page, &rtm_heap->order);
  void *block = page->free;
  page->used++;
  if (ahead)
    secure_choose(page, &rtm_heap->order);
  else
    RTM_WRITE_RELAXED(page->free, NULL);
  return block;
}

void *secure_refill(struct span *page, bool ahead) {
  _Static_assert(REMOTE_WORDS == 4, "four words: the first from a random one on");
  uint32_t w = (uint32_t)(rtm_heap->order >> 62);
  if (!page->private[w]) w ^= page->private[w ^ 1] ? 1 : page->private[w ^ 2] ? 2 : 3;
  return choose(page, w, ahead);
}

void *secure_extend(struct span *page, bool ahead) {
  uint32_t blocks = page_blocks(page), from = page->fresh, end = from + 64;
  if (end >= blocks) {
    end = blocks;
    page->flags &= (uint8_t)~PAGE_FRESH;
  }
  RTM_WRITE_RELAXED(page->fresh, (uint16_t)end);
  __atomic_store_n(&page->private[from / 64], ~UINT64_C(0) >> (64 - (end - from)), __ATOMIC_RELAXED);
  return choose(page, from / 64, ahead);
}
