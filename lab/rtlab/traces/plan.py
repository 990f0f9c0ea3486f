"""From a trace to what lab/native/replay.c plays: operations by thread, with numbered blocks."""

from __future__ import annotations

import heapq
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rtmalloc_tools.trace.blocks import NONE, Linked, live_bytes, resize_pairs
from rtmalloc_tools.trace.trace_format import ALIGNED, CALLOC, FREE, MALLOC, RESIZE_TO, Trace

MAGIC, VERSION = 0x4E414C50, 1
HEADER = struct.Struct("<II4Q")
OPERATION = np.dtype(
    [
        ("size", "<u8"),
        ("block", "<u4"),
        ("old", "<u4"),
        ("window", "<u4"),
        ("kind", "u1"),
        ("alignment", "u1"),
        ("unused", "<u2"),
    ]
)
KINDS = {1: "malloc", 2: "calloc", 3: "aligned", 4: "free", 5: "realloc"}
GIVES, RESIZES = 4, 5
WINDOW = 1024  # operations
assert OPERATION.itemsize == 24


@dataclass(frozen=True)
class Plan:
    """Operations in the runner's order: by thread, then by the thread's own order."""

    operations: NDArray[np.void]
    thread: NDArray[np.int32]  # of each operation, as the trace numbers them
    ticks: NDArray[np.int64]  # when it was recorded
    remote: NDArray[np.bool_]  # frees of another thread's block
    lanes: NDArray[np.int64]  # operations of each of the runner's threads
    blocks: int
    peak_live: int  # bytes asked for
    live: NDArray[np.int64]  # bytes after each operation, in the order of time
    live_ticks: NDArray[np.int64]
    ticks_per_second: int
    left_out: int  # records that cannot be played: frees of unknown blocks, requests that failed
    cut: bool  # the recording stopped before the program's end

    @property
    def summary(self) -> str:
        threads = len(np.unique(self.thread))
        text = (
            f"{len(self.operations):,} operations of {threads} thread(s), at most {self.peak_live:,} bytes live; "
            f"{self.left_out:,} records could not be played."
        )
        return text + (" The recording stopped at its limit: this is the program's beginning." if self.cut else "")


def kinds_of(linked: Linked) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Of each row: what is played (0: nothing), and the block that a resize had before."""
    events = linked.events
    kind = np.zeros(len(events), np.uint8)
    old_block = np.full(len(events), NONE, np.int64)
    for number, operation in ((1, MALLOC), (2, CALLOC), (3, ALIGNED), (1, RESIZE_TO)):
        kind[linked.takes & (events.operation == operation)] = number
    kind[linked.gives & (events.operation == FREE)] = GIVES
    old, new = resize_pairs(events)
    given, taken = linked.gives[old], linked.takes[new]
    kind[new[given & taken]] = RESIZES
    old_block[new[given & taken]] = linked.block[old[given & taken]]
    kind[old[given & ~taken]] = GIVES  # realloc to nothing
    return kind, old_block


def lanes_of(threads: NDArray[np.int32], rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """A runner's thread for each row: threads that did not live at the same time share one."""
    names, first, inverse = np.unique(threads, return_index=True, return_inverse=True)
    last = np.zeros(len(names), np.int64)
    np.maximum.at(last, inverse, rank)
    lane = np.zeros(len(names), np.int64)
    busy: list[tuple[int, int]] = []  # last row, lane
    for number in np.argsort(first, kind="stable"):
        if busy and busy[0][0] < rank[first[number]]:
            lane[number] = heapq.heappop(busy)[1]
        else:
            lane[number] = len(busy)
        heapq.heappush(busy, (int(last[number]), int(lane[number])))
    return lane[inverse]


def make_plan(trace: Trace, linked: Linked) -> Plan:
    events = linked.events
    kind, old_block = kinds_of(linked)
    rows = np.flatnonzero(kind)
    rank = np.arange(len(rows))
    lane = lanes_of(events.thread[rows], rank)
    order = np.argsort(lane, kind="stable")
    rows, rank, lane = rows[order], rank[order], lane[order]
    operations = np.zeros(len(rows), OPERATION)
    operations["kind"] = kind[rows]
    operations["size"] = np.where(operations["kind"] == GIVES, 0, events.size[rows])
    operations["alignment"] = events.alignment[rows]
    operations["block"] = linked.block[rows]
    operations["old"] = np.where(operations["kind"] == RESIZES, old_block[rows], 0)
    operations["window"] = rank // WINDOW
    owner = events.thread[linked.birth]
    remote = (operations["kind"] == GIVES) & (owner[operations["block"]] != events.thread[rows])
    live = live_bytes(linked)
    return Plan(
        operations=operations,
        thread=events.thread[rows],
        ticks=events.ticks[rows],
        remote=remote,
        lanes=np.bincount(lane) if len(rows) else np.zeros(1, np.int64),
        blocks=len(linked.birth),
        peak_live=int(live.max(initial=0)),
        live=live,
        live_ticks=events.ticks,
        ticks_per_second=trace.header.ticks_per_second,
        left_out=linked.failed + linked.unknown,
        cut=bool(trace.header.stopped),
    )


def write_plan(plan: Plan, path: Path) -> None:
    windows = np.bincount(plan.operations["window"]).astype("<u4") if len(plan.operations) else np.zeros(1, "<u4")
    threads = np.zeros((len(plan.lanes), 2), "<u8")
    threads[:, 1] = plan.lanes
    threads[1:, 0] = np.cumsum(plan.lanes)[:-1]
    with path.open("wb") as file:
        file.write(HEADER.pack(MAGIC, VERSION, len(threads), len(windows), plan.blocks, len(plan.operations)))
        file.write(threads.tobytes())
        file.write(windows.tobytes() + bytes(4 * (len(windows) % 2)))
        file.write(plan.operations.tobytes())
