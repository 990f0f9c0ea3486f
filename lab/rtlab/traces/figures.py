"""Figures of a replay: what was live, how long operations took."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rtlab.svg import EMPTY, as_svg, grid_of, new_figure
from rtlab.traces.plan import Plan
from rtlab.traces.statistics import ALLOCATE, RELEASE, groups

POINTS = 400
TAILS = np.array([0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6])
Cycles = Mapping[str, NDArray[np.uint32]]


def live_over_time(plan: Plan) -> str:
    if not len(plan.live):
        return EMPTY
    figure, axes = new_figure("seconds since the program began to allocate", "MiB asked for and not freed")
    each = max(1, len(plan.live) // (4 * POINTS))
    times = (plan.live_ticks - plan.live_ticks[0]) / plan.ticks_per_second
    axes.plot(times[::each], plan.live[::each] / 2**20, drawstyle="steps-post", linewidth=1)
    return as_svg(figure)


def tail(plan: Plan, cycles: Cycles, group: str) -> str:
    """The share of calls that took longer than the value: the tail that a mean hides."""
    chosen = groups(plan).get(group)
    if chosen is None or not cycles:
        return EMPTY
    figure, axes = new_figure("share of calls that took longer", "cycles")
    shares = TAILS[TAILS * chosen.sum() >= 1]
    for name, values in cycles.items():
        points = [*np.quantile(values[chosen], 1 - shares), values[chosen].max()]
        axes.plot([*shares, 1 / chosen.sum()], np.maximum(points, 1), "o-", markersize=3, label=name)
    axes.set(xscale="log", yscale="log")
    axes.invert_xaxis()
    axes.legend(fontsize=7, ncols=2)
    return as_svg(figure)


def over_time(plan: Plan, cycles: Cycles, group: str) -> str:
    """For each allocator: the longest and the median call in each slice of the trace."""
    chosen = groups(plan).get(group)
    if chosen is None or not cycles:
        return EMPTY
    rows = np.flatnonzero(chosen)
    rows = rows[np.argsort(plan.ticks[rows], kind="stable")]
    slices = np.array_split(rows, min(POINTS, len(rows)))
    figure, axes = grid_of(list(cycles))
    for name, values in cycles.items():
        axes[name].plot([max(1, int(values[part].max())) for part in slices], linewidth=0.8, label="longest")
        axes[name].plot([max(1, float(np.median(values[part]))) for part in slices], linewidth=0.8, label="median")
        axes[name].set(
            title=name, yscale="log", ylabel="cycles", xlabel=f"{len(rows):,} calls in {len(slices)} slices of time"
        )
    next(iter(axes.values())).legend(fontsize=7)
    return as_svg(figure)


def distribution(plan: Plan, cycles: Cycles, group: str) -> str:
    chosen = groups(plan).get(group)
    if chosen is None or not cycles:
        return EMPTY
    figure, axes = grid_of(list(cycles))
    most = max(int(values[chosen].max()) for values in cycles.values())
    bars = np.geomspace(1, max(2, most), 80)
    for name, values in cycles.items():
        axes[name].hist(np.maximum(values[chosen], 1), bins=bars)
        axes[name].set(title=name, xscale="log", yscale="log", xlabel="cycles", ylabel="calls")
    return as_svg(figure)


def make_figures(plan: Plan, cycles: Cycles) -> dict[str, str]:
    made = {"Live memory of the program": live_over_time(plan)}
    for group, word in ((ALLOCATE, "allocations"), (RELEASE, "frees")):
        made[f"Latency of {word}: how many take longer than so many cycles"] = tail(plan, cycles, group)
    made["Latency of allocations over time"] = over_time(plan, cycles, ALLOCATE)
    made["Distribution of allocations"] = distribution(plan, cycles, ALLOCATE)
    made["Distribution of frees"] = distribution(plan, cycles, RELEASE)
    return made
