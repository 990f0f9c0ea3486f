// See bits.h.
#include "bits.h"

#if defined(__x86_64__) && !defined(__POPCNT__)
#include <cpuid.h>

bool rtm_has_popcnt;

void bits_start(void) {
  unsigned a, b, c = 0, d;
  rtm_has_popcnt = __get_cpuid(1, &a, &b, &c, &d) && c & bit_POPCNT;
}

// From rax to rax; every other register is as before.
__asm__(
    ".text\n"
    ".type bits_count_without_popcnt, @function\n"
    "bits_count_without_popcnt:\n\t"
    ".hidden bits_count_without_popcnt\n\t"
    ".globl bits_count_without_popcnt\n\t"
    "pushq %rcx\n\t"
    "pushq %rdx\n\t"
    "xorl %ecx, %ecx\n"
    "1:\t"
    "testq %rax, %rax\n\t"
    "je 2f\n\t"
    "incl %ecx\n\t"
    "leaq -1(%rax), %rdx\n\t"
    "andq %rdx, %rax\n\t"
    "jmp 1b\n"
    "2:\t"
    "movl %ecx, %eax\n\t"
    "popq %rdx\n\t"
    "popq %rcx\n\t"
    "ret\n\t"
    ".size bits_count_without_popcnt, . - bits_count_without_popcnt");
#else
void bits_start(void) {}
#endif
