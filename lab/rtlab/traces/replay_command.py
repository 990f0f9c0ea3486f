"""`rtlab replay TRACE`: plan, play on each allocator, report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rtmalloc_tools.mistakes import Mistake as ToolMistake
from rtmalloc_tools.trace.blocks import link
from rtmalloc_tools.trace.trace_format import read_trace

from rtlab.allocators import Allocator
from rtlab.environment import describe
from rtlab.mistakes import Mistake
from rtlab.native import ensure_native
from rtlab.places import Places
from rtlab.resuming import progress_bar
from rtlab.traces.contenders import check_names, choose_contenders
from rtlab.traces.plan import Plan, make_plan, write_plan
from rtlab.traces.replaying import Bench, Replayed, forget, keep, kept, own_kib, replay_on
from rtlab.traces.report import terminal_tables, write_replay_page

INTERRUPTED = 130


@dataclass(frozen=True)
class ReplayOptions:
    trace: Path
    allocators: str | None
    runs: int
    limit_s: int
    out: Path | None
    fresh: bool


@dataclass(frozen=True)
class Results:
    replays: list[Replayed]
    cycles: dict[str, NDArray[np.uint32]]
    complete: bool


def load_plan(trace: Path) -> Plan:
    try:
        read = read_trace(trace)
    except ToolMistake as mistake:
        raise Mistake(str(mistake)) from None
    plan = make_plan(read, link(read.events))
    if not len(plan.operations):
        raise Mistake(f"{trace}: holds no allocation to replay. Record a program that allocates.")
    return plan


def replay_all(bench: Bench, allocators: Sequence[Allocator], console: Console) -> Results:
    """What an earlier, interrupted call has finished is taken from its files."""
    results = Results([], {}, True)
    with progress_bar(console) as bar:
        task = bar.add_task("", total=len(allocators) * bench.runs)
        try:
            own: float | None = None
            for place, allocator in enumerate(allocators):

                def progress(number: int, place: int = place, name: str = allocator.name) -> None:
                    text = f"replay, {name}, run {number + 1} of {bench.runs}"
                    bar.update(task, completed=place * bench.runs + number, description=text)

                done = kept(bench, allocator)
                if done is None:
                    own = own_kib(bench) if own is None else own
                    done = replay_on(bench, allocator, own, progress)
                    keep(bench, allocator, *done)
                results.replays.append(done[0])
                if done[0].status == "ok":
                    results.cycles[allocator.name] = done[1]
        except KeyboardInterrupt:
            return Results(results.replays, results.cycles, False)
    return results


def replay(places: Places, options: ReplayOptions, console: Console) -> int:
    names = check_names(options.allocators)
    plan = load_plan(options.trace)
    allocators, absent = choose_contenders(places, names, plan.peak_live)
    out = (options.out or places.build / "replays" / options.trace.name).resolve()
    bench = prepare(places, plan, out / "kept", options.runs, options.limit_s, options.fresh)
    results = replay_all(bench, allocators, console)
    if not results.complete:
        console.print("[yellow]Interrupted: what was measured so far follows; the same command goes on from here.")
    if results.replays:
        environment = describe(allocators, {key: str(value) for key, value in vars(options).items()})
        for table in terminal_tables(plan, results.replays, results.cycles):
            console.print(table)
        page = write_replay_page(out, options.trace, plan, results.replays, results.cycles, absent, environment)
        for line in absent:
            console.print(f"[yellow]Left out: {line}")
        console.print(f"Page, with figures and CSV files beside it: {page}", soft_wrap=True)
    return 0 if results.complete else INTERRUPTED


def prepare(places: Places, plan: Plan, folder: Path, runs: int, limit_s: int, fresh: bool) -> Bench:
    if fresh:
        forget(folder)
    folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(ensure_native(places), folder / "plan", folder, runs, limit_s)
    write_plan(plan, bench.plan)
    return bench
