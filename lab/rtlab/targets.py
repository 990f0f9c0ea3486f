"""The targets that rtmalloc is held to, and whether a measurement meets them."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from rtlab.catalogue import RTMALLOC, SECURE, SECURE_ALL, is_own
from rtlab.ratios import failures, geometric_means, ratios


@dataclass(frozen=True)
class Target:
    text: str
    column: str
    reference: str
    limit: float
    of: str  # "mean": the geometric mean over entries, "worst": the largest single one
    name: str = RTMALLOC  # of the allocator that is held to it


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
    column = ratios(runs, target.column, target.reference)[target.name]
    known = column.dropna()
    if known.empty:
        return Verdict(target, None, False if own_failures else None, "no entry ran on both")
    value = float(geometric_means(known.to_frame())[target.name] if target.of == "mean" else known.max())
    remark = f"{len(known)} of {len(column)} entries" if target.of == "mean" else str(known.idxmax())
    if own_failures:
        remark += f"; {target.name} failed {', '.join(own_failures)}"
    return Verdict(target, value, value <= target.limit and not own_failures, remark)


def judge_all(runs: pd.DataFrame) -> list[Verdict]:
    """The secure build's targets only where it was measured."""
    measured = set(runs["allocator"])
    return [judge(runs, target) for target in (*TARGETS, *(t for t in SECURE_TARGETS if t.name in measured))]
