"""RT-Mimalloc's Tables IV and VI to X: our cells beside the published ones."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from rtlab.page import Cell, PageTable, number
from rtlab.papers.rt_mimalloc_variants import REFERENCE

NAME = "rt-mimalloc"
# Tables I and VII, II and VIII, IX, X: which benchmarks, by our names.
REAL_WORLD = ("cfrac", "espresso", "redis", "larson_sized", "larson", "ghostscript", "lua")
STRESS = (
    *("alloc_test1", "alloc_testN", "glibc_simple", "glibc_thread", "sh6bench", "sh8bench"),
    *("xmalloc_test", "cache_scratch1", "cache_scratchN", "db_bench"),
)


def benchmark_cells(runs: pd.DataFrame) -> pd.DataFrame:
    """Ratios to the reference in the same round, their median over the rounds; table VII to X by benchmark."""
    keys = ["load", "round"]
    runs = runs.rename(columns={"entry": "load", "time_s": "time", "peak_mib": "memory"})
    reference = runs[runs["allocator"] == REFERENCE].set_index(keys)[["time", "memory"]].add_suffix("_reference")
    joined = runs.join(reference, on=keys)
    cells = []
    for (load, allocator), group in joined.groupby(["load", "allocator"], sort=False):
        tables = ("VII", "IX") if load in REAL_WORLD else ("VIII", "X")
        for operation, table in zip(("time", "memory"), tables, strict=True):
            ratio = (group[operation] / group[f"{operation}_reference"]).median()
            key = {"table": table, "operation": operation, "allocator": allocator, "load": load}
            cells.append({**key, "statistic": "ratio", "measured": ratio})
    return pd.DataFrame(cells)


def published() -> pd.DataFrame:
    """The paper's values; those of time and memory as ratios to its Mimalloc. I and II, VII and VIII share rows."""
    values = pd.read_csv(Path(__file__).with_name(f"{NAME}.csv")).rename(columns={"value": "published"})
    values["table"] = values["table"].replace({"I": "VII", "II": "VIII"})
    values = values.drop_duplicates(["table", "operation", "allocator", "load", "statistic"])
    timed = values["operation"].isin(["time", "memory"])
    keys = ["table", "load"]
    reference = values[timed & (values["allocator"] == REFERENCE)].set_index(keys)["published"].rename("reference")
    ratios = values[timed].join(reference, on=keys)
    ratios["published"] = ratios["published"] / ratios["reference"]
    ratios["statistic"] = "ratio"
    return pd.concat([values[~timed], ratios.drop(columns="reference")], ignore_index=True)


def beside_published(cells: pd.DataFrame) -> pd.DataFrame:
    """Adds published and difference in percent."""
    joined = cells.merge(published(), how="left", on=["table", "operation", "allocator", "load", "statistic"])
    joined["difference"] = 100.0 * (joined["measured"] / joined["published"] - 1.0)
    return joined


TITLES = {
    "IV": "Table IV: instructions of each function, original; here (published)",
    "VI": "Table VI: instructions of each function; here (published)",
    "VII": "Tables I and VII: time, ratio to mimalloc 1.7; here (published)",
    "VIII": "Tables II and VIII: time, ratio to mimalloc 1.7; here (published)",
    "IX": "Table IX: peak memory, ratio to mimalloc 1.7; here (published)",
    "X": "Table X: peak memory, ratio to mimalloc 1.7; here (published)",
}


def page_table(cells: pd.DataFrame, table: str) -> PageTable:
    """One row a function and allocator (IV, VI), or an allocator; the columns are statistics, or benchmarks."""
    chosen = cells[cells["table"] == table]
    counted = table in ("IV", "VI")
    column, names = ("statistic", ["operation", "allocator"]) if counted else ("load", ["allocator"])
    columns = list(dict.fromkeys(chosen[column]))
    rows = []
    for key, group in chosen.groupby(names, sort=False):
        row = [Cell(str(name), "name") for name in key]
        for heading in columns:
            found = group[group[column] == heading]
            digits = 2 if not counted or heading in ("mean", "variance") else 0
            text = "X" if found.empty else number(found["measured"].iloc[0], digits)
            known = not found.empty and found["published"].notna().iloc[0]
            row.append(Cell(f"{text} ({number(found['published'].iloc[0], digits)})" if known else text))
        rows.append(row)
    return PageTable(TITLES[table], [*(["function"] if counted else []), "allocator", *columns], rows)
