"""From single runs to figures: medians with an interval, ratios within rounds, geometric means.."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

SEED = 2008
RESAMPLES = 2000
COVERAGE = 0.95
GOOD = "ok"
WRONG = "X wrong output"


def mark_wrong_output(runs: pd.DataFrame) -> pd.DataFrame:
    """Sets the status of good runs whose output is not the entry's most frequent one."""
    marked = runs.copy()
    good = marked[marked["status"] == GOOD]
    if good.empty:
        return marked
    usual = good.groupby("entry")["output"].agg(lambda outputs: outputs.fillna("").mode().iloc[0])
    wrong = (marked["status"] == GOOD) & (marked["output"].fillna("") != marked["entry"].map(usual))
    marked.loc[wrong, "status"] = WRONG
    return marked


def failures(runs: pd.DataFrame) -> pd.Series:
    """The first failure of each (entry, allocator) that has one."""
    bad = runs[runs["status"] != GOOD]
    return bad.groupby(["entry", "allocator"], sort=False)["status"].first()


def good_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of those (entry, allocator) that never failed: the median of survivors would flatter."""
    failed = failures(runs).index
    return runs[~pd.MultiIndex.from_frame(runs[["entry", "allocator"]]).isin(failed)]


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The bootstrap interval of the median (percentile method, fixed seed)."""
    sample = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(SEED).choice(sample, size=(RESAMPLES, sample.size))
    outside = (1 - COVERAGE) / 2
    low, high = np.quantile(np.median(drawn, axis=1), [outside, 1 - outside])
    return float(low), float(high)


def medians(runs: pd.DataFrame) -> pd.DataFrame:
    """For each entry and allocator: median time with its interval, the other times and peak memory."""
    grouped = good_runs(runs).groupby(["entry", "allocator"], sort=False)
    columns = ["time_s", "wall_s", "user_s", "system_s", "peak_mib", "client_s"]
    table = grouped[columns].median()
    for column in ("time_s", "peak_mib"):
        intervals = grouped[column].apply(median_interval)
        table[f"{column}_low"] = intervals.str[0]
        table[f"{column}_high"] = intervals.str[1]
    table["runs"] = grouped.size()
    return table.reset_index()


def ratios(runs: pd.DataFrame, column: str, reference: str) -> pd.DataFrame:
    """Entries by allocators: the median over rounds of (value / the reference's value in the same round)."""
    order = list(dict.fromkeys(runs["allocator"]))
    entries = list(dict.fromkeys(runs["entry"]))
    values = good_runs(runs).pivot(index=["entry", "round"], columns="allocator", values=column)
    if reference not in values:
        return pd.DataFrame(index=pd.Index(entries, name="entry"), columns=order, dtype=float)
    within = values.div(values[reference], axis=0)
    return within.groupby(level="entry").median().reindex(index=entries, columns=order)


def geometric_means(table: pd.DataFrame) -> pd.Series:
    """Of each column, over the entries that have a value."""
    return np.exp(np.log(table).mean())
