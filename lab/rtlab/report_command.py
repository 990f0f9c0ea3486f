"""`rtlab report FOLDER`: the page of a run made again from its raw data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from rtlab.mistakes import Mistake
from rtlab.page import PageTable, table_of, write_page
from rtlab.places import Places
from rtlab.ratios import failures, geometric_means, good_runs, medians, ratios
from rtlab.results import references_of
from rtlab.svg import as_svg, new_figure
from rtlab.targets import judge_all

BENCH, RUNS = "bench.json", "runs.csv"
MEASURES = {"time_s": "Time", "peak_mib": "Peak memory"}


def ratio_tables(runs: pd.DataFrame) -> list[PageTable]:
    made = []
    for reference in references_of(runs):
        for column, word in MEASURES.items():
            table = ratios(runs, column, reference)
            if not table.isna().all().all():
                table.loc["geometric mean"] = geometric_means(table)
                made.append(table_of(f"{word} / {reference}, below 1 is better", table.reset_index()))
    return made


def targets_of(runs: pd.DataFrame) -> PageTable:
    words = {True: "pass", False: "FAIL", None: "not measured"}
    rows = [
        (v.target.text, v.target.reference, v.target.limit, v.value, words[v.met], v.remark) for v in judge_all(runs)
    ]
    columns = ["target", "against", "at_most", "measured", "verdict", "remark"]
    return table_of("Targets of rtmalloc", pd.DataFrame(rows, columns=columns))


def bars(runs: pd.DataFrame, column: str, reference: str) -> str:
    """Each entry's ratios to the reference, on a log scale: half is as far from 1 as twice."""
    table = ratios(runs, column, reference)
    figure, axes = new_figure(f"ratio to {reference}", "")
    figure.set_figheight(1.5 + 0.28 * len(table))
    height = 0.8 / len(table.columns)
    for place, name in enumerate(table.columns):
        axes.plot(table[name], np.arange(len(table)) + (place + 0.5) * height - 0.4, "o", markersize=4, label=name)
    axes.set_yticks(range(len(table)), table.index)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.legend(fontsize=7, ncols=2)
    return as_svg(figure)


def over_rounds(runs: pd.DataFrame) -> str:
    """Each run's time over its entry's median: a drift of the machine shows as a slope common to all."""
    good = good_runs(runs)
    figure, axes = new_figure("round", "time / median of the same entry and allocator")
    relative = good["time_s"] / good.groupby(["entry", "allocator"])["time_s"].transform("median")
    for name, group in good.assign(relative=relative).groupby("allocator", sort=False):
        middle = group.groupby("round")["relative"].median()
        axes.plot(middle.index, middle, "o-", markersize=3, label=name)
    axes.legend(fontsize=7, ncols=2)
    return as_svg(figure)


def write_bench_page(folder: Path) -> Path:
    """From bench.json and runs.csv."""
    document = json.loads((folder / BENCH).read_text())
    runs = pd.read_csv(folder / RUNS)
    failed = [f"{entry} on {name}: {status}" for (entry, name), status in failures(runs).items()]
    figures = {"Runs over the rounds": over_rounds(runs)}
    for reference in references_of(runs):
        for column, word in MEASURES.items():
            figures[f"{word} / {reference}"] = bars(runs, column, reference)
    columns = ["entry", "allocator", "time_s", "time_s_low", "time_s_high", "user_s", "system_s", "peak_mib", "runs"]
    note = "Seconds and MiB; low and high are the 95 % interval of the median."
    entries, rounds = runs["entry"].nunique(), runs["round"].nunique()
    return write_page(
        folder / "page.html",
        title="Time and memory of programs on each allocator",
        summary=[f"{entries} loads and programs, {runs['allocator'].nunique()} allocators, {rounds} rounds."],
        data="medians.csv, ratios.csv and runs.csv",
        tables=[targets_of(runs), *ratio_tables(runs), table_of("Medians", medians(runs)[columns], note)],
        figures=figures,
        failures=[*failed, *(f"{item['name']}: {item['reason']}" for item in document["left_out"])],
        failures_title="Failed, or left out",
        environment=document["environment"],
    )


def report(places: Places, folder: Path | None, console: Console) -> int:
    folder = (folder or places.bench).resolve()
    if (folder / BENCH).is_file():
        page = write_bench_page(folder)
    elif (folder / "replays.csv").is_file():
        from rtlab.traces.again import write_page_again  # imports the trace reader

        page = write_page_again(folder)
    else:
        raise Mistake(
            f"{folder}: holds no results of rtlab bench, replay or compare. Give the folder that one of them wrote "
            "(--out, or build/bench, build/replays/NAME, build/compare/NAME)."
        )
    console.print(f"Page, with CSV files beside it: {page}", soft_wrap=True)
    return 0
