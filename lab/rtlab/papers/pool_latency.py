"""Runs examples/cxx/latency.cpp: the times of a high-priority thread's acquisitions, by source and heap."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from rtlab.allocators import Allocator
from rtlab.catalogue import GLIBC, MODES
from rtlab.mistakes import Mistake
from rtlab.places import Places
from rtlab.processes import Failed, run_tool
from rtlab.profiled import loading, recording

POOLS = {
    "pool": "pool, thread-local",
    "shared_pool": "pool, lock-free",
    "mutex_pool": "pool, mutex",
    "shared_ptr": "RtSharedPtr, thread-local",
}
ON_HEAP = {"malloc": "malloc", "make_shared": "std::make_shared"}
NOTHING = "nothing"
SOURCES = (NOTHING, *POOLS, *ON_HEAP)
FEW, MANY = 100, 1000  # most objects held at a time: within the first cache, and beyond
LIMIT_S = 3600
RECORDED_MOST = 1_000_000


@dataclass(frozen=True)
class Case:
    """One row: a source, and the heap that it or the noise is on."""

    source: str
    heap: Allocator
    held: int = MANY

    @property
    def title(self) -> str:
        if self.source in ON_HEAP:
            return f"{ON_HEAP[self.source]} on {self.heap.name}"
        few = f", {self.held} held" if self.held == FEW else ""
        return POOLS.get(self.source, "nothing: the timer alone") + few


@dataclass(frozen=True)
class Seen:
    """What a case took. `histogram`: cycles_from, cycles_to, voted, all."""

    case: Case
    histogram: pd.DataFrame
    cycles_per_us: float


def program(places: Places) -> Path:
    """latency.cpp, compiled when it or a header is newer."""
    source = places.root / "examples" / "cxx" / "latency.cpp"
    made = places.build / "papers" / "latency"
    newest = max(path.stat().st_mtime for path in [source, *(places.root / "include").rglob("*.hpp")])
    if not made.is_file() or made.stat().st_mtime < newest:
        made.parent.mkdir(parents=True, exist_ok=True)
        try:
            run_tool(["c++", "-std=c++17", "-O2", "-pthread", "-I", places.root / "include", source, "-o", made])
        except Failed as failure:
            raise Mistake(f"Cannot build {source}: {failure}\nIt needs a C++ compiler: apt-get install g++.") from None
    return made


def first_to_be_killed() -> None:
    """Locked memory can exhaust the machine's: then the kernel shall take this process and no other."""
    Path("/proc/self/oom_score_adj").write_text("1000")


def run(latency: Path, case: Case, count: int, folder: Path) -> Seen | str:
    """What it took, or why there is nothing."""
    out = folder / "histogram.csv"
    environment = {**os.environ, **case.heap.environment}
    if case.heap.library is not None:
        environment["LD_PRELOAD"] = str(case.heap.library)
    command = [str(latency), "--source", case.source, "--held", str(case.held), "--count", str(count)]
    try:
        done = subprocess.run(
            [*command, "--out", str(out)],
            env=environment,
            preexec_fn=first_to_be_killed,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"X ran longer than {LIMIT_S} s"
    if done.returncode < 0:
        return f"X signal {-done.returncode}"
    clock = re.search(r"^clock: ([0-9.]+)", done.stdout, re.M)
    if done.returncode != 0 or clock is None:
        return f"X status {done.returncode}: {done.stderr.strip()[-200:]}"
    return Seen(case, pd.read_csv(out), float(clock[1]))


def prepared(latency: Path, heap: Allocator, source: str, count: int, folder: Path) -> Allocator | str:
    """seg and pag get a profile of the same load; the others are as they are."""
    if heap.name not in MODES:
        return heap
    profile = folder / f"{heap.name}-{source}.rtp"
    recorded = run(latency, Case(source, recording(heap, profile)), count, folder)
    if isinstance(recorded, str):
        return f"{recorded}, recording"
    return loading(heap, profile, profile.with_suffix(".json"))


def added(parts: list[Seen]) -> Seen:
    by_bucket = pd.concat([part.histogram for part in parts]).groupby("cycles_from", as_index=False)
    histogram = by_bucket.agg({"cycles_to": "max", "voted": "sum", "all": "sum"})
    return Seen(parts[0].case, histogram, float(np.median([part.cycles_per_us for part in parts])))


def cases_of(sources: list[str], heaps: list[Allocator]) -> Iterator[Case]:
    noisy = next((heap for heap in heaps if heap.name == GLIBC), heaps[0])  # what pools are disturbed by
    for source in sources:
        if source in ON_HEAP:
            yield from (Case(source, heap) for heap in heaps)
        elif source in POOLS:
            yield from (Case(source, noisy, held) for held in (FEW, MANY))
        else:
            yield Case(source, noisy)


def measured(
    latency: Path, cases: list[Case], count: int, rounds: int, step: Callable[[str], None]
) -> tuple[list[Seen], dict[str, str]]:
    """What each case took, and why the others failed, by title. A failure ends its case, not the run."""
    parts: dict[str, list[Seen]] = {case.title: [] for case in cases}
    ready: dict[str, Allocator] = {}
    failures: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="rtlab-") as name:
        folder = Path(name)
        for case in cases:
            step(f"{case.title}, preparing")
            heap = prepared(latency, case.heap, case.source, min(count, RECORDED_MOST), folder)
            if isinstance(heap, str):
                failures[case.title] = heap
            else:
                ready[case.title] = heap
        for number_of_round in range(rounds):
            for case in cases:
                step(f"{case.title}, round {number_of_round + 1}")
                if case.title in failures:
                    continue
                result = run(latency, replace(case, heap=ready[case.title]), count, folder)
                if isinstance(result, str):
                    failures[case.title] = result
                else:
                    parts[case.title].append(result)
    return [added(parts[case.title]) for case in cases if case.title not in failures], failures
