// See faults.h.
#define _GNU_SOURCE
#include "faults.h"

#include <link.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { RING_PAGES = 256, PAGE = 4096, PROCESSORS_MOST = 64, SEGMENT_SHIFT = 22, SEGMENTS_MOST = 4096 };

static struct perf_event_mmap_page *rings[PROCESSORS_MOST];
static unsigned processors;
static uint64_t from, until = UINT64_MAX;
static uintptr_t library, library_end, segments[SEGMENTS_MOST];
static unsigned segment_count;

static int find_library(struct dl_phdr_info *module, size_t size, void *unused) {
  (void)size, (void)unused;
  if (!strstr(module->dlpi_name, "librtmalloc")) return 0;
  library = module->dlpi_addr;
  for (int i = 0; i < module->dlpi_phnum; i++) {
    uintptr_t end = module->dlpi_addr + module->dlpi_phdr[i].p_vaddr + module->dlpi_phdr[i].p_memsz;
    if (module->dlpi_phdr[i].p_type == PT_LOAD && end > library_end) library_end = end;
  }
  return 1;
}

bool faults_start(void) {
  struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE,
                                  .size = sizeof event,
                                  .config = PERF_COUNT_SW_PAGE_FAULTS,
                                  .sample_period = 1,
                                  .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR,
                                  .inherit = 1,
                                  .exclude_kernel = 1,
                                  .use_clockid = 1,
                                  .clockid = CLOCK_MONOTONIC};
  dl_iterate_phdr(find_library, NULL);
  long count = sysconf(_SC_NPROCESSORS_CONF);
  for (long i = 0; i < count && i < PROCESSORS_MOST; i++) {
    int fd = (int)syscall(SYS_perf_event_open, &event, 0, i, -1, 0);
    if (fd < 0) return false;
    void *ring = mmap(NULL, PAGE * (1 + RING_PAGES), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring == MAP_FAILED) return false;
    rings[processors++] = ring;
  }
  return true;
}

void faults_block(const void *block) {
  uintptr_t segment = (uintptr_t)block >> SEGMENT_SHIFT;
  for (unsigned i = 0; i < segment_count; i++)
    if (segments[i] == segment) return;
  if (segment_count < SEGMENTS_MOST) segments[segment_count++] = segment;
}

static uint64_t time_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void faults_mark(void) { from = time_now(); }
void faults_stop(void) { until = time_now(); }

static bool is_allocator(uintptr_t code, uintptr_t address) {
  if (code - library < library_end - library || address - library < library_end - library) return true;
  for (unsigned i = 0; i < segment_count; i++)
    if (segments[i] == address >> SEGMENT_SHIFT) return true;
  return false;
}

unsigned faults_of_allocator(unsigned *all) {
  struct sample {
    struct perf_event_header header;
    uint64_t code, time, address;
  };
  unsigned own = 0;
  *all = 0;
  for (unsigned i = 0; i < processors; i++) {
    const char *data = (const char *)rings[i] + PAGE;
    for (uint64_t at = rings[i]->data_tail; at < __atomic_load_n(&rings[i]->data_head, __ATOMIC_ACQUIRE);) {
      struct sample sample;
      for (size_t byte = 0; byte < sizeof sample; byte++)
        ((char *)&sample)[byte] = data[(at + byte) % (RING_PAGES * PAGE)];
      at += sample.header.size;
      if (sample.header.type != PERF_RECORD_SAMPLE || sample.time < from || sample.time > until) continue;
      ++*all;
      own += is_allocator(sample.code, sample.address);
    }
  }
  return own;
}
