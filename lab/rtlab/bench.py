"""The benchmark: chooses entries and allocators, runs them with a progress bar, shows and writes the result."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console

from rtlab.allocators import Allocator, choose_allocators, find_allocators, what_to_do
from rtlab.catalogue import ALLOCATOR_NAMES, GLIBC, ON_REQUEST, RTMALLOC
from rtlab.debian import ensure_packages
from rtlab.entries import Absent, Entry
from rtlab.environment import describe
from rtlab.loads import LOAD_NAMES, LOADS, load_entry
from rtlab.mistakes import Mistake, choose
from rtlab.native import Native, ensure_native
from rtlab.places import Places
from rtlab.profiled import Profiles
from rtlab.ratios import mark_wrong_output
from rtlab.real_programs import PROGRAM_NAMES, PROGRAMS, program_entry
from rtlab.results import REFERENCES, references_of, to_frame, write_results
from rtlab.resuming import goes_on, key_of, run_rounds
from rtlab.tables import absent_lines, medians_table, ratio_table, targets_table
from rtlab.targets import judge_all

ENTRY_NAMES = (*LOAD_NAMES, *PROGRAM_NAMES)
QUICK_ALLOCATORS = [RTMALLOC, GLIBC, "mimalloc-1.7", "snmalloc"]
INTERRUPTED = 130


@dataclass(frozen=True)
class Options:
    allocators: str | None
    loads: str | None
    runs: int
    scale: float
    threads: int
    limit_s: int
    out: Path
    install: bool
    quick: bool
    fresh: bool


def find_entries(places: Places, names: Sequence[str], options: Options) -> list[Entry | Absent]:
    loads = [load_entry(load, places.loads, options.scale, options.threads) for load in LOADS if load.entry in names]
    programs = [program_entry(program, places.work, options.scale) for program in PROGRAMS if program.name in names]
    return [*loads, *programs]


def check_reachable(places: Places, allocators: Sequence[Allocator], console: Console) -> None:
    there = find_allocators(places)
    chosen = {allocator.name for allocator in allocators}
    for name in (RTMALLOC, *REFERENCES):
        if name not in there and name not in chosen:
            console.print(f"[yellow]{what_to_do(places, name)} Its targets are not measured.")


def bench(places: Places, options: Options, console: Console) -> int:
    """Everything from the choice to the files. Returns the exit status; raises Mistake."""
    default = QUICK_ALLOCATORS if options.quick else [name for name in ALLOCATOR_NAMES if name not in ON_REQUEST]
    allocators = choose_allocators(places, options.allocators, default)
    names = choose("load or program", options.loads, ENTRY_NAMES, ENTRY_NAMES)
    if options.install:
        packages = [program.package for program in PROGRAMS if program.name in names]
        ensure_packages(packages, console.print)
    check_reachable(places, allocators, console)
    native = ensure_native(places)
    found = find_entries(places, names, options)
    entries = [item for item in found if isinstance(item, Entry)]
    absent = [item for item in found if isinstance(item, Absent)]
    for line in absent_lines(absent):
        console.print(line)
    if not entries:
        raise Mistake(
            f"Nothing to run: none of {', '.join(names)} is there. "
            "Run 'make' for the loads and 'rtlab bench --install' for the programs."
        )
    options.out.mkdir(parents=True, exist_ok=True)
    environment = describe(allocators, {key: str(value) for key, value in asdict(options).items()})
    return run_and_show(native, entries, absent, allocators, options, environment, console)


def run_and_show(
    native: Native,
    entries: Sequence[Entry],
    absent: Sequence[Absent],
    allocators: Sequence[Allocator],
    options: Options,
    environment: dict[str, object],
    console: Console,
) -> int:
    out, key_file = options.out, options.out / "runs.key"
    if options.fresh:
        key_file.unlink(missing_ok=True)
    if not goes_on(key_file, key_of(entries, allocators, options.limit_s)):
        shutil.rmtree(out / "profiles", ignore_errors=True)
    profiles = Profiles(native, out / "profiles", options.limit_s)
    files = (out / "runs.csv", key_file)
    records, complete = run_rounds(
        native, entries, allocators, options.runs, options.limit_s, *files, console, profiles.ready
    )
    if complete:
        key_file.unlink()  # the next call measures anew
    if not complete:
        console.print("[yellow]Interrupted: what was measured so far follows. The same command goes on from here.")
    if records:
        runs = mark_wrong_output(to_frame(records))
        files = write_results(options.out, runs, environment, absent, complete)
        show(runs, console)
        from rtlab.report_command import write_bench_page  # matplotlib takes a second to load

        files.append(write_bench_page(options.out))
        console.print("Written: " + ", ".join(str(path) for path in files))
    return 0 if complete else INTERRUPTED


def show(runs: pd.DataFrame, console: Console) -> None:
    console.print(medians_table(runs, "time_s", "Time in seconds, median (wall clock; redis: the server's cpu)"))
    references = references_of(runs)
    for reference in references:
        console.print(ratio_table(runs, "time_s", reference, "Time"))
    console.print(medians_table(runs, "peak_mib", "Peak resident memory in MiB, median"))
    for reference in references:
        if reference != REFERENCES[1]:
            console.print(ratio_table(runs, "peak_mib", reference, "Peak memory"))
    console.print("± is half the 95 % interval of the median; X is a failure and its cause.")
    console.print(targets_table(judge_all(runs)))
