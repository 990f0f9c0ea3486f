"""`rtmalloc trace show`: what a trace holds, as tables."""

from __future__ import annotations

import errno
import os
import shlex
import time
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from rtmalloc_tools.printable import printable
from rtmalloc_tools.profile.show import left_table
from rtmalloc_tools.profile.size_classes import in_words
from rtmalloc_tools.trace.blocks import Linked, link, live_bytes
from rtmalloc_tools.trace.trace_format import FREE, NAMES, Header, Trace

PERCENTILES = (50, 90, 99, 99.9)
COMMAND_LENGTH = 100


def seconds(value: float) -> str:
    """A span of time with the unit that gives at least 1."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.0f} ns"


def in_short(command: Sequence[str]) -> str:
    """A command on one line, cut where it gets long."""
    text = printable(" ".join(shlex.join(command).split())) or "(unknown)"
    return text if len(text) <= COMMAND_LENGTH else text[: COMMAND_LENGTH - 1] + "…"


def headline(trace: Trace) -> Iterable[str]:
    header = trace.header
    yield f"{trace.name}: process {header.process}, {header.machine}: {in_short(header.command)}"
    day = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(header.date))
    spent = int(trace.events.ticks[-1]) / header.ticks_per_second if len(trace.events) else 0.0
    yield f"Recorded {day}; {len(trace.events):,} records over {seconds(spent)}; the process {header.ending}."
    yield from remarks(header)


def remarks(header: Header) -> Iterable[str]:
    if not header.finished:
        yield "Not finished: its recorder was killed or still runs. Without a checksum, it is read as far as it goes."
    if header.stopped:
        lost = f"; {header.dropped:,} calls came later" if header.dropped else ""
        yield f"The recording stopped early ({errno_text(header.stopped)}){lost}."
    if header.forked:
        yield "The process began by fork: what its parent had allocated is not in this trace."


def errno_text(number: int) -> str:
    return "the limit was reached" if number == errno.EFBIG else os.strerror(number).lower()


def operations_table(linked: Linked) -> Table:
    table = left_table("Operations", ["operation"], ["calls", "bytes asked for", "largest"])
    events = linked.events
    for operation, name in NAMES.items():
        rows = events.operation == operation
        if rows.any():
            sizes = events.size[rows]
            figures = ("", "") if operation == FREE else (in_words(int(sizes.sum())), f"{int(sizes.max()):,}")
            table.add_row(name, f"{int(rows.sum()):,}", *figures)
    return table


def threads_table(trace: Trace, linked: Linked) -> Table:
    table = left_table(
        "Threads", ["thread"], ["allocations", "frees", "of other threads' blocks", "bytes asked for", "first", "last"]
    )
    events, per_second = linked.events, trace.header.ticks_per_second
    owner = events.thread[linked.birth]
    for thread in np.unique(events.thread):
        mine = events.thread == thread
        gives = mine & linked.gives
        remote = int(np.sum(owner[linked.block[gives]] != thread))
        ticks = events.ticks[mine]
        table.add_row(
            str(thread),
            f"{int(np.sum(mine & linked.takes)):,}",
            f"{int(gives.sum()):,}",
            f"{remote:,}",
            in_words(int(events.size[mine & linked.takes].sum())),
            *(seconds(int(tick) / per_second) for tick in (ticks[0], ticks[-1])),
        )
    return table


def sizes_table(linked: Linked) -> Table:
    table = left_table("Blocks by size", ["up to"], ["blocks", "share", "bytes", "never freed"])
    sizes = linked.sizes
    power = np.ceil(np.log2(np.maximum(sizes, 16))).astype(int)
    for value in np.unique(power):
        chosen = power == value
        table.add_row(
            in_words(1 << int(value)),
            f"{int(chosen.sum()):,}",
            f"{chosen.mean():.1%}",
            in_words(int(sizes[chosen].sum())),
            f"{int(np.sum(chosen & (linked.death < 0))):,}",
        )
    return table


def lifetimes(trace: Trace, linked: Linked) -> Iterable[str]:
    freed = linked.death >= 0
    if not freed.any():
        return
    ticks = trace.events.ticks
    spans = (ticks[linked.death[freed]] - ticks[linked.birth[freed]]) / trace.header.ticks_per_second
    yield (
        "Lifetime of a block that was freed: "
        + ", ".join(
            f"{seconds(float(value))} (p{share:g})" for share, value in zip(PERCENTILES, quantiles(spans), strict=True)
        )
        + f"; longest {seconds(float(spans.max()))}."
    )


def quantiles(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.quantile(values, np.array(PERCENTILES) / 100))


def peak(trace: Trace, linked: Linked) -> Iterable[str]:
    if not len(linked.birth):
        yield "No block was allocated."
        return
    live = live_bytes(linked)
    at = int(live.argmax())
    when = seconds(int(trace.events.ticks[at]) / trace.header.ticks_per_second)
    blocks = int(np.sum(linked.takes[: at + 1])) - int(np.sum(linked.gives[: at + 1]))
    yield (
        f"Live at most: {in_words(int(live[at]))} ({int(live[at]):,} bytes asked for, in {blocks:,} blocks) "
        f"after {when}; at the end {in_words(int(live[-1]))}."
    )


def doubts(linked: Linked) -> Iterable[str]:
    if linked.failed:
        yield f"{linked.failed:,} requests got no memory."
    if linked.unknown:
        yield f"{linked.unknown:,} frees of blocks that the trace did not see allocated."
    if linked.lost:
        yield f"{linked.lost:,} blocks ended unseen: their addresses were handed out again."


def show(trace: Trace, console: Console) -> None:
    linked = link(trace.events)
    for line in headline(trace):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if not len(trace.events):
        console.print("It holds no allocation.")
        return
    for table in (operations_table(linked), threads_table(trace, linked), sizes_table(linked)):
        console.print(table)
    for line in (*peak(trace, linked), *lifetimes(trace, linked), *doubts(linked)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
