"""From records to blocks: which free belongs to which allocation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtmalloc_tools.trace.trace_format import FREE, RESIZE_FROM, RESIZE_TO, Events

NONE = -1


@dataclass(frozen=True)
class Linked:
    """The events with their blocks. A block is numbered by its allocation: 0 is the first one.

    A resize takes and gives: its RESIZE_FROM row gives the old block, its RESIZE_TO row takes the new one.
    """

    events: Events
    takes: NDArray[np.bool_]  # rows that got a block
    gives: NDArray[np.bool_]  # rows that gave a block back that the trace knows
    block: NDArray[np.int64]  # of each row; NONE where it neither takes nor gives
    birth: NDArray[np.int64]  # row of each block's allocation
    death: NDArray[np.int64]  # row of its release; NONE: never
    failed: int  # requests that got no memory
    unknown: int  # frees of blocks that the trace did not see allocated (a forked child frees its parent's)
    lost: int  # blocks whose address was handed out again though no free was seen

    @property
    def sizes(self) -> NDArray[np.int64]:
        return self.events.size[self.birth]


def resize_pairs(events: Events) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of RESIZE_FROM and of the RESIZE_TO that belongs to each; one that was cut off has no pair."""
    by_thread = np.argsort(events.thread, kind="stable")
    operation, thread = events.operation[by_thread], events.thread[by_thread]
    first = np.flatnonzero((operation[:-1] == RESIZE_FROM) & (operation[1:] == RESIZE_TO) & (thread[:-1] == thread[1:]))
    return by_thread[first], by_thread[first + 1]


def link(events: Events) -> Linked:
    old, new = resize_pairs(events)
    kept = (events.address[new] == 0) & (events.size[new] > 0)  # no memory: the old block stays
    gives = events.operation == FREE
    gives[old[~kept]] = True
    asks = (events.operation != FREE) & (events.operation != RESIZE_FROM)
    takes = asks & (events.address != 0)

    rows = np.flatnonzero(takes | gives)
    order = rows[np.argsort(events.address[rows], kind="stable")]  # by address, then time
    same = np.zeros(len(order), bool)
    same[1:] = events.address[order[1:]] == events.address[order[:-1]]
    after_take = same.copy()
    after_take[1:] &= takes[order[:-1]]

    birth = np.flatnonzero(takes)
    number = np.full(len(events), NONE, np.int64)
    number[birth] = np.arange(len(birth))
    ended = np.flatnonzero(after_take & gives[order])
    number[order[ended]] = number[order[ended - 1]]
    death = np.full(len(birth), NONE, np.int64)
    death[number[order[ended]]] = order[ended]
    known = gives & (number != NONE)
    freed_by_resize = int(np.sum((events.address[new] == 0) & (events.size[new] == 0)))
    return Linked(
        events=events,
        takes=takes,
        gives=known,
        block=number,
        birth=birth,
        death=death,
        failed=int(np.sum(asks & (events.address == 0))) - freed_by_resize,
        unknown=int(np.sum(gives & ~known)),
        lost=int(np.sum(after_take & takes[order])),
    )


def live_bytes(linked: Linked) -> NDArray[np.int64]:
    """Bytes asked for and not freed yet, after each row."""
    change = np.zeros(len(linked.events), np.int64)
    change[linked.takes] = linked.sizes
    change[linked.gives] -= linked.sizes[linked.block[linked.gives]]
    return np.cumsum(change)
