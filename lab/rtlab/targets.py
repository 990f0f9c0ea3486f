"""The targets that rtmalloc is held to, and whether a measurement meets them."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from rtlab.catalogue import BARE, MODES, RECORDING, RTMALLOC, SECURE, SECURE_ALL, is_own
from rtlab.loads import LOADS
from rtlab.ratios import failures, geometric_means, ratios


@dataclass(frozen=True)
class Target:
    text: str
    column: str
    reference: str
    limit: float
    of: str  # "mean": the geometric mean over entries, "worst": the largest single one
    name: str = RTMALLOC  # of the allocator that is held to it
    free_mib: float = 0.0  # of its memory, what does not count
    racing_limit: float | None = None  # of entries whose threads race


TARGETS = (
    Target("time, geometric mean", "time_s", "mimalloc-1.7", 1.00, "mean"),
    Target("time, geometric mean", "time_s", "snmalloc", 1.00, "mean"),
    Target("time, worst single entry", "time_s", "mimalloc-1.7", 1.15, "worst"),
    Target("peak memory, geometric mean", "peak_mib", "mimalloc-1.7", 0.95, "mean"),
    Target("peak memory, worst single entry", "peak_mib", "mimalloc-1.7", 1.25, "worst"),
)
SECURE_TARGETS = (
    Target("time of the secure build, geometric mean", "time_s", RTMALLOC, 1.03, "mean", SECURE),
    Target("peak memory of the secure build, geometric mean", "peak_mib", RTMALLOC, 1.15, "mean", SECURE),
    Target("time with all features, geometric mean", "time_s", RTMALLOC, 1.10, "mean", SECURE_ALL),
    Target("peak memory with all features, geometric mean", "peak_mib", RTMALLOC, 1.15, "mean", SECURE_ALL),
)
SEG, PAG = MODES
REAL_TIME_TARGETS = (
    *(Target(f"time of {name}, geometric mean", "time_s", RTMALLOC, 1.03, "mean", name) for name in (SEG, PAG)),
    *(
        Target(f"time of {name}{BARE}, geometric mean", "time_s", name, 1.03, "mean", name + BARE)
        for name in (SEG, PAG)
    ),
    Target("peak memory of seg less 1 MiB, worst", "peak_mib", RTMALLOC, 1.5, "worst", SEG, 1.0),
    Target(
        "peak memory of pag less 1 MiB, worst (3.00 where threads race)",
        "peak_mib",
        RTMALLOC,
        2.0,
        "worst",
        PAG,
        1.0,
        3.0,
    ),
    Target("time while a profile is recorded, geometric mean", "time_s", RTMALLOC, 1.02, "mean", RECORDING),
)
RACING = {*(load.entry for load in LOADS if load.threads == "all"), "db_bench", "java", "node"}


@dataclass(frozen=True)
class Verdict:
    target: Target
    value: float | None
    met: bool | None  # None: could not be measured
    remark: str


def judge(runs: pd.DataFrame, target: Target) -> Verdict:
    """A failure of the allocator fails each of its targets: an allocator that crashes is not fast."""
    for name in (target.name, target.reference):
        if name not in set(runs["allocator"]):
            command = "make" if is_own(name) else "rtlab peers"
            return Verdict(target, None, None, f"{name} was not measured ('{command}' gets it)")
    own_failures = [entry for entry, name in failures(runs).index if name == target.name]
    counted = runs.copy()
    counted.loc[counted["allocator"] == target.name, target.column] -= target.free_mib
    column = ratios(counted, target.column, target.reference)[target.name]
    known = column.dropna()
    if known.empty:
        return Verdict(target, None, False if own_failures else None, "no entry ran on both")
    if target.of == "mean":
        value, limit = float(geometric_means(known.to_frame())[target.name]), target.limit
        remark = f"{len(known)} of {len(column)} entries"
    else:
        limits = pd.Series({entry: limit_of(target, str(entry)) for entry in known.index})
        worst = (known / limits).idxmax()
        value, limit, remark = float(known[worst]), float(limits[worst]), str(worst)
        if limit != target.limit:
            remark += f", where at most {limit:.2f}"
        beyond = [f"{entry} {known[entry]:.2f}" for entry in known.index if known[entry] > limits[entry]]
        if len(beyond) > 1:
            remark = "; ".join(beyond)
    if own_failures:
        remark += f"; {target.name} failed {', '.join(own_failures)}"
    return Verdict(target, value, value <= limit and not own_failures, remark)


def limit_of(target: Target, entry: str) -> float:
    return target.racing_limit if target.racing_limit is not None and entry in RACING else target.limit


def judge_all(runs: pd.DataFrame) -> list[Verdict]:
    """Those of the secure build and of the real-time modes only where they were measured."""
    measured = set(runs["allocator"])
    more = (*SECURE_TARGETS, *REAL_TIME_TARGETS)
    return [judge(runs, target) for target in (*TARGETS, *(target for target in more if target.name in measured))]
