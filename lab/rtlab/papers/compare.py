"""Measured cells beside published ones, and which of them differ by more than the tolerance."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from rtlab.papers.definitions import F_POINTS, INSTRUCTIONS_PERCENT, STAND_INS, Paper

KEY = ["table", "operation", "allocator", "load", "statistic"]


def published(paper: Paper) -> pd.DataFrame:
    return pd.read_csv(Path(__file__).with_name(f"{paper.name}.csv"), dtype={"table": str})


def tolerance(paper: Paper, cell: pd.Series) -> float | None:
    """Points of F, or percent of instructions; only averages have one."""
    if cell["statistic"] != "mean":
        return None
    if cell["table"] == paper.fragmentation:
        return paper.f_points.get(cell["allocator"], F_POINTS)
    return INSTRUCTIONS_PERCENT if cell["table"] == paper.instructions else None


def compare(paper: Paper, measured: pd.DataFrame) -> pd.DataFrame:
    """Columns: KEY, published, measured, difference (points of F, else percent), tolerance, within (or NA)."""
    values = published(paper).rename(columns={"value": "published"})
    cells = measured.assign(of=measured["allocator"].replace(STAND_INS))
    on = [("of" if name == "allocator" else name) for name in KEY]
    cells = cells.merge(values, how="left", left_on=on, right_on=KEY, suffixes=("", "_published"))
    points = cells["table"] == paper.fragmentation
    relative = 100.0 * (cells["measured"] / cells["published"] - 1.0)
    cells["difference"] = (cells["measured"] - cells["published"]).where(points, relative)
    cells["tolerance"] = pd.to_numeric(cells.apply(lambda cell: tolerance(paper, cell), axis=1))
    known = cells["tolerance"].notna() & cells["difference"].notna()
    cells["within"] = (cells["difference"].abs() <= cells["tolerance"]).where(known)
    return cells[[*KEY, "published", "measured", "difference", "tolerance", "within"]]
