// See stats.h. Peaks over all threads are exact: each class has one counter for the process, as only counting runs pay.
#include "stats.h"

#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "message.h"
#include "mode.h"
#include "options.h"
#include "os/file.h"
#include "rtmalloc.h"

struct class_counts {
  _Atomic uint64_t allocated, freed, peak;  // blocks
  _Atomic uint64_t requested;               // bytes
};
static struct class_counts counts[SPAN_HUGE + 1];
static _Atomic uint64_t large_bytes[SPAN_HUGE + 1];  // medium and huge: bytes in use, peak below
static _Atomic uint64_t large_peak[SPAN_HUGE + 1];
static uint64_t started_us;
static long owner_pid;

static void raise(_Atomic uint64_t *peak, uint64_t value) {
  uint64_t seen = atomic_load_explicit(peak, memory_order_relaxed);
  while (value > seen &&
         !atomic_compare_exchange_weak_explicit(peak, &seen, value, memory_order_relaxed, memory_order_relaxed)) {
  }
}

static uint64_t get(_Atomic uint64_t *value) { return atomic_load_explicit(value, memory_order_relaxed); }

void stats_start(void) {
  started_us = os_clock_us();
  owner_pid = getpid();
}

void stats_count_malloc(const void *block, size_t size) {
  unsigned kind = span_of(window_granule(block))->kind;
  struct class_counts *c = &counts[kind];
  atomic_fetch_add_explicit(&c->requested, size, memory_order_relaxed);
  uint64_t now = atomic_fetch_add_explicit(&c->allocated, 1, memory_order_relaxed) + 1 - get(&c->freed);
  if (now <= INT64_MAX) raise(&c->peak, now);
  if (kind >= SPAN_MEDIUM) {
    size_t bytes = alloc_block_size(block);
    raise(&large_peak[kind], atomic_fetch_add_explicit(&large_bytes[kind], bytes, memory_order_relaxed) + bytes);
  }
}

void stats_count_free(unsigned kind, size_t usable) {
  atomic_fetch_add_explicit(&counts[kind].freed, 1, memory_order_relaxed);
  if (kind >= SPAN_MEDIUM) atomic_fetch_sub_explicit(&large_bytes[kind], usable, memory_order_relaxed);
}

void stats_after_fork(void) {
  if (!strstr(rtm_options.report, "%p")) rtm_options.report[0] = 0;
  owner_pid = getpid();
}

void rtm_stats(struct rtm_stats *stats) {
  struct arena *a = &rtm_arena;
  memset(stats, 0, sizeof *stats);
  uint64_t live = 0, dirty = 0;
  for (struct heap *heap = heap_first(); heap; heap = heap->next) {
    live += __atomic_load_n(&heap->live, __ATOMIC_RELAXED);
    dirty += __atomic_load_n(&heap->dirty, __ATOMIC_RELAXED);
    stats->heaps++;
  }
  uint64_t huge = atomic_load_explicit(&a->segments_huge, memory_order_relaxed);
  stats->mapped = atomic_load_explicit(&a->bytes_mapped, memory_order_relaxed);
  stats->mapped_peak = atomic_load_explicit(&a->bytes_mapped_peak, memory_order_relaxed);
  stats->in_use = (live << GRANULE_SHIFT) + huge * SEGMENT_SIZE;
  stats->free_held = (dirty + atomic_load_explicit(&a->granules_retained, memory_order_relaxed)) << GRANULE_SHIFT;
  stats->purged = atomic_load_explicit(&a->bytes_purged, memory_order_relaxed);
  stats->segments = atomic_load_explicit(&a->segments_in_use, memory_order_relaxed);
  struct os_counts *os = &rtm_os_counts;
  stats->system_calls =
      get(&os->map) + get(&os->unmap) + get(&os->purge) + get(&os->remap) + get(&os->resident) + get(&os->wait);
}

// ---- the table of RTMALLOC_VERBOSE ----

// As JSON, with the largest numbers: 150 characters of names and six numbers of up to 20 digits for each class, medium
// and huge blocks; and 40 lines of at most 50.
enum { CLASS_TEXT = 150 + 6 * 20, REST_TEXT = 40 * 50 };
static char buffer[(CLASSES + 2) * CLASS_TEXT + REST_TEXT];

