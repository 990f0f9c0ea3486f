"""The longest path of a row as lines to read: instruction, function, source line, how often it is repeated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rtmalloc_tools.bound.analysis import Analyser
from rtmalloc_tools.bound.longest import Called, Foreign, Part, Repeat, Step, Trail, in_order


@dataclass(frozen=True)
class Line:
    """One instruction of the path, or, with `address` 0, a remark between two."""

    depth: int  # calls on the way
    address: int
    text: str
    function: str
    source: str
    times: int  # how often it is executed in the path


def listing(analyser: Analyser, trail: Trail, depth: int = 0, times: int = 1) -> Iterator[Line]:
    for piece in in_order(trail):
        match piece:
            case Step(address, apart):
                yield step_line(analyser, address, apart, depth, times)
            case Foreign(name, count):
                yield Line(depth + 1, 0, f"{name}: {count} instructions, declared", "", "", times * count)
            case Called(_, inner):
                yield from listing(analyser, inner, depth + 1, times)
            case Part(inner):
                yield from listing(analyser, inner, depth, times)
            case Repeat(repeated, inner):
                yield Line(depth, 0, f"loop: {repeated} times round", "", "", 0)
                yield from listing(analyser, inner, depth, times * repeated)
                yield Line(depth, 0, "loop: the last time, to where it is left", "", "", 0)


def step_line(analyser: Analyser, address: int, apart: str, depth: int, times: int) -> Line:
    text = analyser.decoder.at(address).text
    if apart:
        text += f"   # {apart}: counted apart"
    return Line(depth, address, text, analyser.function_name(address), analyser.source(address), times)


def total(lines: list[Line]) -> int:
    return sum(line.times for line in lines)
