// See record.h.
#include "record.h"

#include <string.h>

#include "extent.h"
#include "os/file.h"
#include "os/module.h"

static struct record *_Atomic records;
static _Atomic uint32_t threads, threads_peak;

static void most(uint32_t *peak, uint32_t now) {
  if (now > *peak) *peak = now;
}

static void most_granules(struct record *record) {
  most(&record->peaks.granules, record->page_granules + record->span_granules);
  // A recorded heap gives nothing back while its thread lives, so this is all that it has needed at one time.
  most(&record->peaks.footprint, record->heap->live + record->heap->dirty);
}

static struct record *first(void) { return atomic_load_explicit(&records, memory_order_acquire); }

static void name_routine(struct profile_record *thread, uintptr_t routine) {
  if (!routine) return;
  uint64_t offset = routine;  // of what is in no module
  os_module_of(routine, thread->module, PROFILE_MODULE, &offset);
  thread->offset = offset;
}

uintptr_t record_routine(uintptr_t routine) {
  struct profile_record named = {0};
  name_routine(&named, routine);
  for (const struct record *record = first(); record; record = record->next)
    if (profile_same_routine(&record->peaks, &named)) return record->heap->routine;
  return routine;
}

static void name_thread(struct profile_record *thread, const struct heap *heap) {
  thread->index = heap->index;
  for (const struct record *record = first(); record; record = record->next)
    if (record->heap->routine == heap->routine) {  // whose module may have been closed by now
      memcpy(thread->module, record->peaks.module, PROFILE_MODULE);
      thread->offset = record->peaks.offset;
      return;
    }
  name_routine(thread, heap->routine);
}

struct record *record_new(struct heap *heap) {
  struct record *record = arena_metadata(sizeof *record);
  if (!record) return NULL;
  record->heap = heap;
  name_thread(&record->peaks, heap);
  record->next = atomic_load_explicit(&records, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&records, &record->next, record, memory_order_release,
                                                memory_order_relaxed)) {
  }
  return record;
}

// How many of the class's blocks have been in use at one time, so far. Only its newest page has fresh blocks, and it is
// the current one; all others have been in use, as a page comes only when the others have nothing left.
// (A heap whose thread has left has no current page: it was sampled then.)
static uint32_t used_of(const struct record *record, unsigned class, const struct span *current) {
  uint32_t blocks = record->blocks[class], fresh = page_blocks(current) - current->fresh;
  return current->kind == class && fresh <= blocks ? blocks - fresh : blocks;
}

static const struct span *current_of(const struct record *record, unsigned class) {
  return RTM_READ_RELAXED(record->heap->page[class]);
}

// Before the class's pages change: its blocks, and those of the eight classes that it is one of.
static void sample(struct record *record, unsigned class, const struct span *current) {
  if (current->kind == class) most(&record->peaks.blocks[class], used_of(record, class, current));
  unsigned eight = (class - 1) / CLASSES_PER_DOUBLING, first = eight * CLASSES_PER_DOUBLING + 1;
  uint32_t sum = 0;
  for (unsigned one = first; one < first + CLASSES_PER_DOUBLING; one++)
    sum += used_of(record, one, one == class ? current : current_of(record, one));
  most(&record->peaks.small_at_once[eight], sum);
}

void record_idle(struct record *record, const struct span *page) { sample(record, page->kind, page); }

void record_leave(struct record *record) {
  for (unsigned class = 1; class <= CLASSES; class ++) sample(record, class, current_of(record, class));
}

static unsigned kind_of(const struct span *page) { return page->length <= 1 ? 0 : page->length <= 8 ? 1 : 2; }

void record_page(struct record *record, const struct span *page) {
  sample(record, page->kind, current_of(record, page->kind));
  record->blocks[page->kind] += page_blocks(page);
  unsigned kind = kind_of(page);
  most(&record->peaks.pages[kind], ++record->pages[kind]);
  record->page_granules += page->length;
  most(&record->peaks.page_granules, record->page_granules);
  most_granules(record);
}

void record_page_gone(struct record *record, const struct span *page) {
  sample(record, page->kind, current_of(record, page->kind));
  record->blocks[page->kind] -= page_blocks(page);
  record->pages[kind_of(page)]--;
  record->page_granules -= page->length;
}

