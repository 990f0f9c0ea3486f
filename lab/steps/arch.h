/* What the tracer needs to know about a processor; one arch_<name>.c for each.
 *
 * Layer: lab/steps, below the tracer (tracer.c is its only caller). A port is this file's functions
 * and a marked_call_<name>.S. All functions want a thread that is stopped under ptrace.
 */
#ifndef RTSTEPS_ARCH_H
#define RTSTEPS_ARCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A load's marked call, as found in its registers at the trap. */
struct arch_marked_call {
    uint64_t kind;            /* enum marked_kind */
    uint64_t size;            /* bytes, as the load stated it */
    uint64_t note;            /* address of a string in the load */
    uint64_t return_address;  /* the operation is over when the program counter is here ... */
    uint64_t stack_pointer;   /* ... and the stack pointer is this: not in a deeper call of the same site */
};

/* Reads the marked call that the thread trapped for; false if the trap was not ours. */
bool arch_read_marked_call(pid_t thread, struct arch_marked_call *call);

/* 0 when the thread is gone (killed while stopped). */
uint64_t arch_program_counter(pid_t thread);
uint64_t arch_stack_pointer(pid_t thread);

/* True if the instruction there is one that a single step runs only a part of. */
bool arch_steps_in_parts(pid_t thread, uint64_t program_counter);

/* True if the instruction there reads, changes and writes memory in one step that no other thread comes between. */
bool arch_is_atomic(pid_t thread, uint64_t program_counter);

/* Before the first instruction of a called function: the call, of the kind MARKED_FUNCTION. False if that cannot be read. */
bool arch_read_call(pid_t thread, struct arch_marked_call *call);

/* This thread, and no other, traps before it runs the instruction at `address`; 0: no longer. Each stop has one address
 * at a time. False where the machine does not let a debugger do so. */
enum arch_stop { ARCH_STOP_RETURN, ARCH_STOP_FUNCTION };
bool arch_stop_at(pid_t thread, enum arch_stop stop, uint64_t address);

#endif
