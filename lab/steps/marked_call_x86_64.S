/* uintptr_t rtsteps_marked_call(first, second, function, kind, size, note): the marked call, for x86-64.
 *
 * Layer: lab/steps, the load's side; called by marks.h. The tracer's side is arch_x86_64.c, and the two
 * agree on this: at the trap, rdi, rsi and rdx hold the arguments, rax the function, rcx the kind, r8 the
 * size, r9 the note, r10 the magic number; the program counter stands at `call *%rax`, which is two bytes.
 */
#include "marked_kinds.h"

        .text
        .globl  rtsteps_marked_call
        .type   rtsteps_marked_call, @function
rtsteps_marked_call:
        .cfi_startproc
        subq    $8, %rsp                /* the callee's stack is 16-byte aligned, as the ABI asks */
        .cfi_adjust_cfa_offset 8
        movq    %rdx, %rax
        movq    rtsteps_third(%rip), %rdx
        movabsq $MARKS_MAGIC, %r10
        int3                            /* stepcount takes over here */
        call    *%rax                   /* not counted */
        addq    $8, %rsp                /* and lets go here */
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
        .size   rtsteps_marked_call, . - rtsteps_marked_call

        .bss
        .globl  rtsteps_third
        .type   rtsteps_third, @object
        .balign 8
rtsteps_third:                          /* the third argument, of a function that has one */
        .zero   8
        .size   rtsteps_third, 8

        .section .note.GNU-stack, "", @progbits
