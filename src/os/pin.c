// See pin.h.
#define _GNU_SOURCE
#include "pin.h"

#include <errno.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../heap.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { SYSTEM_PAGE = 4096 };

bool os_pin(const void *address, size_t bytes) {
  int saved = errno;
  uintptr_t start = (uintptr_t)address & ~(uintptr_t)(SYSTEM_PAGE - 1);
  size_t whole = bits_round_up((uintptr_t)address + bytes - start, SYSTEM_PAGE);
  bool locked = mlock((void *)start, whole) == 0;
  // Kernels before 5.14 have no such advice: what is written now is there, too.
  if (!locked && madvise((void *)start, whole, MADV_POPULATE_WRITE) != 0)
    for (size_t at = 0; at < bytes; at += SYSTEM_PAGE) {
      volatile char *byte = (volatile char *)address + at;
      *byte = *byte;
    }
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
    if (part->p_type == PT_LOAD && mlock((void *)(module->dlpi_addr + part->p_vaddr), part->p_memsz) != 0)
      *(bool *)good = false;
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
