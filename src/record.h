// Recording: the peaks of each heap, for a profile. Layer: above profile, span. Called by page, medium, huge, heap and
// mode. Off, it costs a load and a branch where a page or a large block comes or goes; the fast paths know nothing of
// it.
#ifndef RTM_RECORD_H
#define RTM_RECORD_H

#include "bin.h"
#include "heap.h"
#include "profile.h"

// What a heap counts. Its thread writes, but for `large` and `doubling`, as other threads free huge blocks.
struct record {
  struct record *next;           // all of them
  struct heap *heap;             // whose it is
  struct profile_record peaks;   // with the thread's name; of pages' blocks only what was sampled
  uint32_t blocks[CLASSES + 1];  // in pages of the class, fresh ones included
  uint32_t pages[PROFILE_PAGE_KINDS];
  uint32_t span_granules, page_granules;         // in medium blocks, in pages
  uint32_t early_blocks, early_granules;         // of span_granules: of blocks that are gone (record_large_early)
  _Atomic uint32_t large[BINS_LARGE];            // blocks
  _Atomic uint32_t doubling[PROFILE_DOUBLINGS];  // blocks of each doubling of the size
};

// Recording is on (RTMALLOC_RECORD): a heap that is made gets a record. NULL: out of memory.
struct record *record_new(struct heap *heap);
// The address that stands for a routine of this module's name and offset in all heaps: the module may be opened twice,
// or again elsewhere.
uintptr_t record_routine(uintptr_t routine);
// A page comes (before it is current) or goes; a medium or huge block of `bytes` does.
void record_page(struct record *record, const struct span *page);
void record_page_gone(struct record *record, const struct span *page);
// The page, which was its class's current one until now, will go.
void record_idle(struct record *record, const struct span *page);
void record_large(struct record *record, size_t bytes);
// The block is aligned to more than a granule; `bytes` is a multiple of that, and has a bin.
void record_aligned(struct record *record, size_t bytes, size_t alignment);
void record_large_gone(struct record *record, size_t bytes);
// A medium block that another thread has freed goes, earlier than it would in an extent, where one comes back for each
// medium block that is asked for (extent_large): its span counts until then. record_in_time: one was asked for.
void record_large_early(struct record *record, size_t bytes);
void record_in_time(struct record *record);
// All that others have freed comes back, as in an extent.
void record_collected(struct record *record);
// The thread leaves the heap, whose pages are still current.
void record_leave(struct record *record);
// A thread starts or ends to use a heap.
void record_thread(bool starts);
// Writes what all heaps have recorded, merged by maximum with what is in the file. NULL, or why not; a file that is
// there is kept as it is then. Threads and processes wait for each other. Async-signal-safe.
const char *record_save(const char *path);
// In the child of a fork: it is no run of its own.
void record_after_fork(void);

#endif
