"""What probe.so found in one process: see lab/native/probe.c."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Probed:
    allocations: int
    frees: int
    longest_us: float
    p9999_us: float


def read_probe(file: Path) -> Probed | None:
    """None if the process ended before its exit handlers (a crash), so that there is no report."""
    try:
        data = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return Probed(data["allocations"], data["frees"], data["longest_us"], data["p9999_us"])


def vote(reports: Iterable[Probed | None]) -> Probed | None:
    """The papers' voting: the same work several times, and of each figure the smallest.

    What only one run saw (the system took the processor away) is not the allocator's doing.
    """
    known = [report for report in reports if report is not None]
    if not known:
        return None
    return Probed(
        allocations=min(report.allocations for report in known),
        frees=min(report.frees for report in known),
        longest_us=min(report.longest_us for report in known),
        p9999_us=min(report.p9999_us for report in known),
    )
