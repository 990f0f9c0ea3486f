"""`rtlab paper rt-mimalloc`: the tables and figures of RT-Mimalloc (Giannessi, Biondi, Biasci 2023) made again.

IV and VI (instructions of each function on the synthetic load) are exact. I, II, VII to X (time and memory of
benchmarks) are ratios to mimalloc 1.7 within one run, here as in the paper. Rows of rtmalloc stand beside them. Table
III: rt_mimalloc_lines.py; Figures 2, 9 and 10: rt_mimalloc_times.py. What an interrupted call has measured is kept.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console

from rtlab.allocators import Allocator
from rtlab.bench import INTERRUPTED, Options, find_entries
from rtlab.entries import Entry
from rtlab.environment import describe
from rtlab.mistakes import Mistake, choose
from rtlab.native import ensure_native
from rtlab.page import table_of, write_page
from rtlab.papers.rt_mimalloc_claims import claim_lines, claims_table
from rtlab.papers.rt_mimalloc_counts import counted, synthetic_load
from rtlab.papers.rt_mimalloc_figures import make_figures
from rtlab.papers.rt_mimalloc_lines import lines_frame, lines_table
from rtlab.papers.rt_mimalloc_measures import Measured, Work, measure_benchmark, measure_synthetic
from rtlab.papers.rt_mimalloc_tables import (
    NAME,
    REAL_WORLD,
    STRESS,
    TITLES,
    benchmark_cells,
    beside_published,
    page_table,
    published,
)
from rtlab.papers.rt_mimalloc_times import SYNTHETIC, as_frame
from rtlab.papers.rt_mimalloc_variants import REFERENCE, variants
from rtlab.places import Places
from rtlab.resuming import key_of
from rtlab.tables import on_terminal

TITLE = "RT-Mimalloc: a new look at dynamic memory allocation for real-time systems (Giannessi et al. 2023)"
LOADS = (SYNTHETIC, *REAL_WORLD, *STRESS)


@dataclass(frozen=True)
class Plan:
    allocators: str | None
    loads: str | None
    full: bool
    given_rounds: int | None
    mallocs: int | None
    instructions: bool
    benchmarks: bool
    out: Path | None

    @property
    def rounds(self) -> int:
        return self.given_rounds or (7 if self.full else 1)

    @property
    def scale(self) -> float:
        return 1.0 if self.full else 0.1

    @property
    def limit_s(self) -> int:
        return 600 if self.full else 120


def choice(places: Places, plan: Plan, console: Console) -> tuple[list[Allocator], list[str]]:
    there = variants(places, console.print)
    names = [allocator.name for allocator in there]
    wanted = choose("allocator", plan.allocators, names, names)
    chosen = [allocator for allocator in there if allocator.name in wanted]
    loads = choose("load", plan.loads, LOADS, LOADS) if plan.benchmarks else []
    if set(loads) - {SYNTHETIC} and REFERENCE not in wanted:
        raise Mistake(
            f"Time and memory are ratios to {REFERENCE}, which is not among the allocators. Add it, take "
            f"--loads {SYNTHETIC} (Figures 2 and 9), or --no-cycles."
        )
    return chosen, loads


def kept_folder(out: Path, plan: Plan, entries: Sequence[Entry], chosen: Sequence[Allocator]) -> Path:
    """Where an interrupted call left what it measured, if that was the same; else empty."""
    folder, key_file = out / "kept", out / "kept" / "key"
    key = key_of(entries, chosen, plan.limit_s) + f" {plan}"
    if not key_file.is_file() or key_file.read_text() != key:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        key_file.write_text(key)
    return folder


def measure_all(
    places: Places, plan: Plan, work: Work, chosen: Sequence[Allocator], loads: Sequence[str], entries: Sequence[Entry]
) -> tuple[Measured, bool]:
    """False: Ctrl-C ended it early."""
    found = Measured()
    try:
        for allocator in chosen if plan.instructions else []:
            if allocator.library is not None:
                found.counts += counted(places, allocator, plan.mallocs, work.kept, work.say)
        if SYNTHETIC in loads:
            measure_synthetic(work, synthetic_load(places, plan.mallocs), chosen, found)
        for entry in entries:
            if not measure_benchmark(work, entry, chosen, found):
                return found, False
    except KeyboardInterrupt:
        return found, False
    return found, True


def compared(found: Measured) -> pd.DataFrame:
    """The cells of Tables IV and VI to X beside the published ones."""
    frames = [pd.DataFrame(found.counts)] if found.counts else []
    runs = [frame for frame in found.runs if REFERENCE in set(frame["allocator"])]
    if runs:
        frames.append(benchmark_cells(pd.concat(runs)))
    return beside_published(pd.concat(frames, ignore_index=True)) if frames else pd.DataFrame(columns=["table"])


def run_rt_mimalloc(places: Places, plan: Plan, console: Console) -> int:
    chosen, loads = choice(places, plan, console)
    out = (plan.out or places.build / "paper-tables" / NAME).resolve()
    threads = max(2, os.cpu_count() or 2)
    quick = not plan.full
    options = Options(
        None, None, plan.rounds, plan.scale, threads, plan.limit_s, out, install=False, quick=quick, fresh=True
    )
    entries = find_entries(places, loads, options)
    runnable = [entry for entry in entries if isinstance(entry, Entry)]
    work = Work(ensure_native(places), plan.rounds, plan.limit_s, kept_folder(out, plan, runnable, chosen), console)
    found, complete = measure_all(places, plan, work, chosen, loads, runnable)
    found.failures += [f"{entry.name}: {entry.reason}" for entry in entries if not isinstance(entry, Entry)]
    cells, times = compared(found), as_frame(found.times)
    if not cells.empty or not times.empty:
        report(places, plan, out, chosen, found, cells, times, console)
    elif complete:
        why = "; ".join(found.failures) or "neither instructions nor benchmarks are wanted."
        raise Mistake(f"Nothing was measured: {why}")
    if complete:
        shutil.rmtree(work.kept)  # the next call measures anew
        return 0
    console.print("[yellow]Interrupted. What was measured so far is kept: the same command goes on from here.")
    return INTERRUPTED


def report(
    places: Places,
    plan: Plan,
    out: Path,
    chosen: Sequence[Allocator],
    found: Measured,
    cells: pd.DataFrame,
    times: pd.DataFrame,
    console: Console,
) -> None:
    cells.to_csv(out / "cells.csv", index=False, float_format="%.4f")
    times.to_csv(out / "times.csv", index=False, float_format="%.1f")
    if found.cycles:
        pd.DataFrame(found.cycles).rename_axis("request").to_csv(out / "synthetic.csv")
    if found.runs:
        pd.concat(found.runs).to_csv(out / "runs.csv", index=False)
    values = published()
    lines = lines_frame(places, values[values["table"] == "III"], places.build / "paper-tables" / "lines.json")
    lines.to_csv(out / "lines.csv", index=False)
    tables = [page_table(cells, table) for table in TITLES if table in set(cells["table"])]
    tables.append(lines_table(lines))
    for table in tables:
        console.print(on_terminal(table))
    for line in claim_lines(times):
        console.print(line, soft_wrap=True)
    claims = claims_table(times)
    if claims is not None:
        tables += [claims, table_of("Figures 9 and 10: allocation times in nanoseconds", times)]
    failures = list(dict.fromkeys(found.failures))
    for failure in failures:
        console.print(f"[yellow]X {failure}")
    environment = describe(chosen, {"plan": str(plan), "scale": plan.scale, "rounds": plan.rounds})
    (out / "environment.json").write_text(json.dumps(environment, indent=2, default=str) + "\n")
    page = write_page(
        out / "page.html",
        title=TITLE,
        summary=[
            "Exact counts of instructions; time and memory as ratios to mimalloc 1.7 in the same run; allocation times "
            "of the synthetic load after voting, and inside the benchmarks the best of the rounds."
        ],
        data="cells.csv, times.csv, synthetic.csv and lines.csv",
        tables=tables,
        figures=make_figures(found.cycles, times),
        failures=failures,
        failures_title="Did not run",
        environment=environment,
    )
    console.print(f"Page, with every cell and the figures: {page}", soft_wrap=True)
