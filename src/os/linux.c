// Linux: see os.h. What happens while a program runs is called directly (syscall.h), the rest through libc, errno kept.
#define _GNU_SOURCE
#include "os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "purge.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct os_counts rtm_os_counts;

static void count(_Atomic uint64_t *calls) { atomic_fetch_add_explicit(calls, 1, memory_order_relaxed); }

static RTM_COLD bool map_refused(long got, size_t bytes, bool *taken) {
  *taken = got == -EEXIST || !os_failed(got);
  // A kernel (before 4.17) or emulator that takes the address as a hint only.
  if (!os_failed(got)) os_unmap((uintptr_t)got, bytes);
  return false;
}

bool os_map_at(uintptr_t address, size_t bytes, bool *taken) {
  count(&rtm_os_counts.map);
  long got = os_syscall(SYS_mmap, (long)address, (long)bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  return RTM_LIKELY(got == (long)address) || map_refused(got, bytes, taken);
}

void *os_map(size_t bytes) {
  count(&rtm_os_counts.map);
  long got =
      os_syscall(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return os_failed(got) ? NULL : (void *)got;
}

void os_unmap(uintptr_t address, size_t bytes) {
  count(&rtm_os_counts.unmap);
  os_syscall(SYS_munmap, (long)address, (long)bytes, 0, 0, 0, 0);
}

#ifdef RTM_DEBUG
long os_purge(uintptr_t address, size_t bytes) { return os_purge_now(address, bytes); }
#endif

void os_want_huge_pages(uintptr_t address, size_t bytes) {
  os_syscall(SYS_madvise, (long)address, (long)bytes, MADV_HUGEPAGE, 0, 0, 0);
}

bool os_resident(uintptr_t address) {
  count(&rtm_os_counts.resident);
  unsigned char resident = 0;
  return os_syscall(SYS_mincore, (long)address, 1, (long)&resident, 0, 0, 0) == 0 && (resident & 1);
}

bool os_move(uintptr_t address, size_t bytes, uintptr_t target, size_t target_bytes) {
  count(&rtm_os_counts.remap);
  return !os_failed(os_syscall(SYS_mremap, (long)address, (long)bytes, (long)target_bytes,
                               MREMAP_MAYMOVE | MREMAP_FIXED, (long)target, 0));
}

static void futex(_Atomic uint32_t *word, int operation, uint32_t value) {
  count(&rtm_os_counts.wait);
  os_syscall(SYS_futex, (long)word, operation | FUTEX_PRIVATE_FLAG, value, 0, 0, 0);
}

RTM_COLD void os_lock_wait(struct os_lock *lock) {
  while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0) futex(&lock->state, FUTEX_WAIT, 2);
}

RTM_COLD void os_lock_wake(struct os_lock *lock) { futex(&lock->state, FUTEX_WAKE, 1); }

void os_write(int fd, const char *text, size_t length) {
  int saved = errno;
  while (length > 0) {
    ssize_t done = write(fd, text, length);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) break;
    text += done;
    length -= (size_t)done;
  }
  errno = saved;
}

long os_read_file(const char *path, char *buffer, size_t size) {
  int saved = errno;
  long total = -1;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    total = 0;
    while ((size_t)total < size) {
      ssize_t got = read(fd, buffer + total, size - (size_t)total);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      total += got;
    }
    close(fd);
  }
  errno = saved;
  return total;
}

int os_create_file(const char *path) {
  int saved = errno;
  // Does not wait for a FIFO's reader: without one it cannot be opened.
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0644);
  if (fd >= 0) fcntl(fd, F_SETFL, O_WRONLY);
  errno = saved;
  return fd;
}

void os_close(int fd) {
  int saved = errno;
  close(fd);
  errno = saved;
}

_Noreturn void os_abort(void) { abort(); }

void os_usage(struct os_usage *usage) {
  struct rusage own;
  getrusage(RUSAGE_SELF, &own);
  usage->user_us = (uint64_t)own.ru_utime.tv_sec * 1000000 + (uint64_t)own.ru_utime.tv_usec;
  usage->system_us = (uint64_t)own.ru_stime.tv_sec * 1000000 + (uint64_t)own.ru_stime.tv_usec;
  usage->faults_minor = (uint64_t)own.ru_minflt;
  usage->faults_major = (uint64_t)own.ru_majflt;
  usage->resident_peak = (uint64_t)own.ru_maxrss * 1024;
}

uint64_t os_clock_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}
