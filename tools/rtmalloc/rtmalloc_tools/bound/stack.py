"""A return goes back to the caller only where the stack is as the function found it: else what it takes for the return
address is something that the function has put there, and it may go anywhere."""

from __future__ import annotations

from collections.abc import Callable

from rtmalloc_tools.bound.flow import RETURN, Flow
from rtmalloc_tools.bound.instructions import Decoder, Kind


def check_returns(entry: int, flow: Flow, decoder: Decoder, refuse: Callable[[int, str], None]) -> None:
    """Refuses each return, and each jump to what returns for it, with bytes of the function's own on the stack. Where
    an instruction sets the stack pointer to what only a run would tell, what follows is not checked."""
    depths: dict[int, int | None] = {entry: 0}
    todo = [entry]
    while todo:
        address = todo.pop()
        instruction, depth = decoder.at(address), depths[address]
        edges = flow.edges[address]
        leaves = instruction.kind in (Kind.RETURN, Kind.JUMP, Kind.BRANCH) and any(e.target == RETURN for e in edges)
        if leaves and depth:
            refuse(address, f"returns with {depth} bytes of its own on the stack: it may go anywhere")
        after = None if depth is None or instruction.stack is None else depth + instruction.stack
        for target in (edge.target for edge in edges if edge.target >= 0):
            if target not in depths:
                depths[target] = after
                todo.append(target)
            elif None not in (depths[target], after) and depths[target] != after:
                refuse(target, f"is reached with {depths[target]} and with {after} bytes on the stack")
