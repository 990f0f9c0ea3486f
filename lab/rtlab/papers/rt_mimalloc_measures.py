"""Runs the synthetic load and the benchmarks for RT-Mimalloc's tables and figures; what was done is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console

from rtlab.allocators import Allocator
from rtlab.entries import Entry
from rtlab.native import Native
from rtlab.papers.rt_mimalloc_times import (
    SYNTHETIC,
    allocation_times,
    probed_rounds,
    probed_row,
    synthetic_plan,
    synthetic_row,
)
from rtlab.papers.rt_mimalloc_variants import FIGURE_2, FIGURES_9_AND_10, profile_of, ready
from rtlab.profiled import PROFILED, recorded
from rtlab.ratios import failures as failures_of
from rtlab.ratios import good_runs, mark_wrong_output
from rtlab.results import to_frame
from rtlab.resuming import run_rounds
from rtlab.traces.replaying import Bench

VOTES = 5  # runs of the synthetic load, at least
PROBES = 3  # runs of a benchmark for its allocation times, at least


@dataclass
class Measured:
    """What a call has found so far."""

    counts: list[dict[str, object]] = field(default_factory=list)
    runs: list[pd.DataFrame] = field(default_factory=list)
    times: list[dict[str, object]] = field(default_factory=list)
    cycles: dict[str, NDArray[np.uint32]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def fail(self, load: str, name: str, reason: str) -> None:
        self.failures.append(f"{load}, {name}: {reason}")


@dataclass(frozen=True)
class Work:
    """How much is run, and where what was done is kept."""

    native: Native
    rounds: int
    limit_s: int
    kept: Path
    console: Console

    def say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True, highlight=False)


def measure_synthetic(work: Work, load: Sequence[str], chosen: Sequence[Allocator], into: Measured) -> None:
    """Figures 2 and 9."""
    folder = work.kept / SYNTHETIC
    folder.mkdir(exist_ok=True)
    plan, file = synthetic_plan(work.native, load, folder, work.limit_s)
    bench = Bench(work.native, file, folder, max(VOTES, work.rounds), work.limit_s)
    wanted = [allocator for allocator in chosen if allocator.name in (*FIGURE_2, *FIGURES_9_AND_10)]
    for allocator, status, cycles, cycles_per_ns in allocation_times(bench, plan, wanted, work.say):
        if status != "ok":
            into.fail(SYNTHETIC, allocator.name, status)
            continue
        into.cycles[allocator.name] = cycles
        into.times.append(synthetic_row(allocator.name, cycles, cycles_per_ns))


def measure_benchmark(work: Work, entry: Entry, chosen: Sequence[Allocator], into: Measured) -> bool:
    """Tables I, II, VII to X and Figure 10. False: Ctrl-C."""
    prepared = []
    for allocator in chosen:
        profile = profile_of(work.kept, entry.name, allocator)
        if allocator.name in PROFILED and not profile.is_file():
            work.say(f"{entry.name}, {allocator.name}, recording")
            status = recorded(work.native, entry, allocator, profile, work.limit_s)
            if status != "ok":
                into.fail(entry.name, allocator.name, status)
                continue
        prepared.append(ready(allocator, profile))
    work.say(f"{entry.name}, time and memory of {len(prepared)} allocators")
    files = (work.kept / f"{entry.name}.csv", work.kept / f"{entry.name}.key")
    records, complete = run_rounds(work.native, [entry], prepared, work.rounds, work.limit_s, *files, work.console)
    runs = mark_wrong_output(to_frame(records))
    for (load, name), status in failures_of(runs).items():
        into.fail(load, name, status)
    into.runs.append(good_runs(runs))
    if not complete:
        return False
    good = set(into.runs[-1]["allocator"])
    timed = [allocator for allocator in prepared if allocator.name in FIGURES_9_AND_10 and allocator.name in good]
    probes = probed_rounds(
        work.native, entry, timed, max(PROBES, work.rounds), work.limit_s, work.kept / f"{entry.name}.times", work.say
    )
    for name, reports in probes.items():
        row = probed_row(entry.name, name, reports)
        if row is None:
            into.fail(entry.name, name, "X no allocation times")
        else:
            into.times.append(row)
    return True