// A block that is short but has an alignment above a granule counts as the shortest large one.
static unsigned bin_of(size_t bytes) { return bin_large(bytes > BLOCK_MAX ? bytes : BLOCK_MAX + 1); }

// A block of this doubling comes: how many are there that are at least as large as each smaller one's?
static void count_doublings(struct record *record, unsigned doubling) {
  atomic_fetch_add_explicit(&record->doubling[doubling], 1, memory_order_relaxed);
  uint32_t from = 0;
  for (unsigned i = PROFILE_DOUBLINGS; i-- > 0;) {
    from += atomic_load_explicit(&record->doubling[i], memory_order_relaxed);
    most(&record->peaks.large_from[i], from);
  }
}

void record_large(struct record *record, size_t bytes) {
  if (bytes > BIN_SIZE_MAX) return;  // has no bin
  unsigned bin = bin_of(bytes);
  uint32_t now = atomic_fetch_add_explicit(&record->large[bin], 1, memory_order_relaxed) + 1;
  most(&record->peaks.blocks[CLASSES + 1 + bin], now);
  count_doublings(record, bin / CLASSES_PER_DOUBLING);
  uint32_t granules = (uint32_t)(bytes >> GRANULE_SHIFT);
  if (granules > EXTENT_SPAN_MAX) return;
  record->span_granules += granules;
  most(&record->peaks.span_granules, record->span_granules);
  most_granules(record);
  most(&record->peaks.span_largest, granules);
}

void record_aligned(struct record *record, size_t bytes, size_t alignment) {
  most(&record->peaks.alignment[bin_of(bytes) / CLASSES_PER_DOUBLING], (uint32_t)alignment);
  // An extent looks for a span that has room for what is before the block.
  size_t granules = (bytes + alignment - GRANULE_SIZE) >> GRANULE_SHIFT;
  if (granules <= EXTENT_SPAN_MAX) most(&record->peaks.span_largest, (uint32_t)granules);
}

// Returns its granules if it could be in an extent, else 0.
static uint32_t block_gone(struct record *record, size_t bytes) {
  if (bytes > BIN_SIZE_MAX) return 0;
  unsigned bin = bin_of(bytes);
  atomic_fetch_sub_explicit(&record->large[bin], 1, memory_order_relaxed);
  atomic_fetch_sub_explicit(&record->doubling[bin / CLASSES_PER_DOUBLING], 1, memory_order_relaxed);
  uint32_t granules = (uint32_t)(bytes >> GRANULE_SHIFT);
  return granules <= EXTENT_SPAN_MAX ? granules : 0;
}

void record_large_gone(struct record *record, size_t bytes) { record->span_granules -= block_gone(record, bytes); }

void record_large_early(struct record *record, size_t bytes) {
  uint32_t granules = block_gone(record, bytes);
  record->early_blocks += granules > 0;
  record->early_granules += granules;
}

// Of the mean length, as any of them may be the one.
void record_in_time(struct record *record) {
  if (!record->early_blocks) return;
  uint32_t granules = record->early_granules / record->early_blocks--;
  record->early_granules -= granules;
  record->span_granules -= granules;
}

void record_collected(struct record *record) {
  record->span_granules -= record->early_granules;
  record->early_granules = record->early_blocks = 0;
}

void record_thread(bool starts) {
  if (!starts) {
    atomic_fetch_sub_explicit(&threads, 1, memory_order_relaxed);
    return;
  }
  uint32_t now = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
  uint32_t peak = atomic_load_explicit(&threads_peak, memory_order_relaxed);
  while (now > peak && !atomic_compare_exchange_weak_explicit(&threads_peak, &peak, now, memory_order_relaxed,
                                                              memory_order_relaxed)) {
  }
}

// ---- saving ----

static void add_peaks(struct profile_record *whole, const struct profile_record *thread) {
  for (unsigned bin = 0; bin < BINS; bin++) whole->blocks[bin] += thread->blocks[bin];
  for (unsigned kind = 0; kind < PROFILE_PAGE_KINDS; kind++) whole->pages[kind] += thread->pages[kind];
  whole->granules += thread->granules;
  whole->span_granules += thread->span_granules;
  most(&whole->span_largest, thread->span_largest);
  whole->page_granules += thread->page_granules;
  for (unsigned i = 0; i < PROFILE_DOUBLINGS; i++) whole->large_from[i] += thread->large_from[i];
  for (unsigned i = 0; i < PROFILE_EIGHTS; i++) whole->small_at_once[i] += thread->small_at_once[i];
  profile_most_aligned(whole, thread);
}

