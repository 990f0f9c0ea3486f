// See pin.h.
#define _GNU_SOURCE
#include "pin.h"

#include <errno.h>
#include <link.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../heap.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { SYSTEM_PAGE = 4096, HUGE_PAGE = 2 << 20 };

// What makes locked memory fault again: joining its pages to huge ones, and looking which processor uses it. What the
// kernel does not know, or does not permit, stays as it is.
static void keep_as_it_is(uintptr_t start, size_t bytes) {
  madvise((void *)start, bytes, MADV_NOHUGEPAGE);
  syscall(SYS_mbind, start, bytes, MPOL_LOCAL, NULL, 0, 0);
}

bool os_pin(const void *address, size_t bytes) {
  int saved = errno;
  uintptr_t start = (uintptr_t)address & ~(uintptr_t)(SYSTEM_PAGE - 1);
  size_t whole = bits_round_up((uintptr_t)address + bytes - start, SYSTEM_PAGE);
  // Huge pages where whole ones fit, so no memory more: now, or never.
  if (whole >= HUGE_PAGE) madvise((void *)start, whole, MADV_HUGEPAGE);
  bool locked = mlock((void *)start, whole) == 0;
  // Kernels before 5.14 have no such advice: what is written now is there, too.
  if (!locked && madvise((void *)start, whole, MADV_POPULATE_WRITE) != 0)
    for (size_t at = 0; at < bytes; at += SYSTEM_PAGE) {
      volatile char *byte = (volatile char *)address + at;
      *byte = *byte;
    }
  keep_as_it_is(start, whole);
  errno = saved;
  return locked;
}

static int pin_module(struct dl_phdr_info *module, size_t size, void *good) {
  (void)size;
  uintptr_t own = (uintptr_t)&rtm_no_heap;
  bool is_own = false;
  for (int i = 0; i < module->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &module->dlpi_phdr[i];
    uintptr_t start = module->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD && own - start < part->p_memsz) is_own = true;
  }
  if (!is_own) return 0;
  for (int i = 0; i < module->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &module->dlpi_phdr[i];
    if (part->p_type != PT_LOAD) continue;
    uintptr_t start = module->dlpi_addr + part->p_vaddr, page = start & ~(uintptr_t)(SYSTEM_PAGE - 1);
    if (mlock((void *)start, part->p_memsz) != 0) *(bool *)good = false;
    keep_as_it_is(page, start + part->p_memsz - page);
  }
  return 1;
}

bool os_pin_library(void) {
  int saved = errno;
  bool good = true;
  dl_iterate_phdr(pin_module, &good);
  errno = saved;
  return os_pin(&rtm_fast_heap, sizeof rtm_fast_heap) && good;
}

size_t os_pin_limit(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : SIZE_MAX;
}

size_t os_machine_memory(void) {
  long pages = sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? (size_t)pages * SYSTEM_PAGE : SIZE_MAX;
}

// The number behind the label, or SIZE_MAX.
static size_t number_in(const char *path, const char *label) {
  char contents[4096];
  long length = os_read_file(path, contents, sizeof contents - 1);
  contents[length > 0 ? length : 0] = 0;
  const char *at = strstr(contents, label);
  if (!at) return SIZE_MAX;
  at += strlen(label);
  while (*at == ' ') at++;
  size_t number = 0;
  const char *digits = at;
  for (; *at >= '0' && *at <= '9' && number < SIZE_MAX / 16; at++) number = number * 10 + (size_t)(*at - '0');
  return at > digits ? number : SIZE_MAX;
}

size_t os_available_memory(void) {
  size_t kib = number_in("/proc/meminfo", "MemAvailable:"), most = os_machine_memory();
  if (kib < most / 1024) most = kib * 1024;
  // Of a container, whose group these are. (0: no such thing.)
  size_t group = number_in("/sys/fs/cgroup/memory.max", "");
  size_t older = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", "");
  if (group && group < most) most = group;
  return older && older < most ? older : most;
}
