"""What the design promises of the machine code (x86-64), read from the disassembly of the built library.

remote free   no loop, no compare-and-swap, no call: wait-free whatever the other threads do (design, section 2)
malloc, free  the fast paths, from entry to return, have at most 18 and 22 instructions (design, section 5)

  machine_code.py [--objdump OBJDUMP] build/librtmalloc.so
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

MALLOC_MOST, FREE_MOST, REMOTE_FREE_MOST = 18, 22, 60

# Where the path of a remote free to a heap with an owner may be left: misuse, huge blocks, exited threads, own blocks.
WAYS_OUT = {
    "remote_free_unowned",
    "remote_free_twice",
    "free_special",
    "free_watched",
    "free_outside",
    "free_twice",
    "page_emptied",
    "page_free_full",
    "medium_free",
    "store_free_twice",
}


@dataclass(frozen=True)
class Instruction:
    address: int
    text: str
    target: int | None = None
    """Of a jump or call."""

    @property
    def mnemonic(self) -> str:
        return self.text.split()[0]

    @property
    def is_jump(self) -> bool:
        return (
            self.mnemonic.removeprefix("notrack").startswith("j")
            or self.mnemonic == "notrack"
        )

    @property
    def is_conditional(self) -> bool:
        return self.is_jump and not self.mnemonic.startswith("jmp")

    @property
    def ends(self) -> bool:
        return self.mnemonic in {"ret", "repz", "hlt", "ud2"} or self.text.startswith(
            "rep ret"
        )


@dataclass
class Function:
    name: str
    address: int
    body: dict[int, Instruction] = field(default_factory=dict)


LINE = re.compile(r"^\s+([0-9a-f]+):\t(.+?)\s*$")
HEADER = re.compile(r"^([0-9a-f]+) <([^>]+)>:$")
TARGET = re.compile(r"\b([0-9a-f]+) <")


def parse(disassembly: str) -> dict[int, Function]:
    functions: dict[int, Function] = {}
    current: Function | None = None
    for line in disassembly.splitlines():
        if header := HEADER.match(line):
            current = Function(header[2], int(header[1], 16))
            functions[current.address] = current
        elif current and (match := LINE.match(line)):
            text = match[2].split("#")[0].strip()
            target = TARGET.search(text)
            jumps = text.split()[0].startswith(("j", "call", "notrack", "bnd"))
            address = int(match[1], 16)
            goal = int(target[1], 16) if target and jumps else None
            current.body[address] = Instruction(address, text, goal)
    return functions


class Code:
    def __init__(self, library: Path, objdump: str) -> None:
        command = [objdump, "-d", "--no-show-raw-insn", str(library)]
        output = subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout
        self.functions = parse(output)
        self.instructions = {
            a: i for f in self.functions.values() for a, i in f.body.items()
        }
        self.names = {a: f.name.split("@")[0] for a, f in self.functions.items()}
        order = sorted(self.instructions)
        self.following = dict(zip(order, order[1:], strict=False))

    def find(self, name: str) -> Function:
        for function in self.functions.values():
            if function.name == name:
                return function
        sys.exit(
            f"FAILED: the library has no function {name}; was it stripped, or is the test out of date?"
        )

    def successors(self, address: int, ways_out: set[str]) -> list[int]:
        """The addresses that may come next; a jump to one of `ways_out` leaves the path."""
        instruction = self.instructions[address]
        if instruction.ends:
            return []
        following = [self.following[address]]
        if not instruction.is_jump:
            return following
        if instruction.target is None:
            sys.exit(f"FAILED: an indirect jump at {address:#x}: {instruction.text}")
        left = self.names.get(instruction.target, "").removesuffix(".cold") in ways_out
        jump = [] if left else [instruction.target]
        return jump + following if instruction.is_conditional else jump

    def reachable(self, start: int, ways_out: set[str]) -> set[int]:
        seen: set[int] = set()
        todo = [start]
        while todo:
            address = todo.pop()
            if address in seen:
                continue
            seen.add(address)
            if self.is_way_out(address, ways_out):
                continue
            todo += self.successors(address, ways_out)
        return seen

    def is_way_out(self, address: int, ways_out: set[str]) -> bool:
        """A call that does not come back to the path: of a function that aborts."""
        instruction = self.instructions[address]
        called = self.names.get(instruction.target or 0, "")
        return instruction.mnemonic.startswith("call") and called in ways_out

    def longest(self, start: int, ways_out: set[str]) -> int:
        """Instructions of the longest path; exits if there is a loop."""
        open_addresses: set[int] = set()

        @cache
        def walk(address: int) -> int:
            if address in open_addresses:
                sys.exit(
                    f"FAILED: a loop through {address:#x}: {self.instructions[address].text}"
                )
            open_addresses.add(address)
            nexts = (
                []
                if self.is_way_out(address, ways_out)
                else self.successors(address, ways_out)
            )
            length = 1 + max((walk(a) for a in nexts), default=0)
            open_addresses.discard(address)
            return length

        return walk(start)

    def returns_within(self, function: Function) -> int:
        """Instructions of the longest path from the entry to a return that neither calls nor leaves the function."""

        @cache
        def walk(address: int) -> int:
            instruction = self.instructions[address]
            if instruction.ends:
                return 1 if "ret" in instruction.text else -1
            if instruction.mnemonic.startswith("call"):
                return -1
            nexts = [a for a in self.successors(address, set()) if a in function.body]
            rest = max((walk(a) for a in nexts), default=-1)
            return rest + 1 if rest > 0 else -1

        return walk(function.address)


def check_at_most(name: str, count: int, most: int) -> bool:
    good = 0 < count <= most
    print(
        f"{'ok    ' if good else 'FAILED'} {name}: {count} instructions, at most {most}"
    )
    return good


def check_remote_free(code: Code) -> bool:
    """From free's entry, on each path that does not leave for one of the ways out."""
    start = code.find("free")
    good = True
    for address in sorted(code.reachable(start.address, WAYS_OUT)):
        text = code.instructions[address].text
        if "cmpxchg" in text:
            print(f"FAILED remote free: compare-and-swap at {address:#x}: {text}")
            good = False
        if text.startswith("call") and not code.is_way_out(address, WAYS_OUT):
            print(f"FAILED remote free: a call at {address:#x}: {text}")
            good = False
    adds = [
        a
        for a in code.reachable(start.address, WAYS_OUT)
        if "xadd" in code.instructions[a].text
    ]
    if not adds:
        print("FAILED remote free: no lock xadd on the path; the test has lost it")
        good = False
    return (
        check_at_most(
            "free of another thread's block",
            code.longest(start.address, WAYS_OUT),
            REMOTE_FREE_MOST,
        )
        and good
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("--objdump", default="objdump")
    arguments = parser.parse_args()
    code = Code(arguments.library, arguments.objdump)
    results = [
        check_at_most("malloc", code.returns_within(code.find("malloc")), MALLOC_MOST),
        check_at_most("free", code.returns_within(code.find("free")), FREE_MOST),
        check_remote_free(code),
    ]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
