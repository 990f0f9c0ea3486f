"""rtmalloc's F beside TLSF's as live memory grows, and what it consists of: the loads of 2008, with each request made
so many times over."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd
from rich.table import Table

from rtlab.catalogue import MODES, RTMALLOC
from rtlab.page import Cell, PageTable, number
from rtlab.papers.loads import Natives

COPIES = (1, 8, 32)
AREA = 2 << 30
MALLOCS_LEAST, MALLOCS_A_COPY = 100_000, 20_000
LIVE_LEAST, MORE_MOST = 16.0, 5.0  # MiB of live memory from which on F is at most so many points above TLSF's
TITLE = "F of rtmalloc and of TLSF in %, and in points what it consists of"
COLUMNS = ["load", "live_mib", "tlsf", "rtmalloc", "more", "rounding", "open_pages", "tables", "reserve", *MODES]
HEADINGS = [
    "load",
    "live, MiB",
    "TLSF",
    "rtmalloc",
    "more",
    "rounding",
    "open pages",
    "tables",
    "reserve",
    "seg",
    "pag",
]


def part_jobs(natives: Natives, profiles: dict[str, str]) -> Iterator[tuple[str, Callable[[], pd.DataFrame]]]:
    for load, profile in profiles.items():
        for copies in COPIES:

            def job(load=load, profile=profile, copies=copies) -> pd.DataFrame:
                return pd.DataFrame([one_row(natives, load, profile, copies)], columns=COLUMNS)

            yield f"parts of F, {load}, {copies} times", job


def one_row(natives: Natives, load: str, profile: str, copies: int) -> dict[str, object]:
    """F is the papers'; the parts are at the moment at which most is in use, relative to the most live memory."""
    options = {"seed": 1, "copies": copies, "mallocs": max(MALLOCS_LEAST, MALLOCS_A_COPY * copies), "area": AREA}
    spaces = {name: natives.run("taskset", name, "space", profile, **options).iloc[-1] for name in ("tlsf", *MODES)}
    f = {name: 100.0 * (last["reached"] / last["peak_live"] - 1.0) for name, last in spaces.items()}
    parts = natives.run("taskset", RTMALLOC, "parts", profile, **options).iloc[0]
    percent = 100.0 / parts["peak_live"]
    own = (parts["in_use"] + parts["metadata"]) * percent - 100.0
    return {
        **{"load": f"{load}, {copies} times", "live_mib": parts["peak_live"] / 2**20},
        **{"tlsf": f["tlsf"], "rtmalloc": own, "more": own - f["tlsf"]},
        "rounding": (parts["usable"] - parts["live"]) * percent,
        "open_pages": (parts["in_use"] - parts["usable"]) * percent,
        "tables": parts["metadata"] * percent,
        "reserve": parts["reserve"] * percent,
        **{mode: f[mode] for mode in MODES},
    }


def is_within(row) -> bool | None:
    return None if row.live_mib < LIVE_LEAST else bool(row.more <= MORE_MOST)


def terminal_parts(parts: pd.DataFrame) -> Table:
    """Without the columns for which a terminal of 80 columns has no room; the page and the CSV have them."""
    shown = [at for at, column in enumerate(COLUMNS) if column not in ("tables", "reserve")]
    out = Table(title=TITLE, title_justify="left", padding=0)
    for at in shown:
        out.add_column(HEADINGS[at], no_wrap=at == 0, justify="left" if at == 0 else "right")
    for row in parts.itertuples(index=False):
        load = row.load.removeprefix("2008-")
        out.add_row(load, *(number(row[at], 1) for at in shown[1:]))
    return out


def parts_table(parts: pd.DataFrame) -> PageTable:
    kinds = {None: "", True: "within", False: "beyond"}
    rows = []
    for row in parts.itertuples():
        cells = [Cell(number(value, 1)) for value in row[2:]]
        cells[COLUMNS.index("more") - 1] = Cell(number(row.more, 1), kinds[is_within(row)])
        rows.append([Cell(row.load, "name"), *cells])
    return PageTable(TITLE, HEADINGS, rows)
