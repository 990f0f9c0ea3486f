"""The flow graph of one function and all that it jumps to, as a row of paths.toml wants it cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rtmalloc_tools.bound.binary import Binary, Slot
from rtmalloc_tools.bound.instructions import Decoder, Instruction, Kind
from rtmalloc_tools.bound.longest import Best, Called, Edge, Foreign, Step
from rtmalloc_tools.bound.rows import Apart, External, Named, Row

RETURN, EXIT = -1, -2
"""The two ends of a path: back to the caller, or out by a named function that cannot be reached (or an abort)."""


@dataclass(frozen=True)
class Answer:
    """The longest way from a function's entry to each end; None: there is none."""

    to_return: Best | None
    to_exit: Best | None


@dataclass
class Flow:
    edges: dict[int, list[Edge]] = field(default_factory=dict)
    repeats: list[Instruction] = field(default_factory=list)  # rep-prefixed: loops in themselves


@dataclass
class Grower:
    """Follows control flow from an entry. `answer` gives the bound of a called function; `refuse` takes complaints."""

    binary: Binary
    decoder: Decoder
    row: Row
    externals: dict[str, External]
    answer: Callable[[int, Instruction], Answer]
    refuse: Callable[[int, str], None]
    met: Callable[[Named], None]
    met_external: Callable[[External], None]
    written_in: Callable[[int], list[str]]  # the functions around an address, inlined ones first

    def grow(self, entry: int) -> Flow:
        flow = Flow()
        todo = [entry]
        while todo:
            address = todo.pop()
            if address in flow.edges:
                continue
            instruction = self.decoder.at(address)
            if instruction.kind is Kind.REPEAT:
                flow.repeats.append(instruction)
            flow.edges[address] = self.edges_of(instruction)
            todo += [edge.target for edge in flow.edges[address] if edge.target >= 0]
        return flow

    def edges_of(self, instruction: Instruction) -> list[Edge]:
        step = (Step(instruction.address),)
        match instruction.kind:
            case Kind.RETURN:
                return [Edge(RETURN, 1, step)]
            case Kind.TRAP:
                return [Edge(EXIT, 1, step)]
            case Kind.JUMP:
                return self.jump(instruction)
            case Kind.BRANCH:
                return self.jump(instruction) + self.go_on(instruction)
            case Kind.CALL:
                return self.call(instruction)
            case Kind.SYSCALL:
                self.system_call(instruction)
            case Kind.UNKNOWN:
                self.refuse(instruction.address, "not an instruction that can be followed")
                return [Edge(EXIT, 1, step)]
        return self.go_on(instruction)

    def system_call(self, instruction: Instruction) -> None:
        """One instruction, and the kernel's, which no row counts: fit where a function around it is named 'outside'."""
        for function in self.written_in(instruction.address):
            named = self.row.named.get(function)
            if named is not None and named.apart is Apart.OUTSIDE:
                self.met(named)
                return
        self.refuse(instruction.address, "a system call on a certified path")

    def go_on(self, instruction: Instruction) -> list[Edge]:
        """To the next instruction, which has to be the same function's."""
        here, there = self.binary.function_at(instruction.address), self.binary.function_at(instruction.following)
        if here is not None and there != here:
            hint = (
                "; if the function that it calls never returns, name it as an exit"
                if instruction.kind is Kind.CALL
                else ""
            )
            self.refuse(instruction.address, f"runs off the end of {here.name}{hint}")
            return [Edge(EXIT, 1, (Step(instruction.address),))]
        return [Edge(instruction.following, 1, (Step(instruction.address),))]

    def jump(self, instruction: Instruction) -> list[Edge]:
        step = (Step(instruction.address),)
        slot = self.slot_of(instruction)
        target = instruction.target if slot is None else slot.address
        name = self.name_of(target, slot)
        if name is not None:
            self.met(name)
            end = EXIT if name.apart is Apart.EXIT else RETURN
            note = "" if end == EXIT else name.name
            return [Edge(end, 1, (Step(instruction.address, note),))]
        if target is not None:
            return [Edge(target, 1, step)]
        external = self.external(instruction, slot)
        return [Edge(RETURN, 1 + external.count, (*step, external))] if external else [Edge(EXIT, 1, step)]

    def call(self, instruction: Instruction) -> list[Edge]:
        step = Step(instruction.address)
        slot = self.slot_of(instruction)
        target = instruction.target if slot is None else slot.address
        name = self.name_of(target, slot)
        if name is not None:
            self.met(name)
            if name.apart is Apart.EXIT:
                return [Edge(EXIT, 1, (step,))]
            return self.behind(instruction, 1, (Step(instruction.address, name.name),))
        if target is None:
            external = self.external(instruction, slot)
            if external:
                return self.behind(instruction, 1 + external.count, (step, external))
            return [Edge(EXIT, 1, (step,))]
        answer = self.answer(target, instruction)
        edges: list[Edge] = []
        if answer.to_return:
            pieces = (step, Called(target, answer.to_return.trail))
            edges += self.behind(instruction, 1 + answer.to_return.cost, pieces)
        if answer.to_exit:
            edges.append(Edge(EXIT, 1 + answer.to_exit.cost, (step, Called(target, answer.to_exit.trail))))
        return edges or [Edge(EXIT, 1, (step,))]

    def behind(self, instruction: Instruction, cost: int, pieces: tuple[Step | Called | Foreign, ...]) -> list[Edge]:
        """Where a call comes back to."""
        return [Edge(edge.target, cost, pieces) for edge in self.go_on(instruction)]

    def slot_of(self, instruction: Instruction) -> Slot | None:
        """What an indirect jump or call through a constant, relocated word leads to."""
        return self.binary.slots.get(instruction.slot) if instruction.slot is not None else None

    def name_of(self, target: int | None, slot: Slot | None) -> Named | None:
        """The row's word on a function, found by any of its names."""
        names = set(self.binary.names.get(target, ())) if target is not None else set()
        if slot is not None and slot.symbol:
            names.add(slot.symbol)
        for name in sorted(names):
            if name in self.row.named:
                if name in self.binary.several and target is not None:
                    self.refuse(target, f"several functions are named {name}: what is left out needs a name of its own")
                return self.row.named[name]
        return None

    def external(self, instruction: Instruction, slot: Slot | None) -> Foreign | None:
        """A function of another library with a declared count; anything else indirect is refused."""
        what = "jump" if instruction.kind is not Kind.CALL else "call"
        if slot is None or not slot.symbol:
            self.refuse(instruction.address, f"an indirect {what}: where it leads is not known before it runs")
            return None
        if not self.binary.bind_now:
            self.refuse(instruction.address, f"{slot.symbol} is bound when it is first called; link with -z now")
            return None
        if slot.symbol not in self.externals:
            self.refuse(instruction.address, f"calls {slot.symbol}, which is outside the certified set")
            return None
        declared = self.externals[slot.symbol]
        self.met_external(declared)
        return Foreign(declared.name, declared.instructions)
