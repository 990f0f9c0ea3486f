"""What a replay found: files in its folder, tables on the terminal, the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.table import Table

from rtlab.catalogue import RTMALLOC
from rtlab.page import PageTable, cell_of, table_of, write_page
from rtlab.traces.figures import make_figures
from rtlab.traces.plan import Plan
from rtlab.traces.replaying import Replayed
from rtlab.traces.statistics import ALLOCATE, RELEASE, cost_table, operation_rows, run_table

WHAT_IT_IS = (
    "Cycles of one call: the smallest of all runs for each operation, so that interrupts drop out, less the time of "
    "reading the counter. max is the LOAT, the longest observed allocation time."
)
RUNS_NOTE = (
    "wall: the best and the median whole replay, waiting for other threads included. peak: resident memory above the "
    "runner's own, median; ideal: what the program asked for at most. faults: page faults, minor and major. calls: "
    "system calls for memory. misses: requests that rtmalloc's profile did not cover. no memory: requests that failed."
)
TERMINAL = ("mean", "p50", "p99", "p99.9", "p99.99", "max")
SHOWN_IF_THEY_DIFFER = ("status", "no_memory", "misses", "major_faults")
Cycles = Mapping[str, NDArray[np.uint32]]


def terminal_table(title: str, frame: pd.DataFrame) -> Table:
    table = Table(title=title, title_justify="left")
    for place, name in enumerate(frame.columns):
        table.add_column(str(name).replace("_", " "), justify="left" if place == 0 else "right")
    for row in frame.itertuples(index=False):
        style = "bold cyan" if str(row[0]).startswith(RTMALLOC) else None
        table.add_row(*(cell_of(value).text for value in row), style=style)
    return table


def terminal_tables(plan: Plan, results: Sequence[Replayed], cycles: Cycles) -> list[Table]:
    runs = run_table(plan, list(results))
    hidden = {name for name in SHOWN_IF_THEY_DIFFER if name in runs and runs[name].nunique() < 2}
    hidden |= {"version", "wall_ms_median"}
    tables = [terminal_table("Whole replays", runs.drop(columns=[*hidden], errors="ignore"))]
    costs = cost_table(plan, cycles)
    for operation in (ALLOCATE, RELEASE):
        chosen = costs[costs["operation"] == operation] if len(costs) else costs
        if len(chosen):
            title = f"{operation}: cycles of {int(chosen['calls'].iloc[0]):,} calls, voted over the runs"
            tables.append(terminal_table(title, chosen[["allocator", *TERMINAL]]))
    return tables


def write_replay(
    out: Path, plan: Plan, results: Sequence[Replayed], cycles: Cycles, environment: Mapping[str, object]
) -> tuple[list[PageTable], dict[str, str]]:
    """runs.csv, costs.csv, operations.csv, live.csv, environment.json; the page's tables and figures."""
    runs, costs = run_table(plan, list(results)), cost_table(plan, cycles)
    runs.to_csv(out / "replays.csv", index=False, float_format="%.4f")
    costs.to_csv(out / "costs.csv", index=False, float_format="%.2f")
    operation_rows(plan, cycles).to_csv(out / "operations.csv", index=False, float_format="%.3f")
    seconds = plan.live_ticks / plan.ticks_per_second
    each = max(1, len(plan.live) // 100_000)
    live = pd.DataFrame({"time_s": seconds[::each], "live_bytes": plan.live[::each]})
    live.to_csv(out / "live.csv", index=False, float_format="%.9f")
    (out / "environment.json").write_text(json.dumps(environment, indent=2, default=str) + "\n")
    tables = [table_of("Whole replays", runs, RUNS_NOTE)]
    if len(costs):
        tables.append(table_of("Cycles of one operation", costs, WHAT_IT_IS))
    return tables, make_figures(plan, cycles)


def write_replay_page(
    out: Path,
    trace: Path,
    plan: Plan,
    results: Sequence[Replayed],
    cycles: Cycles,
    absent: Sequence[str],
    environment: Mapping[str, object],
) -> Path:
    tables, figures = write_replay(out, plan, results, cycles, environment)
    failures = [f"{one.allocator}: {one.status}" for one in results if one.status != "ok"]
    return write_page(
        out / "page.html",
        title=f"Replay of {trace.name}",
        summary=[plan.summary],
        data="replays.csv, costs.csv, operations.csv and live.csv",
        tables=tables,
        figures=figures,
        failures=[*failures, *absent],
        failures_title="Failed, or not there",
        environment=environment,
    )
