// System calls without libc: no errno to keep, a dozen instructions each, and usable before libc is ready. Layer: os.
#ifndef RTM_OS_SYSCALL_H
#define RTM_OS_SYSCALL_H

#include <sys/syscall.h>

// The kernel's result: a value, or an error number negated.
static inline long os_syscall(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  long result;
  register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#else
#error "rtmalloc knows the system calls of x86-64 and aarch64 only"
#endif
}

static inline bool os_failed(long result) { return (unsigned long)result > -4096ul; }

#endif
