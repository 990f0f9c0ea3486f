"""One self-contained HTML page for any result: sortable tables and figures. What it says is up to the caller."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from jinja2 import Environment, FileSystemLoader


@dataclass(frozen=True)
class Cell:
    text: str
    kind: str = ""  # name: to the left; within, beyond: in colour


@dataclass(frozen=True)
class PageTable:
    title: str
    headings: list[str]
    rows: list[list[Cell]]
    note: str = ""


def number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def cell_of(value: object) -> Cell:
    """Whole numbers as they are, others with three significant digits or more; text to the left, failures in colour."""
    if isinstance(value, str):
        return Cell(value, "beyond" if value.startswith("X ") else "name")
    if value is None or value is pd.NA or value != value:
        return Cell("-")
    figure = float(str(value))
    return Cell(f"{figure:.0f}" if figure == int(figure) or abs(figure) >= 100 else f"{figure:.3g}")


def table_of(title: str, frame: pd.DataFrame, note: str = "") -> PageTable:
    rows = [[cell_of(value) for value in row] for row in frame.itertuples(index=False)]
    return PageTable(title, [str(name).replace("_", " ") for name in frame.columns], rows, note)


def write_page(
    path: Path,
    title: str,
    summary: Sequence[str],
    data: str,
    tables: Sequence[PageTable],
    figures: Mapping[str, str],
    failures: Sequence[str],
    environment: Mapping[str, object],
    failures_title: str = "Did not fit",
) -> Path:
    """`data` names the CSV files. Each figure that is one is written beside the page as well: figure-1.svg …"""
    for place, svg in enumerate(figures.values(), 1):
        if svg.startswith("<svg"):
            file = path.with_name(f"figure-{place}.svg")
            file.write_text('<?xml version="1.0" encoding="utf-8"?>\n' + svg)
    template = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True).get_template("page.html")
    page = template.render(
        title=title,
        summary=summary,
        data=data,
        tables=tables,
        figures=figures,
        failures=failures,
        failures_title=failures_title,
        environment=environment,
    )
    path.write_text(page)
    return path
