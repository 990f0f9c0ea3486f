"""The papers' figures as SVG, from what was measured. Their data were not published: the shape is what to look at."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from rtlab.papers.loads import Natives
from rtlab.papers.measures import Measured, Plan
from rtlab.svg import EMPTY, as_svg, grid_of, new_figure

LAST_BAR = 600


def sizes(natives: Natives, profile: str) -> str:
    """Histogram of the sizes that one task set requests."""
    asked = natives.run("taskset", "tlsf", "sizes", profile, mallocs=10_000)["bytes"]
    figure, axes = new_figure("bytes of a request", "mallocs")
    axes.hist(asked, bins=100)
    return as_svg(figure)


def memory_over_time(measured: Measured, load: str, mallocs: int) -> str:
    """Memory reached by each allocator, and what is live, over the first mallocs of one run."""
    series = measured.over_time[measured.over_time["load"] == load]
    if series.empty:
        return EMPTY
    early = series[series["mallocs"] <= max(mallocs, int(series["mallocs"].min()) * 30)]
    figure, axes = new_figure("mallocs", "KiB")
    for allocator, group in early.groupby("allocator", sort=False):
        axes.plot(group["mallocs"], group["reached"] / 1024, label=allocator)
    live = early[early["allocator"] == early["allocator"].iloc[0]]
    axes.plot(live["mallocs"], live["live"] / 1024, "k:", label="live")
    axes.legend(fontsize=8)
    return as_svg(figure)


def costs_of(measured: Measured, table: str, load: str, operation: str) -> pd.DataFrame:
    costs = measured.costs
    if costs.empty:
        return costs
    return costs[(costs["table"] == table) & (costs["load"] == load) & (costs["operation"] == operation)]


def over_calls(measured: Measured, table: str, load: str) -> str:
    """Instructions of the counted mallocs in their order."""
    chosen = costs_of(measured, table, load, "malloc")
    if chosen.empty:
        return EMPTY
    names = list(chosen["allocator"].unique())
    figure, axes = grid_of(names)
    for name in names:
        values = chosen.loc[chosen["allocator"] == name, "value"].to_numpy()[:5000]
        axes[name].plot(np.arange(len(values)), values, ".", markersize=2)
        axes[name].set(title=name, xlabel="counted malloc", ylabel="instructions")
    return as_svg(figure)


def distribution(measured: Measured, table: str, load: str, operation: str, names: list[str], unit: str) -> str:
    """Histograms; what is beyond 600 is put into the last bar, as in 2008, Figure 8."""
    chosen = costs_of(measured, table, load, operation)
    if chosen.empty:
        return EMPTY
    figure, axes = grid_of(names)
    for name in names:
        values = chosen.loc[chosen["allocator"] == name, "value"]
        axes[name].hist(values.clip(upper=LAST_BAR), bins=120)
        axes[name].set(title=f"{name}, {operation}", xlabel=unit, ylabel="calls")
    return as_svg(figure)


def sweep(measured: Measured) -> str:
    """F over the period of the deallocation task; 0 is explicit deallocation."""
    if measured.sweep.empty:
        return EMPTY
    figure, axes = new_figure("period of the deallocation task, time units", "F, %")
    for allocator, group in measured.sweep.groupby("allocator"):
        axes.plot(group["server"], group["f"], "o-", markersize=3, label=allocator)
    axes.legend(fontsize=8)
    return as_svg(figure)


def make_figures(plan: Plan, measured: Measured, natives: Natives) -> dict[str, str]:
    """Title -> SVG, or a word why there is none."""
    names = [name for name in plan.allocators if name != "half-fit-above"]
    only_tlsf = ["tlsf"] if "tlsf" in plan.allocators else []
    makers: dict[str, dict[str, Callable[[], str]]] = {
        "2006": {
            "Figure 1: sizes of the task set of Table 3": lambda: sizes(natives, "2006-table-3"),
            "Figure 3: instructions of malloc, Test 1": lambda: over_calls(measured, "6", "2006-test-1"),
            "Figure 4: memory over time, Test 3": lambda: memory_over_time(measured, "2006-test-3", 1400),
            "Figure 5: F by the period of the deallocation task, Test 4": lambda: sweep(measured),
        },
        "2008": {
            "Figure 6: instructions of TLSF's malloc": lambda: distribution(
                measured, "V", "2008-profile-3", "malloc", only_tlsf, "instructions"
            ),
            "Figure 6: instructions of TLSF's free": lambda: distribution(
                measured, "V", "2008-profile-3", "free", only_tlsf, "instructions"
            ),
            "Figure 7: sizes of the task set of Table III": lambda: sizes(natives, "2008-table-3"),
            "Figure 8: cycles of malloc, Profile 1": lambda: distribution(
                measured, "IV", "2008-profile-1", "malloc", names, "cycles"
            ),
            "Figure 9: memory over time, Profile 3": lambda: memory_over_time(measured, "2008-profile-3", 5000),
        },
    }
    return {title: make() for title, make in makers[plan.paper.name].items()}
