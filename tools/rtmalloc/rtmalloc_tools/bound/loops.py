"""Natural loops of a flow graph: dominators, back edges, nesting. Knows graphs, not machine code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Loop:
    """All nodes that come back to the header without leaving the loop; every way in is by the header."""

    header: int
    body: frozenset[int]
    latches: tuple[int, ...]  # nodes with an edge back to the header


@dataclass(frozen=True)
class Structure:
    order: list[int]  # reverse postorder: every edge but the back edges goes forward
    loops: list[Loop]  # inner ones before those around them
    irreducible: list[tuple[int, int]]  # edges back into a loop that has more than one way in


Graph = Mapping[int, Iterable[int]]


def find_structure(entry: int, graph: Graph) -> Structure:
    order = reverse_postorder(entry, graph)
    number = {node: index for index, node in enumerate(order)}
    sources: dict[int, list[int]] = {node: [] for node in order}
    for node in order:
        for target in dict.fromkeys(graph[node]):
            sources[target].append(node)
    dominator = immediate_dominators(order, number, sources)
    latches: dict[int, list[int]] = {}
    irreducible: list[tuple[int, int]] = []
    for header in order:
        for node in sources[header]:
            if number[node] < number[header]:
                continue
            if dominates(header, node, dominator, number):
                latches.setdefault(header, []).append(node)
            else:
                irreducible.append((node, header))
    loops = [Loop(header, loop_body(header, ends, sources), tuple(ends)) for header, ends in latches.items()]
    return Structure(order, sorted(loops, key=lambda loop: len(loop.body)), irreducible)


def reverse_postorder(entry: int, graph: Graph) -> list[int]:
    """Depth first, without recursion: paths are thousands of nodes long."""
    done: list[int] = []
    seen = {entry}
    stack = [(entry, iter(graph[entry]))]
    while stack:
        node, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(graph[target])))
                break
        else:
            stack.pop()
            done.append(node)
    return done[::-1]


def immediate_dominators(
    order: list[int], number: Mapping[int, int], sources: Mapping[int, list[int]]
) -> dict[int, int]:
    """Cooper, Harvey and Kennedy, 'A simple, fast dominance algorithm' (2001)."""
    dominator = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            known = [source for source in sources[node] if source in dominator]
            best = known[0]
            for other in known[1:]:
                best = common(best, other, dominator, number)
            if dominator.get(node) != best:
                dominator[node] = best
                changed = True
    return dominator


def common(a: int, b: int, dominator: Mapping[int, int], number: Mapping[int, int]) -> int:
    while a != b:
        while number[a] > number[b]:
            a = dominator[a]
        while number[b] > number[a]:
            b = dominator[b]
    return a


def dominates(above: int, node: int, dominator: Mapping[int, int], number: Mapping[int, int]) -> bool:
    while number[node] > number[above]:
        node = dominator[node]
    return node == above


def loop_body(header: int, latches: list[int], sources: Mapping[int, list[int]]) -> frozenset[int]:
    body = {header}
    todo = list(latches)
    while todo:
        node = todo.pop()
        if node not in body:
            body.add(node)
            todo += sources[node]
    return frozenset(body)
