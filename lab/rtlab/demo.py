"""`rtlab demo`: a real program on the allocators that are here, in a minute, for somebody who sees rtmalloc first."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from rtlab.allocators import Allocator, find_allocators, what_to_do
from rtlab.catalogue import GLIBC, RTMALLOC
from rtlab.entries import Absent, Entry
from rtlab.measuring import Run, measure
from rtlab.mistakes import Mistake
from rtlab.native import Native, ensure_native
from rtlab.places import Places
from rtlab.probing import Probed, read_probe, vote
from rtlab.real_programs import PROGRAMS, program_entry
from rtlab.rounds import rotated

# One of each family, the newest that is there: (what the newcomer knows, our names for it in order of preference).
FAMILIES = (
    (GLIBC,),
    ("jemalloc-5.3", "jemalloc"),
    ("tcmalloc",),
    ("mimalloc-1.7", "mimalloc-debian", "mimalloc-2", "mimalloc-3"),
    ("snmalloc",),
    (RTMALLOC,),
)
SCALES = {"python3": 0.5, "redis": 0.3}
MOST_ROUNDS = 5
PROBE_RUNS = 3
LIMIT_S = 30
COLUMNS = (
    (
        "allocator",
        "the library that served the program's memory; only this differs between the rows",
    ),
    (
        "time (s)",
        "how long the program ran (redis: the server's processor time), median; lower is better",
    ),
    ("peak memory (MiB)", "the most memory the program held at once, median; lower is better"),
    (
        "longest allocation (µs)",
        "the longest the program ever waited for one block, page faults included: what a real-time program "
        f"has to plan for; the best of {PROBE_RUNS} separate runs, so that the system's own pauses drop out",
    ),
    ("allocations", "how many blocks the program asked for in a run"),
)


@dataclass(frozen=True)
class Row:
    allocator: Allocator
    runs: tuple[Run, ...]
    probed: Probed | None

    @property
    def failure(self) -> str | None:
        return next((run.status for run in self.runs if run.status != "ok"), None)


def one_of_each(there: dict[str, Allocator]) -> list[Allocator]:
    names = (next((name for name in family if name in there), None) for family in FAMILIES)
    return [there[name] for name in names if name is not None]


def timed_rounds(
    native: Native, entry: Entry, allocators: Sequence[Allocator], deadline: float
) -> dict[str, list[Run]]:
    """Interleaved rounds until the next one would end after the deadline; at least one."""
    runs: dict[str, list[Run]] = {allocator.name: [] for allocator in allocators}
    for number in range(MOST_ROUNDS):
        start = time.monotonic()
        for allocator in rotated(allocators, number):
            runs[allocator.name].append(measure(native, entry, allocator, LIMIT_S))
        if 2 * time.monotonic() - start > deadline:
            break
    return runs


def probed_rounds(
    native: Native, entry: Entry, allocators: Sequence[Allocator], deadline: float
) -> dict[str, Probed | None]:
    reports: dict[str, list[Probed | None]] = {allocator.name: [] for allocator in allocators}
    with tempfile.TemporaryDirectory(prefix="rtlab-probe-") as folder:
        for number in range(PROBE_RUNS):
            start = time.monotonic()
            for allocator in rotated(allocators, number):
                file = Path(folder) / f"{allocator.name}-{number}.json"
                measure(native, entry, allocator, LIMIT_S, probe_report=file)
                reports[allocator.name].append(read_probe(file))
            if 2 * time.monotonic() - start > deadline:
                break
    return {name: vote(found) for name, found in reports.items()}


def result_table(title: str, rows: Sequence[Row]) -> Table:
    table = Table(title=title, title_justify="left")
    for number, (name, _) in enumerate(COLUMNS):
        table.add_column(name, justify="left" if number == 0 else "right")
    for row in rows:
        name = f"{row.allocator.name} {row.allocator.version}"
        if row.allocator.name == RTMALLOC:
            name = "▶ rtmalloc"
        style = "bold cyan" if row.allocator.name == RTMALLOC else None
        if row.failure:
            table.add_row(name, f"[red]{row.failure}", "-", "-", "-", style=style)
            continue
        cpu = row.runs[0].client_s is not None
        seconds = median(run.cpu_s if cpu else run.wall_s for run in row.runs)
        peak = median(run.peak_mib for run in row.runs)
        probed = row.probed
        table.add_row(
            name,
            f"{seconds:.2f}",
            f"{peak:.1f}",
            f"{probed.longest_us:.1f}" if probed else "-",
            f"{probed.allocations:,}" if probed else "-",
            style=style,
        )
    return table


def demo_entries(places: Places) -> list[Entry]:
    programs = {program.name: program for program in PROGRAMS}
    made: Iterable[Entry | Absent] = (
        program_entry(programs[name], places.work / "demo", scale) for name, scale in SCALES.items()
    )
    return [entry for entry in made if isinstance(entry, Entry)]


def demo(places: Places, console: Console, budget_s: float) -> None:
    start = time.monotonic()
    there = find_allocators(places)
    allocators = one_of_each(there)
    if RTMALLOC not in there:
        console.print(f"[yellow]{what_to_do(places, RTMALLOC)} The demo shows the others without it.")
    native = ensure_native(places)
    entries = demo_entries(places)
    if not entries:
        raise Mistake("The demo needs /usr/bin/python3: apt-get install python3.")
    for number, entry in enumerate(entries):
        console.print(f"Running {entry.name} on {', '.join(item.name for item in allocators)} …")
        share = budget_s * (number + 1) / len(entries)
        probes = probed_rounds(native, entry, allocators, start + share - budget_s / len(entries) / 2)
        runs = timed_rounds(native, entry, allocators, start + share)
        rows = [Row(item, tuple(runs[item.name]), probes[item.name]) for item in allocators]
        times = f"{len(runs[GLIBC])} interleaved runs each"
        console.print(result_table(f"{entry.name}, {times}", rows))
    for name, meaning in COLUMNS:
        console.print(f"[bold]{name}[/]: {meaning}.")
