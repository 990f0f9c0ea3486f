"""The certificate: each row's verdict, what it rests on, and which library it is about. Data only, ready for JSON."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rtmalloc_tools import __version__
from rtmalloc_tools.bound.analysis import AliasResult, Analyser, Problem, Result
from rtmalloc_tools.bound.observed import Key
from rtmalloc_tools.bound.rows import Apart

RATIO_MOST = {"pag": 1.25}
RATIO_MOST_ELSE = 1.5

ASSUMPTIONS = (
    "An instruction is one that the processor retires from the entry point's first to its return, both included, in "
    "user mode. A string instruction with a rep prefix counts as a loop.",
    "The longest path through the control flow graph is proven: the entry, all it jumps to, and all it calls. "
    "Whether its branches can all go that way in one run is not asked, so the true worst case may be lower.",
    "The exits listed under a row end a path where they are met. Each states why it cannot be reached there; this is "
    "the part of the proof that is argued, not computed.",
    "What is listed as linear (zeroing, copying) or, in general mode only, outside the bound (waiting for a lock) is "
    "run but not counted. A system call, in general mode only, counts as one instruction.",
    "General mode's bounds leave out a thread's first call, and requests for which the system refuses memory.",
    "A loop is accepted in general mode only, and only with a declared bound, which is argued as well.",
    "A function of another library is counted as it is declared, for the version that is named under its rows: "
    "that is argued, too.",
    "The kernel may interrupt at any instruction: its time (interrupts, scheduling, page faults of memory that is not "
    "locked) is not in these counts. `rtmalloc check` looks at the settings.",
    "Counts are not times. Caches, branch prediction, and other processors' use of the same memory decide how long an "
    "instruction takes; a count bounds how many there are, whatever the state of the heap.",
    "The code is as in the file named here, bound before the program starts (-z now); nothing patches it in memory.",
)


EXTERNAL = "external"  # beside the names in Apart: of another library, counted as declared


@dataclass(frozen=True)
class Left:
    """A function that a path of the row meets and that is not counted, or as it is declared, and why."""

    name: str
    how: str
    reason: str


@dataclass(frozen=True)
class LoopUse:
    function: str
    most: int
    linear: bool
    source: str
    reason: str


@dataclass(frozen=True)
class Refusal:
    """What stands in the way of a row's proof, and the functions that lead there."""

    text: str
    function: str
    address: int
    instruction: str
    source: str
    way: str


@dataclass(frozen=True)
class Entry:
    mode: str
    operation: str
    kind: str
    entry: str
    note: str
    proven: int | None
    observed: int | None
    ratio: float | None
    ratio_most: float
    limit: int | None
    verdict: str  # ok, loose, over limit, below observed, refused
    left: list[Left]
    loops: list[LoopUse]
    problems: list[Refusal]

    @property
    def ok(self) -> bool:
        return self.verdict in ("ok", "loose")

    @property
    def name(self) -> str:
        return f"{self.mode}/{self.operation}/{self.kind}"


@dataclass(frozen=True)
class OtherName:
    """A function that does what the entry of some rows does, and how much more it executes at most."""

    name: str
    entry: str
    like: str
    rows: int
    more: int | None
    limit: int
    verdict: str  # ok, over limit, refused
    problems: list[Refusal]

    @property
    def ok(self) -> bool:
        return self.verdict == "ok"


@dataclass(frozen=True)
class Certificate:
    tool: str
    version: str
    date: str
    library: Mapping[str, str]
    assumptions: Sequence[str]
    rows: list[Entry]
    other_names: list[OtherName]
    memory: Mapping[str, Any] | None = None
    ok: bool = field(default=True)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def judge(proven: int | None, observed: int | None, limit: int | None, ratio_most: float) -> str:
    if proven is None:
        return "refused"
    if observed is not None and observed > proven:
        return "below observed"
    if limit is not None and proven > limit:
        return "over limit"
    if observed is not None and proven > ratio_most * observed:
        return "loose"
    return "ok"


def make_entry(result: Result, observed: int | None) -> Entry:
    row = result.row
    ratio_most = RATIO_MOST.get(row.mode, RATIO_MOST_ELSE)
    order = list(Apart)
    met = sorted(result.met.values(), key=lambda named: (order.index(named.apart), named.name))
    return Entry(
        mode=row.mode,
        operation=row.operation,
        kind=row.kind,
        entry=row.entry,
        note=row.note,
        proven=result.proven,
        observed=observed,
        ratio=round(result.proven / observed, 3) if result.proven and observed else None,
        ratio_most=ratio_most,
        limit=row.limit,
        verdict=judge(result.proven, observed, row.limit, ratio_most),
        left=[Left(named.name, named.apart.value, named.reason) for named in met]
        + [
            Left(external.name, EXTERNAL, f"counted as {external.instructions}: {external.reason}")
            for _, external in sorted(result.externals.items())
        ],
        loops=[
            LoopUse(loop.bound.function, loop.bound.most, loop.bound.linear, loop.source, loop.bound.reason)
            for _, loop in sorted(result.loops.items())
        ],
        problems=refusals(result.problems),
    )


def refusals(problems: Iterable[Problem]) -> list[Refusal]:
    return [Refusal(str(p), p.function, p.address, p.instruction, p.source, p.way) for p in problems]


def make_other_name(result: AliasResult) -> OtherName:
    alias, more = result.alias, result.more
    verdict = "refused" if more is None else "over limit" if more > alias.more else "ok"
    return OtherName(
        alias.name, alias.entry, alias.like, len(result.pairs), more, alias.more, verdict, refusals(result.problems)
    )


def library_facts(analyser: Analyser) -> dict[str, str]:
    binary = analyser.binary
    return {
        "path": str(binary.path),
        "sha256": binary.sha256,
        "build_id": binary.build_id,
        "compiler": binary.compiler,
        "machine": binary.machine,
    }


def certify(
    analyser: Analyser,
    results: Sequence[Result],
    aliases: Sequence[AliasResult],
    observed: Mapping[Key, int],
    memory: Mapping[str, Any] | None = None,
) -> Certificate:
    rows = [make_entry(result, observed.get(result.row.key)) for result in results]
    others = [make_other_name(result) for result in aliases]
    return Certificate(
        tool="rtmalloc bound",
        version=__version__,
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        library=library_facts(analyser),
        assumptions=ASSUMPTIONS,
        rows=rows,
        other_names=others,
        memory=memory,
        ok=all(row.ok for row in rows) and all(other.ok for other in others),
    )
