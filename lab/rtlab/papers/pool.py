"""`rtlab paper pool`: the pool paper's test (Shen, Hamal, Ganzenmüller 2011, section 4.3) and its figures 7 and 8.

A high-priority thread's acquisitions while another thread hammers the heap: every source on every heap, in interleaved
rounds, whose histograms are added.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from rtlab.environment import describe
from rtlab.mistakes import Mistake, choose
from rtlab.page import Cell, PageTable, write_page
from rtlab.papers.pool_latency import MANY, NOTHING, POOLS, SOURCES, Seen, cases_of, measured, program
from rtlab.places import Places
from rtlab.svg import as_svg, grid_of, new_figure
from rtlab.tables import on_terminal
from rtlab.traces.contenders import ALGORITHMS, NAMES, TALLOC, choose_contenders

NAME = "pool"
TITLE = "Dynamic memory on real-time Linux (Shen, Hamal, Ganzenmüller 2011), section 4.3"
LEFT_OUT = {*ALGORITHMS, TALLOC} - {"tlsf"}
HEAPS = tuple(name for name in NAMES if name not in LEFT_OUT)
PEAK_LIVE = 64 << 20  # of the noise: at most 1000 blocks, of 32 KiB on average
SHORT, FULL, ROUNDS, MOST_IN_A_PROCESS = 10_000_000, 1_000_000_000, 10, 100_000_000
# Section 4.3, in microseconds: 90 %, 99.999 %, longest.
PUBLISHED = {"pool": ("5", "10", "60"), "malloc": ("80 to 900", "80 to 900", "no limit")}


@dataclass(frozen=True)
class Plan:
    heaps: str | None
    sources: str | None
    full: bool
    rounds: int | None
    count: int | None
    out: Path | None


# ---- figures of one histogram; a bucket counts as its end ----


def percentile(histogram: pd.DataFrame, column: str, percent: float) -> int:
    reached = histogram[column].cumsum()
    return int(histogram["cycles_to"].iloc[int(np.searchsorted(reached, percent / 100 * reached.iloc[-1]))])


def longest(histogram: pd.DataFrame, column: str) -> int:
    return int(histogram.loc[histogram[column] > 0, "cycles_to"].max())


def mean(histogram: pd.DataFrame, column: str) -> float:
    middle = (histogram["cycles_from"] + histogram["cycles_to"]) / 2
    return float((middle * histogram[column]).sum() / histogram[column].sum())


def share_up_to(histogram: pd.DataFrame, column: str, cycles: int) -> float:
    return float(100 * histogram.loc[histogram["cycles_to"] <= cycles, column].sum() / histogram[column].sum())


def row_of(seen: Seen) -> dict[str, object]:
    case, histogram = seen.case, seen.histogram
    row: dict[str, object] = {"source": case.source, "heap": case.heap.name, "held": case.held, "title": case.title}
    for column in ("voted", "all"):
        row[f"{column}_mean"] = round(mean(histogram, column), 2)
        for percent in (50, 90, 99, 99.99, 99.999):
            row[f"{column}_{percent}"] = percentile(histogram, column, percent)
        row[f"{column}_longest"] = longest(histogram, column)
        row[f"{column}_within_twice_the_median"] = share_up_to(histogram, column, 2 * percentile(histogram, column, 50))
    return {**row, "acquisitions": int(histogram["voted"].sum()), "cycles_per_us": seen.cycles_per_us}


# ---- what is said of them ----


def verdicts(rows: pd.DataFrame) -> list[str]:
    """The three aims: each with what does not reach it."""
    said = []
    for row in rows[rows["source"].isin(POOLS)].to_dict("records"):
        reached, median = row["voted_99.999"], row["voted_50"]
        word = "within" if reached <= 2 * median else "beyond"
        said.append(f"{row['title']}: 99.999 % after voting take {reached} cycles; median {median}: {word} twice that.")

    def compare(ours: str, theirs: str, column: str, words: str) -> None:
        many = rows[rows["held"] == MANY]
        mine, heaps = many[many["source"] == ours], many[many["source"] == theirs]
        if mine.empty or heaps.empty:
            return
        value = mine[column].iloc[0]
        shorter = heaps.loc[heaps[column] <= value, "heap"]
        but = f" (not {', '.join(shorter)})" if len(shorter) else ""
        said.append(f"{words}: {value:,.0f} cycles, below {len(heaps) - len(shorter)} of {len(heaps)} heaps{but}.")

    compare("pool", "malloc", "all_99.999", "Thread-local pool, 99.999 % without voting")
    compare("pool", "malloc", "all_longest", "Thread-local pool, longest without voting")
    compare("shared_ptr", "make_shared", "voted_99.999", "RtSharedPtr made, 99.999 % after voting")
    compare("shared_ptr", "make_shared", "voted_mean", "RtSharedPtr made, mean after voting")
    floor = rows[rows["source"] == NOTHING]
    if not floor.empty:
        row = floor.iloc[0]
        said.append(
            f"The machine's part: the timer alone takes {row['voted_50']} cycles, and without voting 99.999 % up to "
            f"{row['all_99.999']:,}, longest {row['all_longest']:,}."
        )
    return said


COLUMNS = (
    ("voted: mean", "voted_mean", "{:.1f}"),
    ("median", "voted_50", "{:,}"),
    ("99.999 %", "voted_99.999", "{:,}"),
    ("longest", "voted_longest", "{:,}"),
    ("within twice the median, %", "voted_within_twice_the_median", "{:.4f}"),
    ("all: 99.99 %", "all_99.99", "{:,}"),
    ("99.999 %", "all_99.999", "{:,}"),
    ("longest", "all_longest", "{:,}"),
)


def cycles_table(rows: pd.DataFrame, names: list[str], failures: dict[str, str]) -> PageTable:
    headings = ["source", *(heading for heading, _, _ in COLUMNS)]
    by_title = rows.set_index("title")
    table = []
    for name in names:
        if name in failures:
            table.append([Cell(name, "name"), Cell(failures[name], "beyond"), *[Cell("-")] * (len(COLUMNS) - 1)])
        else:
            cells = [Cell(form.format(by_title.loc[name, column])) for _, column, form in COLUMNS]
            table.append([Cell(name, "name"), *cells])
    note = (
        "Bursts of up to 1000 acquisitions where nothing else is said. Voted: of each acquisition the fastest of "
        "5 runs. All: each time, with the machine's interrupts."
    )
    return PageTable("Cycles of one acquisition", headings, table, note)


def published_table(rows: pd.DataFrame) -> PageTable:
    headings = ["source", "90 % within, µs", "paper", "99.999 % within, µs", "paper", "longest, µs", "paper"]
    table = []
    for row in rows[rows["source"].isin([*POOLS, "malloc"])].to_dict("records"):
        case = PUBLISHED["malloc" if row["source"] == "malloc" else "pool"]
        cells = [Cell(str(row["title"]), "name")]
        for column, published in zip(("all_90", "all_99.999", "all_longest"), case, strict=True):
            taken = row[column] / row["cycles_per_us"]
            cells += [Cell(f"{taken:,.0f}" if taken >= 100 else f"{taken:.3g}"), Cell(published)]
        table.append(cells)
    note = "Without voting, as in the paper. Its machine: Atom N270, Linux 3.0-rt3, glibc 2.11."
    return PageTable("Figures 7 and 8: test cases A (pool) and B (heap), beside the paper", headings, table, note)


def bars(seen: list[Seen]) -> str:
    """Figures 7 and 8: how many acquisitions took so long, all of them and the voted ones."""
    figure, axes = grid_of([one.case.title for one in seen])
    ends = [one.histogram["cycles_to"].iloc[[0, -1]] / one.cycles_per_us for one in seen]
    edges = np.geomspace(min(end.iloc[0] for end in ends), max(end.iloc[1] for end in ends) * 1.01, 120)
    for one in seen:
        own, times = axes[one.case.title], one.histogram["cycles_to"] / one.cycles_per_us
        for column, colour in (("all", "tab:orange"), ("voted", "tab:blue")):
            own.hist(times, bins=edges, weights=one.histogram[column], color=colour, label=column, alpha=0.8)
        own.set(title=one.case.title, xscale="log", yscale="log", xlabel="µs", ylabel="acquisitions")
    axes[seen[0].case.title].legend(fontsize=7)
    return as_svg(figure)


def tails(seen: list[Seen]) -> str:
    figure, axes = new_figure("µs", "share that takes longer")
    for one in seen:
        voted = one.histogram[one.histogram["voted"] > 0]
        left = 1 - voted["voted"].cumsum() / voted["voted"].sum()
        shown = left > 0.5 / voted["voted"].sum()
        axes.plot(voted["cycles_to"][shown] / one.cycles_per_us, left[shown], label=one.case.title)
    axes.set(xscale="log", yscale="log")
    axes.legend(fontsize=7, ncols=2)
    return as_svg(figure)


def make_figures(seen: list[Seen]) -> dict[str, str]:
    def of(*sources: str) -> list[Seen]:
        return [one for one in seen if one.case.source in sources]

    wanted = {
        "Figure 7: acquisition from the pool": (bars, of(*POOLS)),
        "Figure 8: allocation from the heap": (bars, of("malloc")),
        "std::make_shared on each heap": (bars, of("make_shared")),
        "How many take longer, after voting": (tails, of("pool", "malloc")),
    }
    return {title: draw(chosen) for title, (draw, chosen) in wanted.items() if chosen}


# ---- the command ----


def rounds_of(plan: Plan) -> tuple[int, int]:
    """Rounds, and acquisitions of a process in each."""
    total = plan.count or (FULL if plan.full else SHORT)
    rounds = plan.rounds or max(ROUNDS, total // MOST_IN_A_PROCESS)
    return rounds, max(1, total // rounds)


def run_pool(places: Places, plan: Plan, console: Console) -> int:
    sources = choose("source", plan.sources, SOURCES, SOURCES)
    names = None if plan.heaps is None else choose("allocator", plan.heaps, HEAPS, HEAPS)
    heaps, missing = choose_contenders(places, names, PEAK_LIVE)
    heaps = [heap for heap in heaps if heap.name in HEAPS]
    for line in [line for line in missing if line.split()[0] in HEAPS]:
        console.print(f"[yellow]{line} Its rows are left out.")
    latency = program(places)
    rounds, count = rounds_of(plan)
    cases = list(cases_of(sources, heaps))
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=len(cases) * (rounds + 1))
        seen, failures = measured(
            latency, cases, count, rounds, lambda text: bar.update(task, description=text, advance=1)
        )
    if not seen:
        raise Mistake("Nothing was measured: " + "; ".join(f"{title}: {why}" for title, why in failures.items()))
    out = (plan.out or places.build / "paper-tables" / NAME).resolve()
    out.mkdir(parents=True, exist_ok=True)
    rows = pd.DataFrame([row_of(one) for one in seen])
    rows.to_csv(out / "cells.csv", index=False)
    histograms = pd.concat([one.histogram.assign(title=one.case.title) for one in seen])
    histograms.to_csv(out / "histograms.csv", index=False)
    environment = describe(heaps, {"plan": str(plan), "rounds": rounds, "acquisitions in a round": count, "runs": 5})
    (out / "environment.json").write_text(json.dumps(environment, indent=2, default=str) + "\n")
    made = (cycles_table(rows, [case.title for case in cases], failures), published_table(rows))
    tables = [table for table in made if table.rows]
    for table in tables:
        console.print(on_terminal(table))
    said = verdicts(rows)
    for line in said:
        console.print(line, soft_wrap=True)
    page = write_page(
        out / "page.html",
        title=TITLE,
        summary=said,
        data="cells.csv and histograms.csv",
        tables=tables,
        figures=make_figures(seen),
        failures=[f"{title}: {why}" for title, why in failures.items()],
        failures_title="Did not run",
        environment=environment,
    )
    console.print(f"Page, with the figures: {page}", soft_wrap=True)
    return 0
