"""The longest way through a flow graph, loops included, if each has a bound. Knows graphs, not machine code.

A loop whose header runs at most N times costs N - 1 times its longest way round, and the longest way from its header to
the edge that leaves it. Loops are collapsed from the inside out; what is left has no cycle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rtmalloc_tools.bound.loops import Structure


@dataclass(frozen=True)
class Step:
    """One instruction, counted once; what is left out of the count is named."""

    address: int
    apart: str = ""


@dataclass(frozen=True)
class Foreign:
    """A call into another library, with its constant count."""

    name: str
    count: int


@dataclass(frozen=True)
class Called:
    """The longest way through a function that was called."""

    address: int
    trail: Trail


@dataclass(frozen=True)
class Repeat:
    times: int
    trail: Trail


@dataclass(frozen=True)
class Part:
    """A trail as a piece of another: the last pass through a loop."""

    trail: Trail


Piece = Step | Foreign | Called | Repeat | Part
Trail = tuple["Trail", Piece] | None
"""The pieces of a path from its end to its start: (all before, last piece)."""


@dataclass(frozen=True)
class Edge:
    target: int
    cost: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Best:
    cost: int
    trail: Trail


def append(trail: Trail, pieces: tuple[Piece, ...]) -> Trail:
    for piece in pieces:
        trail = (trail, piece)
    return trail


def in_order(trail: Trail) -> Iterator[Piece]:
    pieces: list[Piece] = []
    while trail is not None:
        trail, piece = trail
        pieces.append(piece)
    return reversed(pieces)


def count(trail: Trail) -> int:
    """The instructions of a path, added up one by one: what the cost has to be."""
    total = 0
    for piece in in_order(trail):
        match piece:
            case Step():
                total += 1
            case Foreign(_, instructions):
                total += instructions
            case Called(_, inner) | Part(inner):
                total += count(inner)
            case Repeat(times, inner):
                total += times * count(inner)
    return total


Outs = dict[int, Best]
"""From a node or a collapsed loop: the longest way to each target."""


def improve(outs: Outs, target: int, best: Best) -> None:
    if target not in outs or outs[target].cost < best.cost:
        outs[target] = best


def longest(structure: Structure, edges: Mapping[int, list[Edge]], times: Mapping[int, int]) -> Outs:
    """The longest way from the first node to each target that is no node itself (the ends).

    `times`: for each loop's header, how often it runs at most. The graph must be reducible.
    """
    outs: dict[int, Outs] = {node: plain_outs(edges[node]) for node in structure.order}
    inside: dict[int, int] = {}  # node -> header of the largest loop collapsed so far that holds it
    number = {node: index for index, node in enumerate(structure.order)}
    for loop in structure.loops:
        members = sorted((node for node in loop.body if inside.get(node, node) == node), key=number.__getitem__)
        around, leaving = walk(loop.header, members, outs)
        outs[loop.header] = collapse(around, leaving, times[loop.header])
        inside |= dict.fromkeys(loop.body, loop.header)
    members = [node for node in structure.order if inside.get(node, node) == node]
    start = inside.get(structure.order[0], structure.order[0])
    return walk(start, members, outs)[1]


def plain_outs(edges: list[Edge]) -> Outs:
    outs: Outs = {}
    for edge in edges:
        improve(outs, edge.target, Best(edge.cost, append(None, edge.pieces)))
    return outs


def walk(start: int, members: list[int], outs: Mapping[int, Outs]) -> tuple[Best | None, Outs]:
    """The longest way from `start` back to it, and to each target outside. `members` are in reverse postorder."""
    inside = set(members)
    reached: Outs = {start: Best(0, None)}
    around: Outs = {}
    leaving: Outs = {}
    for node in members:
        here = reached.get(node)
        if here is None:
            continue
        for target, out in outs[node].items():
            best = Best(here.cost + out.cost, join(here.trail, out.trail))
            improve(around if target == start else reached if target in inside else leaving, target, best)
    return around.get(start), leaving


def collapse(around: Best | None, leaving: Outs, times: int) -> Outs:
    if around is None or times == 1:
        return leaving
    before = (None, Repeat(times - 1, around.trail))
    spent = (times - 1) * around.cost
    return {target: Best(spent + out.cost, (before, Part(out.trail))) for target, out in leaving.items()}


def join(before: Trail, after: Trail) -> Trail:
    """A short trail, of one edge or one collapsed loop, behind another."""
    return append(before, tuple(in_order(after)))
