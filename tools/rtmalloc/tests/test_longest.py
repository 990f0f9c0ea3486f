"""The longest path against all paths, on random programs: as graphs with loops, and assembled."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from conftest import analyse, function, needs_gcc, row
from hypothesis import given, settings
from hypothesis import strategies as st

from rtmalloc_tools.bound.longest import Edge, Step, count, longest
from rtmalloc_tools.bound.loops import find_structure

END = -1


@st.composite
def programs(draw):
    """Blocks of some instructions; each goes on to later ones, or returns. Called functions are programs too."""
    size = draw(st.integers(1, 9))
    blocks = []
    for number in range(size):
        weight = draw(st.integers(0, 6))
        calls = draw(st.booleans())
        rest = size - number - 1
        branch = draw(st.integers(number + 1, size - 1)) if rest and draw(st.booleans()) else None
        jump = draw(st.sampled_from([None, "return", *range(number + 1, size)])) if rest else "return"
        blocks.append((weight, calls, branch, jump))
    return blocks


def assembler(blocks, callee):
    lines = []
    for number, (weight, calls, branch, jump) in enumerate(blocks):
        lines.append(f".L{callee}{number}:")
        lines += ["nop"] * weight
        if calls and callee:
            lines.append(f"call {callee}")
        if branch is not None:
            lines.append(f"je .L{callee}{branch}")
        if jump == "return":
            lines.append("ret")
        elif jump is not None:
            lines.append(f"jmp .L{callee}{jump}")
    return "\n".join(lines)


def all_paths(blocks, at, callee_costs):
    """The length of every path, by going each of them."""
    weight, calls, branch, jump = blocks[at]
    for cost in callee_costs if calls and callee_costs else [0]:
        here = weight + (1 + cost if calls and callee_costs else 0) + (branch is not None)
        if branch is not None:
            yield from (here + rest for rest in all_paths(blocks, branch, callee_costs))
        if jump == "return":
            yield here + 1
        else:
            following, extra = (at + 1, 0) if jump is None else (jump, 1)
            yield from (here + extra + rest for rest in all_paths(blocks, following, callee_costs))


@needs_gcc
@settings(max_examples=40, deadline=None)
@given(programs(), programs())
def test_random_programs_against_all_their_paths(entry, inner):
    inner_costs = sorted(set(all_paths(inner, 0, [])))
    expected = max(all_paths(entry, 0, [inner_costs[0], inner_costs[-1]]))
    text = ".text\n" + function("entry", assembler(entry, "inner")) + function("inner", assembler(inner, ""))
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "a.s", Path(folder) / "a.so"
        source.write_text(text + '.section .note.GNU-stack,"",@progbits\n')
        command = ["gcc", "-shared", "-nostdlib", "-Wl,-z,now", "-Wl,-Bsymbolic", str(source), "-o", str(library)]
        subprocess.run(command, check=True, capture_output=True)
        result = analyse(library, row())
    assert not result.problems
    assert result.proven == expected
    assert count(result.trail) == expected


@st.composite
def loops_within_loops(draw):
    """A chain of nodes with random forward edges, and back edges that keep the graph reducible: to a dominator."""
    size = draw(st.integers(2, 7))
    graph = {node: {node + 1} for node in range(size - 1)}
    graph[size - 1] = {END}
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, size - 1))
        graph[start].add(draw(st.sampled_from([END, *range(start + 1, size)])))
    for _ in range(draw(st.integers(0, 3))):
        end = draw(st.integers(0, size - 1))
        graph[end].add(draw(st.integers(0, end)))
    times = {node: draw(st.integers(1, 3)) for node in range(size)}
    costs = {(a, b): draw(st.integers(1, 4)) for a in graph for b in graph[a]}
    return graph, times, costs


def walk_all(graph, times, costs, loops, node=0, entered=None):
    """The longest way to END, each loop's header at most its number of times for each entry from outside."""
    entered = dict(entered or {})
    if node in times and node in loops:
        entered[node] = entered.get(node, 0) + 1
        if entered[node] > times[node]:
            return None
    best = None
    for target in graph[node]:
        rest = 0
        if target != END:
            # A loop that is left is entered afresh the next time.
            inside = {header: n for header, n in entered.items() if target in loops[header]}
            rest = walk_all(graph, times, costs, loops, target, inside)
        if rest is not None:
            best = max(best or 0, costs[node, target] + rest)
    return best


@settings(max_examples=300, deadline=None)
@given(loops_within_loops())
def test_random_loops_against_all_their_paths(case):
    graph, times, costs = case
    inner = {node: [target for target in targets if target != END] for node, targets in graph.items()}
    structure = find_structure(0, inner)
    if structure.irreducible or len(structure.loops) > 2 or sum(len(t) for t in graph.values()) > 12:
        return
    loops = {loop.header: loop.body for loop in structure.loops}
    edges = {node: [make_edge(node, t, costs[node, t]) for t in graph[node]] for node in structure.order}
    best = longest(structure, edges, times).get(END)
    assert best is not None
    assert count(best.trail) == best.cost
    exact = walk_all(graph, times, costs, loops)
    if all(can_go_round(loop, times) for loop in structure.loops):
        assert exact is not None
        # Never less than the longest real walk; the same where no inner loop's cost hides a way round an outer one.
        assert best.cost >= exact
        if len(loops) <= 1:
            assert best.cost == exact


def can_go_round(loop, times):
    return times[loop.header] >= 1


def make_edge(node, target, cost):
    return Edge(target, cost, tuple(Step(node) for _ in range(cost)))


def test_a_loop_that_holds_another_is_collapsed_after_it():
    graph = {0: [1], 1: [2], 2: [1, 3], 3: [0]}
    structure = find_structure(0, graph)
    assert [(loop.header, sorted(loop.body)) for loop in structure.loops] == [(1, [1, 2]), (0, [0, 1, 2, 3])]


def test_two_loops_with_one_header_are_one_loop():
    structure = find_structure(0, {0: [1, 2], 1: [0, 3], 2: [0], 3: []})
    ((header, latches),) = [(loop.header, sorted(loop.latches)) for loop in structure.loops]
    assert (header, latches) == (0, [1, 2])


def test_a_jump_into_the_middle_of_a_loop_is_irreducible():
    assert find_structure(0, {0: [1, 2], 1: [2], 2: [1]}).irreducible
