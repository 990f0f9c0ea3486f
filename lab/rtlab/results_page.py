"""`rtlab results`: one Markdown page of what `rtlab paper` and `rtlab bench` have measured, for the documents."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console

from rtlab.mistakes import Mistake
from rtlab.page import number
from rtlab.papers.definitions import PAPERS
from rtlab.papers.report import titles
from rtlab.papers.rt_mimalloc import NAME
from rtlab.papers.rt_mimalloc_tables import TITLES
from rtlab.places import Places
from rtlab.report_command import BENCH, RUNS, ratio_tables, targets_of

CELLS, ENVIRONMENT = "cells.csv", "environment.json"
# What a paper's folder may hold beside its cells, each a table of its own.
MORE = {
    "steps.csv": "Steps of TLSF",
    "ranges.csv": "F of TLSF over ranges of sizes, %",
    "parts.csv": "F of rtmalloc, %",
}
ROWS_MOST = 40
HEAD = """# Results

Made by `{command}`: do not edit. Where a value was published, it stands in brackets behind ours.
"""


@dataclass(frozen=True)
class Section:
    title: str
    environment: dict[str, object]
    tables: list[tuple[str, pd.DataFrame]]


def as_text(value: object) -> str:
    if isinstance(value, float):
        return number(value, 2 if abs(value) < 10 else 1 if abs(value) < 1000 else 0)
    return str(value)


def markdown(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return "\n".join(lines + ["| " + " | ".join(as_text(value) for value in row) + " |" for row in rows])


def beside(cell: pd.Series) -> str:
    published = "" if pd.isna(cell["published"]) else f" ({as_text(float(cell['published']))})"
    return as_text(float(cell["measured"])) + published


def averages(cells: pd.DataFrame) -> pd.DataFrame:
    """One row an operation and allocator, one column a load; averages, or where there are none what there is."""
    if "mean" in set(cells["statistic"]):
        cells = cells[cells["statistic"] == "mean"]
    cells = cells.assign(text=[beside(cell) for _, cell in cells.iterrows()])
    rows = ["operation", "allocator"] + (["statistic"] if cells["statistic"].nunique() > 1 else [])
    return (
        cells.pivot_table(index=rows, columns="load", values="text", aggfunc="first", sort=False)
        .fillna("X")
        .reset_index()
    )


def title_of(paper: str, table: str) -> str:
    known = titles(PAPERS[paper]) if paper in PAPERS else TITLES
    return known.get(table, f"Table {table}").partition(";")[0]


def in_short(rows: pd.DataFrame) -> pd.DataFrame:
    """What many rows hold between them; `from` and `to` tell them apart and have no average."""
    figures = rows.drop(columns=["from", "to"], errors="ignore").describe()
    return figures.loc[["count", "mean", "min", "max"]].reset_index(names="")


def paper_section(folder: Path) -> Section:
    environment = json.loads((folder / ENVIRONMENT).read_text())
    paper = next(word for word in environment["command"] if word in (*PAPERS, NAME))
    cells = pd.read_csv(folder / CELLS, dtype={"table": str})
    tables = [(title_of(paper, table), averages(group)) for table, group in cells.groupby("table", sort=False)]
    for name, title in MORE.items():
        if (folder / name).is_file():
            rows = pd.read_csv(folder / name, dtype={"paper": str, "here": str})
            tables.append((title, rows if len(rows) <= ROWS_MOST else in_short(rows)))
    return Section(f"rtlab paper {paper}", environment, tables)


def bench_section(folder: Path) -> Section:
    runs = pd.read_csv(folder / RUNS)
    environment = json.loads((folder / BENCH).read_text())["environment"]
    pages = [targets_of(runs), *ratio_tables(runs)]
    tables = [
        (page.title, pd.DataFrame([[c.text for c in row] for row in page.rows], columns=page.headings))
        for page in pages
    ]
    return Section("rtlab bench", environment, tables)


def section_of(folder: Path) -> Section:
    if (folder / CELLS).is_file() and (folder / ENVIRONMENT).is_file():
        return paper_section(folder)
    if (folder / BENCH).is_file() and (folder / RUNS).is_file():
        return bench_section(folder)
    raise Mistake(
        f"{folder}: holds no results of rtlab paper (2006, 2008, rt-mimalloc) or rtlab bench. Give folders that one of "
        "them wrote, or none for those in build/."
    )


def made_by(environment: dict) -> str:
    memory, load = environment["memory"], ", ".join(f"{value:.2f}" for value in environment["load_before"])
    return (
        f"`{shlex.join(environment['command'])}` on {environment['date']}: {environment['cpu']}, {environment['cpus']} "
        f"processors, {memory}, {environment['kernel']}, {environment['system']}; load before: {load}."
    )


def page_of(sections: Sequence[Section], command: str) -> str:
    text = [HEAD.format(command=command)]
    for section in sections:
        text.append(f"## {section.title}\n\n{made_by(section.environment)}\n")
        for title, table in section.tables:
            text.append(f"### {title}\n\n{markdown([str(c) for c in table.columns], table.values.tolist())}\n")
    return "\n".join(text)


def default_folders(places: Places) -> list[Path]:
    papers = sorted(path.parent for path in (places.build / "paper-tables").glob(f"*/{CELLS}"))
    return [*papers, *([places.bench] if (places.bench / BENCH).is_file() else [])]


def results(places: Places, folders: Sequence[Path], out: Path, console: Console) -> int:
    chosen = [folder.resolve() for folder in folders] or default_folders(places)
    if not chosen:
        raise Mistake("Nothing was measured yet: run 'rtlab paper 2008' or 'rtlab bench' first.")
    given = "".join(f" {folder}" for folder in folders)
    text = page_of([section_of(folder) for folder in chosen], f"rtlab results{given} --out {out}")
    try:
        out.write_text(text)
    except OSError as failure:
        raise Mistake(f"Cannot write {out}: {failure.strerror}. Give another file with --out.") from None
    console.print(f"Page: {out}", soft_wrap=True)
    return 0
