"""What probe.so found in one process: see lab/native/probe.c."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(frozen=True)
class Probed:
    allocations: int
    frees: int
    longest_us: float
    p9999_us: float
    shortest_us: float
    mean_us: float
    variance_us2: float
    overhead_us: float  # of two readings of the counter, part of each allocation's time


FIGURES = tuple(field.name for field in fields(Probed))


def read_probe(file: Path) -> Probed | None:
    """None if the process ended before its exit handlers (a crash), so that there is no report."""
    try:
        data = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return Probed(**{name: data[name] for name in FIGURES})


def vote(reports: Iterable[Probed | None]) -> Probed | None:
    """The papers' voting: the same work several times, and of each figure the smallest.

    What only one run saw (the system took the processor away) is not the allocator's doing.
    """
    known = [report for report in reports if report is not None]
    if not known:
        return None
    return Probed(**{name: min(getattr(report, name) for report in known) for name in FIGURES})