static void cell(struct text *text, size_t start, size_t column, uint64_t number) {
  text_pad(text, start, column);
  text_add_number(text, number);
}

static void class_line(struct text *text, const char *name, uint64_t unit, struct class_counts *c) {
  size_t start = text->length;
  uint64_t allocated = get(&c->allocated), freed = get(&c->freed);
  text_add(text, name);
  if (unit) text_add_number(text, unit);
  cell(text, start, 16, get(&c->peak));
  cell(text, start, 30, allocated);
  cell(text, start, 44, freed);
  cell(text, start, 58, allocated - freed);
  cell(text, start, 72, get(&c->requested));
  text_add(text, "\n");
}

static void value_line(struct text *text, const char *name, uint64_t value, const char *unit) {
  size_t start = text->length;
  text_add(text, name);
  cell(text, start, 16, value);
  text_add(text, " ");
  text_add(text, unit);
  text_add(text, "\n");
}

static void verbose(void) {
  struct text text = {buffer, sizeof buffer, 0};
  struct rtm_stats stats;
  struct os_usage usage;
  rtm_stats(&stats);
  os_usage(&usage);
  text_add(&text, "rtmalloc: blocks by size class (unit: bytes of a block; peak, total, freed, current: blocks)\n");
  text_add(&text, "unit            peak          total         freed         current       requested bytes\n");
  for (unsigned class = 1; class <= CLASSES; class ++)
    if (get(&counts[class].allocated)) class_line(&text, "", rtm_shape[class].block_size, &counts[class]);
  class_line(&text, "medium", 0, &counts[SPAN_MEDIUM]);
  class_line(&text, "huge", 0, &counts[SPAN_HUGE]);
  value_line(&text, "medium peak", get(&large_peak[SPAN_MEDIUM]), "bytes");
  value_line(&text, "huge peak", get(&large_peak[SPAN_HUGE]), "bytes");
  value_line(&text, "reserved", (uint64_t)rtm_arena.segments_known * SEGMENT_SIZE, "bytes of addresses");
  value_line(&text, "committed", stats.mapped, "bytes mapped");
  value_line(&text, "committed peak", stats.mapped_peak, "bytes mapped");
  value_line(&text, "purged", stats.purged, "bytes");
  value_line(&text, "segments", stats.segments, "in use");
  value_line(&text, "heaps", stats.heaps, "");
  value_line(&text, "system calls", stats.system_calls, "by the allocator");
  value_line(&text, "faults", usage.faults_minor + usage.faults_major, "of the process");
  value_line(&text, "resident peak", usage.resident_peak, "bytes");
  value_line(&text, "elapsed", os_clock_us() - started_us, "us");
  value_line(&text, "user", usage.user_us, "us");
  value_line(&text, "system", usage.system_us, "us");
  os_write(2, text.buffer, text.length);
}

// ---- RTMALLOC_REPORT: JSON ----

static void json_number(struct text *text, const char *name, uint64_t value, const char *end) {
  text_add(text, "\"");
  text_add(text, name);
  text_add(text, "\": ");
  text_add_number(text, value);
  text_add(text, end);
}

static void json_class(struct text *text, const char *name, uint64_t unit, struct class_counts *c) {
  uint64_t allocated = get(&c->allocated), freed = get(&c->freed);
  text_add(text, "    {\"class\": \"");
  text_add(text, name);
  text_add(text, "\", ");
  json_number(text, "unit_bytes", unit, ", ");
  json_number(text, "peak_blocks", get(&c->peak), ", ");
  json_number(text, "total_blocks", allocated, ", ");
  json_number(text, "freed_blocks", freed, ", ");
  json_number(text, "current_blocks", allocated - freed, ", ");
  json_number(text, "requested_bytes", get(&c->requested), "}");
}