// Of the threads, without the whole process.
static void count_together(struct profile_record *thread, const struct profile_record *end) {
  for (struct profile_record *one = thread; one < end; one++) {
    if (one->together) continue;  // counted with another
    uint32_t together = 0;
    for (const struct profile_record *other = one; other < end; other++)
      if (profile_same_routine(one, other)) together += other->granules;
    for (struct profile_record *other = one; other < end; other++)
      if (profile_same_routine(one, other)) other->together = together;
  }
}

// `newest`: those of the threads that start meanwhile come before it.
static void collect(struct profile *profile, struct record *newest) {
  struct profile_record *whole = &profile->record[0], *thread = whole + 1;
  whole->module[0] = '*';
  whole->flags = PROFILE_PROCESS;
  whole->threads_peak = atomic_load_explicit(&threads_peak, memory_order_relaxed);
  for (struct record *record = newest; record; record = record->next, thread++) {
    record_leave(record);
    *thread = record->peaks;
    thread->threads_peak = 1;
    thread->least = profile_weight(thread);
    thread->granules_least = thread->granules;
    add_peaks(whole, thread);
  }
  count_together(whole + 1, thread);
  whole->least = profile_weight(whole);
  whole->granules_least = whole->granules;
}

// A process is one run, however often it saves, and a forked child is a part of its parent's. So the file as it was
// before this process wrote to it is kept: as long as it is the last one that did, the next save replaces its own.
static struct saved_run {
  bool saved, forked;
  uint64_t checksum;      // of the file that this process has written last
  struct profile before;  // what was there; without a header: nothing
} mine;

// One thread at a time saves; a signal that comes to it meanwhile finds that it does.
static struct os_lock save_lock;
static _Thread_local bool saves __attribute__((tls_model("initial-exec")));

void record_after_fork(void) {
  // Another thread may have been in the middle of it.
  mine = (struct saved_run){.forked = true};
  save_lock = (struct os_lock){0};
  saves = false;
}

// With what was in the file. `counted`: this run is in it already; without a run, only this one's children wrote it.
static bool merge(struct profile *profile, const struct profile *before, bool counted) {
  if (!before->header->runs) return profile_join(profile, before);
  if (!profile_merge(profile, before)) return false;
  if (counted) profile_same_runs(profile, before);
  return true;
}

// `old`: what is in the file; taken over.
static bool merge_with(struct profile *profile, struct profile *old) {
  if (mine.saved && old->header->checksum == mine.checksum) {
    profile_drop(old);
    return !mine.before.header || merge(profile, &mine.before, mine.forked);
  }
  bool merged = merge(profile, old, mine.saved || mine.forked);
  profile_drop(&mine.before);
  mine.before = *old;
  return merged;
}

static const char *save(const char *path) {
  struct record *newest = first();
  uint32_t count = 1;
  struct profile profile = {0}, old;
  for (struct record *record = newest; record; record = record->next) count++;
  if (!profile_make(&profile, count)) return "there is no memory for it";
  collect(&profile, newest);
  if (mine.forked) profile.header->runs = 0;  // its parent counts
  size_t size;
  const char *wrong = NULL;
  if (os_file_size(path, &size) == NULL) {
    wrong = profile_read(path, &old);
    if (!wrong && !merge_with(&profile, &old)) wrong = "there is no memory to merge it with what is there";
  } else {
    profile_drop(&mine.before);
  }
  if (!wrong) wrong = profile_write(path, &profile);
  if (!wrong) {
    mine.saved = true;
    mine.checksum = profile.header->checksum;
  }
  profile_drop(&profile);
  return wrong;
}

const char *record_save(const char *path) {
  if (saves) return NULL;  // what the signal asks for is being done
  saves = true;
  os_lock_acquire(&save_lock);
  int folder = os_lock_folder(path);
  const char *wrong = save(path);
  os_unlock_folder(folder);
  os_lock_release(&save_lock);
  saves = false;
  return wrong;
}
