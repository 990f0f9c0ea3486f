"""Which allocator suits the program: from medians of whole runs and costs of replayed operations to a ranking."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rtlab.catalogue import GLIBC
from rtlab.ratios import GOOD, median_interval
from rtlab.traces.statistics import ALLOCATE

OTHER_OUTPUT = "X other output"
MEASURES = {  # column: what it is good for
    "time_s": "speed",
    "peak_mib": "memory",
    "p99.99": "latency",
}
SCORE = "score"


def mark_other_output(runs: pd.DataFrame) -> pd.DataFrame:
    """A run that prints something else than the program always prints on its own allocator is a failure."""
    marked = runs.copy()
    usual = set(marked.loc[(marked["allocator"] == GLIBC) & (marked["status"] == GOOD), "output"])
    if len(usual) == 1:
        other = (marked["status"] == GOOD) & ~marked["output"].isin(usual)
        marked.loc[other, "status"] = OTHER_OUTPUT
    return marked


def whole_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each allocator: median time with its interval, median peak memory, the first failure."""
    rows = []
    for name, group in runs.groupby("allocator", sort=False):
        bad = group.loc[group["status"] != GOOD, "status"]
        row: dict[str, object] = {"allocator": name, "status": bad.iloc[0] if len(bad) else GOOD}
        if not len(bad):
            low, high = median_interval(group["time_s"].tolist())
            row |= {"time_s": group["time_s"].median(), "time_low": low, "time_high": high}
            row |= {"peak_mib": group["peak_mib"].median(), "runs": len(group)}
        rows.append(row)
    columns = ["allocator", "status", "time_s", "time_low", "time_high", "peak_mib", "runs"]
    return pd.DataFrame(rows).reindex(columns=columns)


def ranking(whole: pd.DataFrame, costs: pd.DataFrame) -> pd.DataFrame:
    """The allocators that ran and replayed well, best first. `score`: the geometric mean of the ratios to the best."""
    latency = costs.loc[costs["operation"] == ALLOCATE, ["allocator", "p99.99", "max"]] if len(costs) else costs
    if not len(latency):
        return pd.DataFrame(columns=["allocator", *MEASURES, "max", SCORE])
    table = whole[whole["status"] == GOOD].merge(latency, on="allocator")
    ratios = table[list(MEASURES)].clip(lower=1e-9)
    ratios = ratios / ratios.min()
    table[SCORE] = np.exp(np.log(ratios).mean(axis=1))
    return table.sort_values(SCORE, ignore_index=True)[["allocator", *MEASURES, "max", "time_low", "time_high", SCORE]]


def best_in(table: pd.DataFrame, column: str) -> pd.Series:
    return table.loc[table[column].idxmin()]


def recommend(table: pd.DataFrame) -> list[str]:
    """Sentences, each with the figures that led to it."""
    if table.empty:
        return ["No allocator ran the program and its trace to the end, so there is nothing to recommend."]
    first = table.iloc[0]
    lines = [
        f"{first['allocator']} suits this program best: score {first[SCORE]:.2f}, the geometric mean of its ratios "
        f"to the best in time ({first['time_s']:.3g} s), peak memory ({first['peak_mib']:.1f} MiB) and p99.99 of an "
        f"allocation ({first['p99.99']:.0f} cycles)."
    ]
    fastest = best_in(table, "time_s")
    equal = table[(table["time_low"] <= fastest["time_high"]) & (table["allocator"] != fastest["allocator"])]
    line = f"For speed: {fastest['allocator']}, {fastest['time_s']:.3g} s a run"
    if len(equal):
        line += f"; within the noise of these runs as fast: {', '.join(equal['allocator'])}"
    lines.append(line + ".")
    least = best_in(table, "peak_mib")
    lines.append(f"For memory: {least['allocator']}, {least['peak_mib']:.1f} MiB at most resident.")
    steady = best_in(table, "p99.99")
    lines.append(
        f"For latency: {steady['allocator']}, one allocation in 10,000 takes more than {steady['p99.99']:.0f} cycles; "
        f"shortest longest: {best_in(table, 'max')['allocator']}, {table['max'].min():.0f} cycles."
    )
    return lines