static void json(struct text *text) {
  struct rtm_stats stats;
  struct os_usage usage;
  rtm_stats(&stats);
  os_usage(&usage);
  text_add(text, "{\n  \"allocator\": \"rtmalloc\",\n  ");
  json_number(text, "version", (uint64_t)rtm_version(), ",\n  ");
  text_add(text, "\"mode\": \"");
  text_add(text, mode_name());
  text_add(text, "\",\n  ");
  json_number(text, "sealed", mode_is_sealed(), ",\n  ");
  json_number(text, "misses", rtm_misses(), ",\n  ");
  json_number(text, "misses_page", rtm_misses_of(RTM_MISS_PAGE), ",\n  ");
  json_number(text, "misses_span", rtm_misses_of(RTM_MISS_SPAN), ",\n  ");
  json_number(text, "misses_huge", rtm_misses_of(RTM_MISS_HUGE), ",\n  ");
  json_number(text, "misses_thread", rtm_misses_of(RTM_MISS_THREAD), ",\n  ");
  json_number(text, "system_calls_since_seal", mode_calls_since_seal(), ",\n  ");
  json_number(text, "prepared_bytes", mode_prepared_bytes(), ",\n  ");
  json_number(text, "reserve_bytes", mode_reserve_bytes(), ",\n  ");
  json_number(text, "load_us", mode_load_us(), ",\n  ");
  json_number(text, "pid", (uint64_t)owner_pid, ",\n  ");
  json_number(text, "mapped_bytes", stats.mapped, ",\n  ");
  json_number(text, "mapped_peak_bytes", stats.mapped_peak, ",\n  ");
  json_number(text, "in_use_bytes", stats.in_use, ",\n  ");
  json_number(text, "free_held_bytes", stats.free_held, ",\n  ");
  json_number(text, "purged_bytes", stats.purged, ",\n  ");
  json_number(text, "segments", stats.segments, ",\n  ");
  json_number(text, "heaps", stats.heaps, ",\n  ");
  json_number(text, "system_calls", stats.system_calls, ",\n  ");
  json_number(text, "map_calls", get(&rtm_os_counts.map), ",\n  ");
  json_number(text, "unmap_calls", get(&rtm_os_counts.unmap), ",\n  ");
  json_number(text, "purge_calls", get(&rtm_os_counts.purge), ",\n  ");
  json_number(text, "faults", usage.faults_minor + usage.faults_major, ",\n  ");
  json_number(text, "resident_peak_bytes", usage.resident_peak, ",\n  ");
  json_number(text, "elapsed_us", os_clock_us() - started_us, ",\n  ");
  json_number(text, "user_us", usage.user_us, ",\n  ");
  json_number(text, "system_us", usage.system_us, ",\n  ");
  text_add(text, "\"classes\": [\n");
  for (unsigned class = 1; class <= CLASSES; class ++) {
    if (!get(&counts[class].allocated)) continue;
    json_class(text, "page", rtm_shape[class].block_size, &counts[class]);
    text_add(text, ",\n");
  }
  json_class(text, "medium", GRANULE_SIZE, &counts[SPAN_MEDIUM]);
  text_add(text, ",\n");
  json_class(text, "huge", SEGMENT_SIZE, &counts[SPAN_HUGE]);
  text_add(text, "\n  ]\n}\n");
}

// The file name with %p replaced by the process's number.
static void report_name(struct text *name) {
  const char *mark = strstr(rtm_options.report, "%p");
  if (!mark) {
    text_add(name, rtm_options.report);
  } else {
    size_t before = (size_t)(mark - rtm_options.report);
    memcpy(name->buffer, rtm_options.report, before);
    name->length = before;
    text_add_number(name, (uint64_t)owner_pid);
    text_add(name, mark + 2);
  }
  name->buffer[name->length] = 0;
}

static void report(void) {
  char path[sizeof rtm_options.report + 32];
  struct text name = {path, sizeof path - 1, 0}, text = {buffer, sizeof buffer, 0};
  report_name(&name);
  int fd = os_create_file(path);
  if (fd < 0) {
    message_warn("RTMALLOC_REPORT", path,
                 "it cannot be written; check the folder and its permissions; a FIFO needs a reader");
    return;
  }
  json(&text);
  const char *wrong = os_write_file(fd, text.buffer, text.length);
  if (wrong) message_warn("RTMALLOC_REPORT", path, wrong);
}

__attribute__((destructor)) static void at_exit(void) {
  if (!rtm_options.verbose && !rtm_options.report[0]) return;
  if (!started_us) return;  // a process that never allocated
  if (rtm_options.verbose) verbose();
  if (rtm_options.report[0]) report();
}
