"""The bound of each row: functions by way of what they call, loops by their declared bounds, complaints collected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rtmalloc_tools.bound.binary import Binary, base_name
from rtmalloc_tools.bound.flow import EXIT, RETURN, Answer, Flow, Grower
from rtmalloc_tools.bound.instructions import Decoder, Instruction
from rtmalloc_tools.bound.longest import Best, Edge, Repeat, Step, Trail, longest
from rtmalloc_tools.bound.loops import Loop, find_structure
from rtmalloc_tools.bound.rows import Alias, External, LoopBound, Named, Paths, Row
from rtmalloc_tools.bound.sources import Sources
from rtmalloc_tools.bound.stack import check_returns
from rtmalloc_tools.mistakes import Mistake, unknown_name

NOTHING = Answer(Best(0, None), None)


@dataclass(frozen=True)
class Problem:
    """Why a row cannot be certified."""

    function: str
    address: int
    instruction: str
    source: str
    message: str
    way: str  # the functions that lead there

    def __str__(self) -> str:
        source = f" ({self.source})" if self.source else ""
        return f"{self.message}: in {self.function} at {self.address:#x}{source}: {self.instruction}"


@dataclass(frozen=True)
class UsedLoop:
    bound: LoopBound
    address: int
    source: str


@dataclass
class Result:
    row: Row
    proven: int | None = None
    trail: Trail = None
    problems: list[Problem] = field(default_factory=list)
    met: dict[str, Named] = field(default_factory=dict)
    loops: dict[int, UsedLoop] = field(default_factory=dict)  # by address of the header
    externals: dict[str, External] = field(default_factory=dict)


class Analyser:
    """One library; each row is analysed by itself, as what a row leaves out changes every function's bound."""

    def __init__(self, binary: Binary, paths: Paths, sources: Sources | None = None) -> None:
        self.binary = binary
        self.paths = paths
        self.sources = sources or Sources(binary.path)
        self.decoder = Decoder(binary)

    def analyse(self, row: Row) -> Result:
        return RowAnalysis(self, row).run()

    def source(self, address: int) -> str:
        return str(self.sources.place(address))

    def function_name(self, address: int) -> str:
        """The function in the machine code, and what was inlined there."""
        function = self.binary.function_at(address)
        name = base_name(function.name) if function else self.stub_name(address)
        inlined = [inner for inner in self.sources.functions(address) if inner != name]
        return f"{name} ({inlined[0]}, inlined)" if inlined else name

    def stub_name(self, address: int) -> str:
        """Code that is no function's: a stub of the procedure linkage table, named for what it leads to."""
        slot = self.decoder.at(address).slot
        known = self.binary.slots.get(slot) if slot is not None else None
        return f"{known.symbol}@plt" if known and known.symbol else "?"


