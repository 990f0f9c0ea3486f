"""How results look on the terminal. Everything here turns data into a rich table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from rich.table import Table

from rtlab.catalogue import RTMALLOC
from rtlab.entries import Absent
from rtlab.page import PageTable
from rtlab.peers import PeerState
from rtlab.ratios import failures, geometric_means, medians, ratios
from rtlab.targets import Verdict

MEAN_ROW = "geometric mean"


def reason_in_short(reason: str) -> str:
    """The first line, which names the cause; the rest is a tool's output."""
    return reason.splitlines()[0][:160]


def peers_table(states: Sequence[PeerState]) -> Table:
    table = Table(title="Allocators to compare with, in build/peers/NAME.so", title_justify="left")
    for heading in ("name", "version", "from", "state"):
        table.add_column(heading, overflow="fold")
    for state in states:
        verdict = f"[red]missing: {reason_in_short(state.reason)}" if state.reason else "[green]ready"
        table.add_row(state.name, state.version, state.origin, verdict)
    return table


def heading(name: str) -> str:
    return f"[bold cyan]{name}[/]" if name == RTMALLOC else name


def in_colour(ratio: float) -> str:
    colour = "green" if ratio <= 1.0 else "yellow" if ratio <= 1.15 else "red"
    return f"[{colour}]{ratio:.2f}[/]"


def short_failure(status: str) -> str:
    return f"[red]{status}[/]"


def entry_table(title: str, entries: Sequence[str], allocators: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", show_lines=False)
    table.add_column("entry", no_wrap=True)
    for name in allocators:
        table.add_column(heading(name), justify="right")
    return table


def medians_table(runs: pd.DataFrame, column: str, title: str) -> Table:
    """One row per entry: each allocator's median and half the width of its interval in percent."""
    entries, allocators = list(dict.fromkeys(runs["entry"])), list(dict.fromkeys(runs["allocator"]))
    figures = medians(runs).set_index(["entry", "allocator"])
    failed = failures(runs)
    table = entry_table(title, entries, allocators)

    def cell(entry: str, name: str) -> str:
        key = (entry, name)
        if key in failed.index:
            return short_failure(failed[key])
        if key not in figures.index:
            return "-"
        row = figures.loc[key]
        value = f"{row[column]:.{2 if row[column] < 100 else 0}f}"
        if row["runs"] < 2:  # no interval from one run
            return value
        half = (row[f"{column}_high"] - row[f"{column}_low"]) / 2 / max(row[column], 1e-9)
        return f"{value} [dim]±{half:.0%}[/]"

    for entry in entries:
        table.add_row(entry, *(cell(entry, name) for name in allocators))
    return table


def ratio_table(runs: pd.DataFrame, column: str, reference: str, title: str) -> Table:
    """One row per entry: each allocator's ratio to the reference; below 1 is better than the reference."""
    figures = ratios(runs, column, reference)
    failed = failures(runs)
    allocators = list(figures.columns)
    table = entry_table(f"{title} / {reference} (below 1 is better)", list(figures.index), allocators)

    def cell(entry: str, name: str) -> str:
        if (entry, name) in failed.index:
            return short_failure(failed[(entry, name)])
        value = figures.loc[entry, name]
        return "-" if pd.isna(value) else in_colour(value)

    for entry in figures.index:
        table.add_row(entry, *(cell(entry, name) for name in allocators))
    means = geometric_means(figures)
    table.add_section()
    table.add_row(f"[bold]{MEAN_ROW}", *("-" if pd.isna(mean) else in_colour(mean) for mean in means))
    table.add_row("[dim]entries in it", *(f"[dim]{count}" for count in figures.count()))
    return table


def targets_table(verdicts: Sequence[Verdict]) -> Table:
    table = Table(title="Targets of rtmalloc", title_justify="left")
    for name in ("target", "against", "at most", "measured", "verdict", "remark"):
        table.add_column(name)
    words = {True: "[green]pass", False: "[red]FAIL", None: "[yellow]not measured"}
    for verdict in verdicts:
        target = verdict.target
        value = "-" if verdict.value is None else f"{verdict.value:.3f}"
        table.add_row(
            target.text,
            target.reference,
            f"{target.limit:.2f}",
            value,
            words[verdict.met],
            verdict.remark,
        )
    return table


def absent_lines(absent: Sequence[Absent]) -> list[str]:
    return [f"[yellow]Left out: {item.name}: {reason_in_short(item.reason)}" for item in absent]


def on_terminal(page: PageTable) -> Table:
    """A page's table, which has rows, for the terminal; columns of names to the left."""
    out = Table(title=page.title, title_justify="left")
    for heading, first in zip(page.headings, page.rows[0], strict=True):
        name = first.kind == "name"
        out.add_column(heading, justify="left" if name else "right", no_wrap=name)
    for row in page.rows:
        out.add_row(*(cell.text for cell in row))
    return out
