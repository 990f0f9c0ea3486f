/* The tracer's knowledge of x86-64: registers, and string instructions that step in parts.
 *
 * Layer: lab/steps, implements arch.h. The load's side is marked_call_x86_64.S.
 */
#include "arch.h"
#include "marked_kinds.h"

#include <errno.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>

enum { CALL_BYTES = 2 }; /* call *%rax */

bool arch_read_marked_call(pid_t thread, struct arch_marked_call *call)
{
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, thread, NULL, &registers) != 0 || registers.r10 != MARKS_MAGIC)
        return false;
    *call = (struct arch_marked_call){
        .kind = registers.rcx,
        .size = registers.r8,
        .note = registers.r9,
        .return_address = registers.rip + CALL_BYTES,
        .stack_pointer = registers.rsp,
    };
    return call->kind < MARKED_KINDS;
}

static uint64_t read_register(pid_t thread, size_t offset)
{
    errno = 0;
    long value = ptrace(PTRACE_PEEKUSER, thread, offset, NULL);
    return errno == 0 ? (uint64_t)value : 0;
}

uint64_t arch_program_counter(pid_t thread)
{
    return read_register(thread, offsetof(struct user_regs_struct, rip));
}

uint64_t arch_stack_pointer(pid_t thread)
{
    return read_register(thread, offsetof(struct user_regs_struct, rsp));
}

enum { PREFIX_LOCK = 0xf0 };

static bool is_prefix(uint8_t byte)
{
    bool rex = (byte & 0xf0) == 0x40, segment = byte == 0x64 || byte == 0x65 || (byte & 0xe7) == 0x26;
    return byte == 0x66 || byte == 0x67 || byte == 0xf2 || byte == 0xf3 || byte == PREFIX_LOCK || rex || segment;
}

/* The first 8 bytes from there, the lowest first; 0 where none can be read. */
static uint64_t instruction_at(pid_t thread, uint64_t program_counter)
{
    errno = 0;
    uint64_t word = (uint64_t)ptrace(PTRACE_PEEKTEXT, thread, program_counter, NULL);
    return errno == 0 ? word : 0;
}

/* rep movs, stos, cmps, lods, scas, ins, outs: the trap flag stops them after every iteration, yet
 * each is one instruction (Intel SDM, volume 2, REP). */
bool arch_steps_in_parts(pid_t thread, uint64_t program_counter)
{
    uint64_t word = instruction_at(thread, program_counter);
    bool repeat = false;
    for (size_t i = 0; i < sizeof word; i++, word >>= 8) {
        uint8_t byte = (uint8_t)word;
        repeat |= byte == 0xf2 || byte == 0xf3;
        if (!is_prefix(byte)) {
            bool string = (byte >= 0xa4 && byte <= 0xa7) || (byte >= 0xaa && byte <= 0xaf) ||
                          (byte >= 0x6c && byte <= 0x6f);
            return repeat && string;
        }
    }
    return false;
}

/* What has a lock prefix, and xchg with memory, which needs none (Intel SDM, volume 2, LOCK and XCHG). */
bool arch_is_atomic(pid_t thread, uint64_t program_counter)
{
    uint64_t word = instruction_at(thread, program_counter);
    for (size_t i = 0; i < sizeof word && is_prefix((uint8_t)word); i++, word >>= 8)
        if ((uint8_t)word == PREFIX_LOCK)
            return true;
    bool exchange = (uint8_t)word == 0x86 || (uint8_t)word == 0x87, in_register = (uint8_t)(word >> 8) >= 0xc0;
    return exchange && !in_register;
}

bool arch_read_call(pid_t thread, struct arch_marked_call *call)
{
    uint64_t stack = arch_stack_pointer(thread);
    errno = 0;
    uint64_t back = (uint64_t)ptrace(PTRACE_PEEKDATA, thread, stack, NULL);
    *call = (struct arch_marked_call){
        .kind = MARKED_FUNCTION,
        .return_address = back,
        .stack_pointer = stack + sizeof back,
    };
    return errno == 0 && back != 0;
}

/* By a debug register, which each thread has for itself (Intel SDM, volume 3, Debug Registers). */
bool arch_stop_at(pid_t thread, enum arch_stop stop, uint64_t address)
{
    const uint64_t is_on = UINT64_C(1) << 2 * stop; /* DR7: local, on the instruction at DR0, DR1, ... */
    const size_t registers = offsetof(struct user, u_debugreg), control = registers + 7 * sizeof(uint64_t);
    uint64_t others = read_register(thread, control) & ~is_on;
    if (address == 0)
        return ptrace(PTRACE_POKEUSER, thread, control, others) == 0;
    return ptrace(PTRACE_POKEUSER, thread, registers + stop * sizeof(uint64_t), address) == 0 &&
           ptrace(PTRACE_POKEUSER, thread, control, others | is_on) == 0;
}