class RowAnalysis:
    def __init__(self, analyser: Analyser, row: Row) -> None:
        self.analyser = analyser
        self.row = row
        self.result = Result(row)
        self.answers: dict[int, Answer] = {}
        self.open: list[int] = []
        self.grower = Grower(
            binary=analyser.binary,
            decoder=analyser.decoder,
            row=row,
            externals=dict(analyser.paths.externals),
            answer=self.called,
            refuse=self.refuse,
            met=self.meet,
            met_external=self.meet_external,
            written_in=analyser.sources.functions,
        )

    def run(self) -> Result:
        entry = self.analyser.binary.by_name.get(self.row.entry)
        if entry is None:
            raise unknown_name(f"function in {self.analyser.binary.path.name}", self.row.entry, self.function_names())
        answer = self.answer(entry.address)
        ends = [best for best in (answer.to_return, answer.to_exit) if best]
        if not ends:
            self.refuse(entry.address, "no path from here ends")
        if not self.result.problems:
            best = max(ends, key=lambda end: end.cost)
            self.result.proven, self.result.trail = best.cost, best.trail
        return self.result

    def meet(self, named: Named) -> None:
        self.result.met[named.name] = named

    def meet_external(self, external: External) -> None:
        self.result.externals[external.name] = external

    def function_names(self) -> list[str]:
        return sorted(name for name in self.analyser.binary.by_name if "." not in name)

    def refuse(self, address: int, message: str) -> None:
        problem = Problem(
            function=self.analyser.function_name(address),
            address=address,
            instruction=self.analyser.decoder.at(address).text,
            source=self.analyser.source(address),
            message=message,
            way=" > ".join(self.analyser.function_name(entry).split()[0] for entry in self.open),
        )
        seen = {(known.address, known.message) for known in self.result.problems}
        if (address, message) not in seen:
            self.result.problems.append(problem)

    def called(self, entry: int, by: Instruction) -> Answer:
        if entry in self.open:
            self.refuse(by.address, "recursion: the function is called while it runs")
            return NOTHING
        return self.answer(entry)

    def answer(self, entry: int) -> Answer:
        if entry not in self.answers:
            self.open.append(entry)
            flow = self.grower.grow(entry)
            check_returns(entry, flow, self.analyser.decoder, self.refuse)
            self.answers[entry] = self.solve(entry, flow)
            self.open.pop()
        return self.answers[entry]

    def solve(self, entry: int, flow: Flow) -> Answer:
        for instruction in flow.repeats:
            flow.edges[instruction.address] = self.charge_repeat(instruction, flow.edges[instruction.address])
        graph = {node: [e.target for e in edges if e.target >= 0] for node, edges in flow.edges.items()}
        structure = find_structure(entry, graph)
        for node, _ in structure.irreducible:
            self.refuse(node, "a loop with several ways in")
        if structure.irreducible:
            return NOTHING
        times = self.all_times(structure.loops)
        ends = longest(structure, flow.edges, times)
        return Answer(ends.get(RETURN), ends.get(EXIT))

    def charge_repeat(self, instruction: Instruction, edges: list[Edge]) -> list[Edge]:
        times = self.times(Loop(instruction.address, frozenset([instruction.address]), (instruction.address,)))
        repeat = Repeat(times, (None, Step(instruction.address)))
        return [Edge(edge.target, times, (repeat,)) for edge in edges]

    def all_times(self, loops: list[Loop]) -> dict[int, int]:
        """One declaration does not serve for a loop and for another inside it: both would get the inner one's bound."""
        for outer in loops:
            for inner in loops:
                bound = self.declared(inner)
                if inner.body < outer.body and bound and bound == self.declared(outer) and bound.most > 1:
                    self.refuse(outer.latches[0], "two nested loops go by one declaration: tell them apart by `at`")
        return {loop.header: self.times(loop) for loop in loops}

    def times(self, loop: Loop) -> int:
        """How often the loop's header runs at most; 1, after a complaint, if no one says."""
        bound = self.declared(loop)
        if bound is None:
            latch = loop.latches[0]
            place = f", back to {loop.header:#x} ({self.analyser.source(loop.header)})" if latch != loop.header else ""
            what = "a loop on a sealed path" if self.row.sealed else f"an undeclared loop of {self.written_in(loop)}"
            self.refuse(latch, what + place)
            return 1
        used = UsedLoop(bound, loop.header, self.analyser.source(loop.header))
        self.result.loops[loop.header] = used
        return bound.most

    def declared(self, loop: Loop) -> LoopBound | None:
        """The declaration for the function that the loop was written in; the largest where several fit."""
        if self.row.sealed:
            return None
        name = self.written_in(loop)
        fitting = [bound for bound in self.analyser.paths.loops if bound.function == name]
        lines = {self.analyser.sources.place(node).text for node in (loop.header, *loop.latches)}
        if any(lines):
            exact = [bound for bound in fitting if bound.at and any(bound.at in line for line in lines)]
            fitting = exact or [bound for bound in fitting if not bound.at]
        return max(fitting, key=lambda bound: bound.most, default=None)

    def written_in(self, loop: Loop) -> str:
        """The innermost function that has all of the loop: not one that was inlined into its body."""
        function = self.analyser.binary.function_at(loop.header)
        return self.analyser.sources.owner(loop.body) or (base_name(function.name) if function else "?")


@dataclass
class AliasResult:
    """An alias beside each of the rows that it follows."""

    alias: Alias
    pairs: list[tuple[Result, Result]]  # the row's own, the alias's

    @property
    def more(self) -> int | None:
        """Instructions more than in the row where that is the most; None if one of its bounds is refused."""
        pairs = [(base.proven, own.proven) for base, own in self.pairs if base.proven is not None]
        if any(own is None for _, own in pairs):
            return None
        return max((own - base for base, own in pairs if own is not None), default=None)

    @property
    def problems(self) -> list[Problem]:
        return [problem for _, own in self.pairs for problem in own.problems]


def analyse_aliases(analyser: Analyser, results: Iterable[Result]) -> list[AliasResult]:
    """Those of the rows in the results."""
    known = list(results)
    found = [
        AliasResult(
            alias,
            [(base, analyser.analyse(alias.row(base.row))) for base in known if base.row.entry == alias.like],
        )
        for alias in analyser.paths.aliases
    ]
    return [result for result in found if result.pairs]


def analyse_all(analyser: Analyser, rows: Iterable[Row]) -> list[Result]:
    results = [analyser.analyse(row) for row in rows]
    if not results:
        raise Mistake("No row of paths.toml is left to compute.")
    return results
