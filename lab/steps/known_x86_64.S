/* Functions whose instruction count is known, for the counter's own test; load_known.c calls them.
 * Each is (first, second) -> anything, and the number in its name is its count.
 */
        .macro known name
        .globl  \name
        .type   \name, @function
\name:
        .endm

        .text
        known known_1                   /* the shortest function there is */
        ret

        known known_22                  /* a loop: 1 + 10 * 2 + 1 */
        movl    $10, %ecx
0:      decl    %ecx
        jnz     0b
        ret

        known known_3_call              /* a call inside: call, ret, ret */
        call    known_1
        ret

        known known_5_repeat            /* rep stosb is one instruction, however long */
        movq    %rsi, %rcx              /* first: buffer, second: bytes */
        xorl    %eax, %eax
        cld
        rep stosb
        ret

        known known_3_system            /* a system call is one instruction (getpid) */
        movl    $39, %eax
        syscall
        ret

        known known_recursive           /* first = depth n: 6 n + 3 */
        testq   %rdi, %rdi
        jz      0f
        decq    %rdi
        call    known_recursive
        nop
0:      ret

        known known_3_fault             /* crashes in its second instruction */
        xorl    %eax, %eax
        movl    (%rax), %eax
        ret

        known known_20002               /* long enough for a timer to fire in it: 1 + 10000 * 2 + 1 */
        movl    $10000, %ecx
0:      decl    %ecx
        jnz     0b
        ret

        known known_add_406             /* first: a counter in memory: 406 + 4 for each time that another thread was faster */
        movl    $100, %ecx
0:      nop
        nop
        decl    %ecx
        jnz     0b
1:      movq    (%rdi), %rax
        leaq    1(%rax), %rdx
        lock cmpxchgq %rdx, (%rdi)
        jne     1b
        ret

        .section .note.GNU-stack, "", @progbits
