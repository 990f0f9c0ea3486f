"""From cycles to figures: statistics of each kind of operation, of each allocator."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rtlab.traces.plan import KINDS, Plan
from rtlab.traces.replaying import Replayed

PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "p99.99": 99.99}
ALLOCATE, RELEASE = "allocate", "free"
MOST_ROWS = 300_000  # of operations.csv; above, every n-th operation


def groups(plan: Plan) -> dict[str, NDArray[np.bool_]]:
    """Name -> which operations: all allocations, all frees, then each kind that occurs."""
    kind = plan.operations["kind"]
    names = {ALLOCATE: kind != 4, RELEASE: kind == 4, "free, other thread's": plan.remote}
    names |= {name: kind == number for number, name in KINDS.items() if name != "free"}
    return {name: chosen for name, chosen in names.items() if chosen.any()}


def statistics(values: NDArray[np.uint32]) -> dict[str, float]:
    figures = {"calls": float(len(values)), "min": float(values.min()), "mean": float(values.mean())}
    figures["deviation"] = float(values.std())
    figures |= {name: float(np.percentile(values, share)) for name, share in PERCENTILES.items()}
    return figures | {"max": float(values.max())}


def cost_table(plan: Plan, cycles: Mapping[str, NDArray[np.uint32]]) -> pd.DataFrame:
    """One row for each allocator and kind of operation, in cycles."""
    rows = [
        {"allocator": allocator, "operation": name, **statistics(values[chosen])}
        for allocator, values in cycles.items()
        for name, chosen in groups(plan).items()
    ]
    return pd.DataFrame(rows)


def run_table(plan: Plan, results: list[Replayed]) -> pd.DataFrame:
    """One row for each allocator: whole replays."""
    rows = []
    for one in results:
        row: dict[str, object] = {"allocator": one.allocator, "version": one.version, "status": one.status}
        if one.wall_s:
            row |= {
                "wall_ms": min(one.wall_s) * 1e3,
                "wall_ms_median": float(np.median(one.wall_s)) * 1e3,
                "peak_mib": float(np.median(one.peak_mib)),
                "ideal_mib": plan.peak_live / 2**20,
                "faults": int(np.median(one.minor_faults)),
                "major_faults": int(np.median(one.major_faults)),
                "calls": sum(one.calls.values()) if one.calls is not None else None,
                "misses": one.misses,
                "no_memory": one.failures,
            }
        rows.append(row)
    return pd.DataFrame(rows)


def operation_rows(plan: Plan, cycles: Mapping[str, NDArray[np.uint32]]) -> pd.DataFrame:
    """The raw data: every operation (or every n-th) in the order of the trace, with each allocator's cycles."""
    order = np.argsort(plan.ticks, kind="stable")
    chosen = order[:: max(1, -(-len(order) // MOST_ROWS))]
    names = np.array(["", *KINDS.values()])
    table = {
        "time_us": plan.ticks[chosen] / plan.ticks_per_second * 1e6,
        "thread": plan.thread[chosen],
        "operation": names[plan.operations["kind"][chosen]],
        "size": plan.operations["size"][chosen],
    }
    return pd.DataFrame(table | {name: values[chosen] for name, values in cycles.items()})
