// See pin.h.
#define _GNU_SOURCE
#include "pin.h"

#include <errno.h>
#include <link.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../heap.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

enum { SYSTEM_PAGE = 4096, HUGE_PAGE = 2 << 20 };

// What makes locked memory fault again: joining its pages to huge ones, and looking which processor uses it. What the
// kernel does not know, or does not permit, stays as it is.
static void keep_as_it_is(uintptr_t start, size_t bytes) {
  madvise((void *)start, bytes, MADV_NOHUGEPAGE);
  syscall(SYS_mbind, start, bytes, MPOL_LOCAL, NULL, 0, 0);
}

// From a page's start, where it may not be locked; `writes`: as a write does it. Kernels before 5.14 have no such
// advice: what is looked at is there, too. (Other threads may write to it at this moment.)
static void bring_in(uintptr_t start, size_t bytes, bool writes) {
  if (madvise((void *)start, bytes, writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0) return;
  for (size_t at = 0; at < bytes; at += SYSTEM_PAGE) {
    char *byte = (char *)start + at;
    if (writes)
      __atomic_fetch_or(byte, 0, __ATOMIC_RELAXED);
    else
      (void)*(volatile char *)byte;
  }
}

bool os_pin(const void *address, size_t bytes) {
  int saved = errno;
  uintptr_t start = (uintptr_t)address & ~(uintptr_t)(SYSTEM_PAGE - 1);
  size_t whole = bits_round_up((uintptr_t)address + bytes - start, SYSTEM_PAGE);
  // Huge pages where whole ones fit, so no memory more: now, or never.
  if (whole >= HUGE_PAGE) madvise((void *)start, whole, MADV_HUGEPAGE);
  bool locked = mlock((void *)start, whole) == 0;
  if (!locked) bring_in(start, whole, true);
  keep_as_it_is(start, whole);
  errno = saved;
  return locked;
}

static const ElfW(Phdr) *part_of(const struct dl_phdr_info *module, ElfW(Word) type, uintptr_t address) {
  for (int i = 0; i < module->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &module->dlpi_phdr[i];
    if (part->p_type == type && address - (module->dlpi_addr + part->p_vaddr) < part->p_memsz) return part;
  }
  return NULL;
}

// A part of the module, of which what lies in front of `writable` is only read.
static bool pin_part(uintptr_t start, uintptr_t end, uintptr_t writable) {
  bool locked = mlock((void *)start, end - start) == 0;
  if (!locked) {
    uintptr_t middle = writable < start ? start : writable < end ? writable : end;
    if (middle > start) bring_in(start, middle - start, false);
    if (end > middle) bring_in(middle, end - middle, true);
  }
  keep_as_it_is(start, end - start);
  return locked;
}

static int pin_module(struct dl_phdr_info *module, size_t size, void *good) {
  (void)size;
  if (!part_of(module, PT_LOAD, (uintptr_t)&rtm_no_heap)) return 0;
  for (int i = 0; i < module->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &module->dlpi_phdr[i];
    if (part->p_type != PT_LOAD) continue;
    uintptr_t start = module->dlpi_addr + part->p_vaddr, page = start & ~(uintptr_t)(SYSTEM_PAGE - 1);
    uintptr_t end = bits_round_up(start + part->p_memsz, SYSTEM_PAGE), writable = part->p_flags & PF_W ? page : end;
    // Relocated once, and then read only.
    const ElfW(Phdr) *fixed = part->p_flags & PF_W ? part_of(module, PT_GNU_RELRO, start) : NULL;
    if (fixed) writable = (start + fixed->p_memsz) & ~(uintptr_t)(SYSTEM_PAGE - 1);
    if (!pin_part(page, end, writable)) *(bool *)good = false;
  }
  return 1;
}

// What calls of a prepared heap need of the C library: calloc zeroes, realloc copies, a thread that starts is watched.
// It does not say how long a function is: these are shorter than a page, with their tails beside them.
static bool pin_functions(void) {
  void (*const functions[])(void) = {(void (*)(void))memset, (void (*)(void))memcpy, (void (*)(void))memmove,
                                     (void (*)(void))pthread_setspecific};
  bool good = true;
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    uintptr_t page = (uintptr_t)functions[i] & ~(uintptr_t)(SYSTEM_PAGE - 1);
    bool locked = mlock((void *)page, 2 * SYSTEM_PAGE) == 0;
    if (!locked) {
      bring_in(page, SYSTEM_PAGE, false);
      madvise((void *)(page + SYSTEM_PAGE), SYSTEM_PAGE, MADV_POPULATE_READ);  // if there is one
    }
    keep_as_it_is(page, 2 * SYSTEM_PAGE);
    good &= locked;
  }
  return good;
}

bool os_pin_library(void) {
  int saved = errno;
  bool good = true;
  dl_iterate_phdr(pin_module, &good);
  good &= pin_functions();
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
