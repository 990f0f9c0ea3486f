"""The comparison as a terminal table, CSV files, SVG files and one self-contained HTML page."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
from rich.table import Table

from rtlab.page import Cell, PageTable, number, write_page
from rtlab.papers.definitions import Paper
from rtlab.papers.measures import Measured
from rtlab.papers.memory_parts import parts_table
from rtlab.papers.tlsf_ranges import in_words, ranges_table
from rtlab.papers.tlsf_steps import COLUMNS, TITLE, steps_table

DOCS = "docs/paper-tables.md says why cells differ."


def kind_of(within: object) -> str:
    return "" if within is None or within is pd.NA or within != within else "within" if within else "beyond"


def titles(paper: Paper) -> dict[str, str]:
    return {
        paper.worst: f"{paper.worst}: instructions, worst or bad case; difference in %",
        paper.instructions: f"Table {paper.instructions}: instructions; difference in %",
        paper.cycles: f"Table {paper.cycles}: cycles, on this machine; difference in %",
        paper.fragmentation: f"Table {paper.fragmentation}: F in %; difference in points",
    }


def verdict(cells: pd.DataFrame) -> str:
    judged = cells["within"].dropna()
    return f"{int(judged.sum())} of {len(judged)} averages are within their tolerance. {DOCS}"


def summary_of(cells: pd.DataFrame, measured: Measured) -> list[str]:
    return [verdict(cells), *([in_words(measured.ranges)] if len(measured.ranges) else [])]


def in_short(cell: pd.Series, colours: dict[str, str]) -> str:
    """The three figures of a cell; those of large counts without digits behind the point."""
    digits = 0 if cell["measured"] >= 1000 else 1
    difference = "-" if pd.isna(cell["difference"]) else f"{cell['difference']:+.1f}"
    colour = colours[kind_of(cell["within"])]
    return f"{number(cell['measured'], digits)} {number(cell['published'], digits):>6} [{colour}]{difference:>6}[/]"


def mean_table(paper: Paper, cells: pd.DataFrame, table: str) -> Table:
    """For the terminal: of each load the average, the published one, the difference."""
    chosen = cells[(cells["table"] == table) & cells["statistic"].isin(["mean", "max"])]
    wanted = "max" if table == paper.worst else "mean"
    chosen = chosen[chosen["statistic"] == wanted]
    out = Table(title=titles(paper)[table], title_justify="left")
    out.add_column("allocator", no_wrap=True)
    out.add_column("operation", no_wrap=True)
    loads = list(dict.fromkeys(chosen["load"]))
    for load in loads:
        out.add_column(f"{load.removeprefix(paper.name).strip('-')}:\nhere, paper, difference", justify="right")
    colours = {"within": "green", "beyond": "red", "": "default"}
    for (operation, allocator), group in chosen.groupby(["operation", "allocator"], sort=False):
        row = [allocator, operation]
        for load in loads:
            found = group[group["load"] == load]
            row.append("X" if found.empty else in_short(found.iloc[0], colours))
        out.add_row(*row)
    return out


def terminal_steps(measured: Measured) -> Table:
    out = Table(*COLUMNS, title=TITLE, title_justify="left")
    for row in measured.steps.astype(str).values:
        out.add_row(*row)
    return out


def page_table(paper: Paper, cells: pd.DataFrame, table: str) -> PageTable:
    """For the page: every cell, one a row."""
    chosen = cells[cells["table"] == table]
    headings = ["operation", "allocator", "load", "statistic", "here", "paper", "difference", "tolerance"]
    rows = []
    for cell in chosen.itertuples():
        names = [Cell(str(getattr(cell, name)), "name") for name in headings[:4]]
        values = [Cell(number(cell.measured, 2)), Cell(number(cell.published, 2))]
        values.append(Cell(number(cell.difference, 1), kind_of(cell.within)))
        rows.append([*names, *values, Cell(number(cell.tolerance, 1))])
    return PageTable(titles(paper)[table], headings, rows)


def scaling_table(measured: Measured) -> PageTable:
    """2006, Table 1: how the worst case grows when the area is doubled."""
    rows = []
    for (allocator, operation), group in measured.scaling.groupby(["allocator", "operation"], sort=False):
        counts = group.sort_values("blocks")["instructions"].tolist()
        rows.append([Cell(allocator, "name"), Cell(operation, "name"), *(Cell(str(count)) for count in counts)])
    blocks = sorted(measured.scaling["blocks"].unique()) if len(measured.scaling) else []
    heading = [f"{count} blocks" for count in blocks]
    return PageTable("Table 1 by scaling: instructions of the worst case", ["allocator", "operation", *heading], rows)


def write_report(
    out: Path,
    paper: Paper,
    cells: pd.DataFrame,
    measured: Measured,
    figures: dict[str, str],
    environment: dict[str, object],
) -> Path:
    """cells, runs, sweep, scaling, steps, ranges, parts as CSV, environment.json, one SVG a figure, and page.html."""
    out.mkdir(parents=True, exist_ok=True)
    cells.to_csv(out / "cells.csv", index=False, float_format="%.4f")
    measured.spaces.to_csv(out / "runs.csv", index=False, float_format="%.4f")
    measured.sweep.to_csv(out / "sweep.csv", index=False, float_format="%.4f")
    measured.scaling.to_csv(out / "scaling.csv", index=False)
    measured.over_time.to_csv(out / "over-time.csv", index=False)
    (out / "environment.json").write_text(json.dumps(environment, indent=2, default=str) + "\n")
    tables = [page_table(paper, cells, table) for table in titles(paper) if table in set(cells["table"])]
    if len(measured.steps):
        measured.steps.to_csv(out / "steps.csv", index=False)
        tables.append(steps_table(measured.steps))
    if len(measured.ranges):
        measured.ranges.to_csv(out / "ranges.csv", index=False, float_format="%.4f")
        tables.append(ranges_table(measured.ranges))
    if len(measured.parts):
        measured.parts.to_csv(out / "parts.csv", index=False, float_format="%.4f")
        tables.append(parts_table(measured.parts))
    if len(measured.scaling):
        tables.append(scaling_table(measured))
    return write_page(
        out / "page.html",
        title=paper.title,
        summary=summary_of(cells, measured),
        data="cells.csv",
        tables=tables,
        figures=figures,
        failures=measured.failures,
        environment=environment,
    )
