"""One x86-64 instruction at a time, as far as control flow is concerned."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import capstone
from capstone import x86_const as x86

from rtmalloc_tools.bound.binary import Binary

LONGEST = 15  # bytes of an x86-64 instruction


class Kind(Enum):
    PLAIN = "plain"
    BRANCH = "branch"  # conditional
    JUMP = "jump"
    CALL = "call"
    RETURN = "return"
    TRAP = "trap"  # ends the program
    SYSCALL = "syscall"
    REPEAT = "repeat"  # a string instruction with a rep prefix: a loop in itself
    UNKNOWN = "unknown"  # no code, or an instruction that may do anything


@dataclass(frozen=True)
class Instruction:
    address: int
    size: int
    text: str
    kind: Kind
    target: int | None = None  # of a direct jump or call
    slot: int | None = None  # of an indirect one: the address of the word that it reads, if it is a constant
    stack: int | None = 0  # bytes by which the stack grows; None: not known before it runs

    @property
    def following(self) -> int:
        return self.address + self.size


# By number, as the names depend on the syntax.
TRAPS = {x86.X86_INS_UD2, x86.X86_INS_UD0, x86.X86_INS_UD1, x86.X86_INS_HLT, x86.X86_INS_INT3}
SYSTEM = {x86.X86_INS_SYSCALL, x86.X86_INS_SYSENTER, x86.X86_INS_INT, x86.X86_INS_INT1, x86.X86_INS_INTO}
DANGEROUS = {
    *(x86.X86_INS_SYSRET, x86.X86_INS_SYSRETQ, x86.X86_INS_SYSEXIT, x86.X86_INS_SYSEXITQ),
    *(x86.X86_INS_IRET, x86.X86_INS_IRETD, x86.X86_INS_IRETQ, x86.X86_INS_RETF, x86.X86_INS_RETFQ),
    *(x86.X86_INS_LCALL, x86.X86_INS_LJMP, x86.X86_INS_XBEGIN, x86.X86_INS_XABORT),
}
# Control transfers that every flow analysis of compiled C has to refuse: they leave for the kernel or another segment.


class Decoder:
    """Decodes where control flow leads, not what lies side by side; each address once."""

    def __init__(self, binary: Binary) -> None:
        self.binary = binary
        self.engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self.engine.detail = True
        self.engine.syntax = capstone.CS_OPT_SYNTAX_ATT
        self.known: dict[int, Instruction] = {}

    def at(self, address: int) -> Instruction:
        if address not in self.known:
            self.known[address] = self.decode(address)
        return self.known[address]

    def decode(self, address: int) -> Instruction:
        raw = self.binary.bytes_at(address, LONGEST)
        for decoded in self.engine.disasm(raw, address, 1):
            return classify(decoded)
        return Instruction(address, 1, "(no code)", Kind.UNKNOWN)


def classify(decoded: capstone.CsInsn) -> Instruction:
    text = f"{decoded.mnemonic} {decoded.op_str}".strip()
    kind = kind_of(decoded)
    target = slot = None
    if kind in (Kind.BRANCH, Kind.JUMP, Kind.CALL):
        operand = decoded.operands[-1]
        if operand.type == x86.X86_OP_IMM:
            target = operand.imm
        elif operand.type == x86.X86_OP_MEM and operand.mem.base == x86.X86_REG_RIP and not operand.mem.index:
            slot = decoded.address + decoded.size + operand.mem.disp
    return Instruction(decoded.address, decoded.size, text, kind, target, slot, stack_growth(decoded, kind))


WORD = 8
PUSHES = {x86.X86_INS_PUSH, x86.X86_INS_PUSHFQ}
POPS = {x86.X86_INS_POP, x86.X86_INS_POPFQ}


def stack_growth(decoded: capstone.CsInsn, kind: Kind) -> int | None:
    """A call counts with its return."""
    if kind in (Kind.CALL, Kind.RETURN) or x86.X86_REG_RSP not in decoded.regs_access()[1]:
        return 0
    operands = decoded.operands
    named = [operand.reg for operand in operands if operand.type == x86.X86_OP_REG]
    if decoded.id in PUSHES or (decoded.id in POPS and x86.X86_REG_RSP not in named):
        size = operands[0].size if operands else WORD
        return size if decoded.id in PUSHES else -size
    constants = [operand.imm for operand in operands if operand.type == x86.X86_OP_IMM]
    if decoded.id in (x86.X86_INS_SUB, x86.X86_INS_ADD) and constants:
        return constants[0] if decoded.id == x86.X86_INS_SUB else -constants[0]
    if decoded.id == x86.X86_INS_LEA:
        places = [operand.mem for operand in operands if operand.type == x86.X86_OP_MEM]
        if places[0].base == x86.X86_REG_RSP and not places[0].index:
            return -places[0].disp
    return None


def kind_of(decoded: capstone.CsInsn) -> Kind:
    words = decoded.mnemonic.split()
    if decoded.id in DANGEROUS:
        return Kind.UNKNOWN
    if decoded.id in SYSTEM:
        return Kind.SYSCALL
    if decoded.id in TRAPS:
        return Kind.TRAP
    if decoded.group(capstone.CS_GRP_RET):
        return Kind.RETURN
    if decoded.group(capstone.CS_GRP_CALL):
        return Kind.CALL
    # `loop` and its kind are in the second group only.
    if decoded.group(capstone.CS_GRP_JUMP) or decoded.group(capstone.CS_GRP_BRANCH_RELATIVE):
        return Kind.JUMP if decoded.id == x86.X86_INS_JMP else Kind.BRANCH
    if words[0].startswith("rep") and len(words) > 1:
        return Kind.REPEAT
    return Kind.PLAIN
