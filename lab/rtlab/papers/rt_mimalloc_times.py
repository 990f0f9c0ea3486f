"""Allocation times for RT-Mimalloc's Figures 2, 9 (the synthetic load) and 10 (inside the benchmarks).

The synthetic load is recorded once and played on every allocator, each request timed, the smallest of the runs kept
(the papers' voting). Inside a benchmark, whose threads never run alike twice, each figure is the smallest of the runs'.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rtlab.allocators import Allocator
from rtlab.entries import Entry
from rtlab.measuring import measure
from rtlab.native import Native
from rtlab.probing import Probed, read_probe, vote
from rtlab.rounds import rotated
from rtlab.traces.compare_command import record
from rtlab.traces.plan import GIVES, Plan, write_plan
from rtlab.traces.replay_command import load_plan
from rtlab.traces.replaying import Bench, keep, kept, replay_on

SYNTHETIC = "synthetic"
TIMES = ["load", "allocator", "min", "mean", "deviation", "max", "allocations"]  # in nanoseconds
Say = Callable[[str], None]


# ---- the synthetic load ----


def synthetic_plan(native: Native, load: Sequence[str], folder: Path, limit_s: int) -> tuple[Plan, Path]:
    """What is played, and its file for the runner."""
    trace, file = folder / "synthetic.trace", folder / "synthetic.plan"
    record(native, load, trace, limit_s)
    plan = load_plan(trace)
    write_plan(plan, file)
    trace.unlink()
    return plan, file


def allocation_times(
    bench: Bench, plan: Plan, allocators: Sequence[Allocator], say: Say
) -> Iterator[tuple[Allocator, str, NDArray[np.uint32], float]]:
    """Of each allocator: 'ok' or why not, the cycles of each request in its order, cycles in a nanosecond."""
    requests = plan.operations["kind"] != GIVES
    for allocator in allocators:
        done = kept(bench, allocator)
        if done is None:
            say(f"{SYNTHETIC}, {allocator.name}")
            done = replay_on(bench, allocator, 0.0, lambda number: None)
            keep(bench, allocator, *done)
        replayed, cycles = done
        chosen = cycles[requests] if replayed.status == "ok" else cycles
        yield allocator, replayed.status, chosen, replayed.ticks_per_second / 1e9


def synthetic_row(name: str, cycles: NDArray[np.uint32], cycles_per_ns: float) -> dict[str, object]:
    ns = cycles / cycles_per_ns
    figures = (ns.min(), ns.mean(), ns.std(), ns.max(), len(ns))
    return dict(zip(TIMES, (SYNTHETIC, name, *figures), strict=True))


# ---- inside the benchmarks ----


def probed_rounds(
    native: Native, entry: Entry, allocators: Sequence[Allocator], rounds: int, limit_s: int, file: Path, say: Say
) -> dict[str, list[Probed | None]]:
    """Each round runs every allocator once, the order rotated. What `file` holds from an interrupted call is kept."""
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    reports = {
        allocator.name: [Probed(**x["seen"]) for x in lines if x["name"] == allocator.name] for allocator in allocators
    }
    done = {(line["round"], line["name"]) for line in lines}
    report = file.with_suffix(".report")
    for number in range(rounds):
        for allocator in rotated(allocators, number):
            if (number, allocator.name) in done:
                continue
            say(f"{entry.name}, allocation times, {allocator.name}, round {number + 1} of {rounds}")
            report.unlink(missing_ok=True)
            run = measure(native, entry, allocator, limit_s, probe_report=report)
            seen = read_probe(report) if run.status == "ok" else None
            if seen is None or not seen.allocations:
                continue
            reports[allocator.name].append(seen)
            with file.open("a") as stream:
                stream.write(json.dumps({"round": number, "name": allocator.name, "seen": asdict(seen)}) + "\n")
    report.unlink(missing_ok=True)
    return reports


def probed_row(load: str, name: str, reports: Sequence[Probed | None]) -> dict[str, object] | None:
    """Less what reading the counter takes; None if no run ended well."""
    seen = vote(reports)
    if seen is None:
        return None
    least, mean, most = (1000 * (us - seen.overhead_us) for us in (seen.shortest_us, seen.mean_us, seen.longest_us))
    figures = (least, mean, 1000 * math.sqrt(seen.variance_us2), most, seen.allocations)
    return dict(zip(TIMES, (load, name, *figures), strict=True))


def as_frame(rows: Sequence[dict[str, object]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=TIMES)
