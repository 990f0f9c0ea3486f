"""RT-Mimalloc's Figures 2, 9 and 10 from our times. Their data were not published: the shape is what to look at."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rtlab.papers.rt_mimalloc_times import SYNTHETIC
from rtlab.papers.rt_mimalloc_variants import FIGURE_2, FIGURES_9_AND_10, PAG, REFERENCE, SEG, TLSF
from rtlab.svg import EMPTY, as_svg, boxes, dots, grid_of, new_figure

LEAST_NS = 1.0  # what is drawn at least: the scale is logarithmic
Cycles = Mapping[str, NDArray[np.uint32]]


def over_requests(cycles: Cycles) -> str:
    """Figure 2: one graph for each allocator."""
    names = [name for name in FIGURE_2 if name in cycles]
    if not names:
        return EMPTY
    least, most = min(cycles[name].min() for name in names), max(cycles[name].max() for name in names)
    figure, axes = grid_of(names)
    for name in names:
        dots(axes[name], cycles[name])
        axes[name].set(title=name, ylim=(max(1, least / 2), 2 * most), xlabel="allocation request", ylabel="cycles")
    return as_svg(figure)


def beside_longest(cycles: Cycles, name: str) -> str:
    """Figure 9 (a), (b): one allocator's requests, and the longest of two others as lines."""
    if name not in cycles:
        return EMPTY
    figure, axes = new_figure("allocation request", "cycles")
    dots(axes, cycles[name], label=name)
    for other, colour in ((REFERENCE, "tab:red"), (TLSF, "tab:green")):
        if other in cycles:
            axes.axhline(cycles[other].max(), color=colour, label=f"longest of {other}")
    axes.legend(fontsize=8)
    return as_svg(figure)


def of_loads(times: pd.DataFrame, loads: list[str]) -> str:
    """Figure 9 (c) and 10: shortest, average, deviation and longest of each allocator; one graph for each load."""
    times = times[times["allocator"].isin(FIGURES_9_AND_10)]
    loads = [load for load in loads if load in set(times["load"])]
    if not loads:
        return EMPTY
    figure, axes = grid_of(loads, height=3.4) if len(loads) > 1 else new_figure("", "")
    for load in loads:
        own = axes[load] if len(loads) > 1 else axes
        rows = times[times["load"] == load].drop(columns="load").set_index("allocator")
        boxes(own, rows.loc[[name for name in FIGURES_9_AND_10 if name in rows.index]].clip(lower=LEAST_NS))
        own.set(title=load, xscale="log", xlabel="ns")
    return as_svg(figure)


def make_figures(cycles: Cycles, times: pd.DataFrame) -> dict[str, str]:
    """Title -> SVG, of what was measured."""
    benchmarks = [load for load in times["load"].unique() if load != SYNTHETIC]
    made = {}
    if cycles:
        made["Figure 2: cycles of each allocation of the synthetic load"] = over_requests(cycles)
        made["Figure 9 (a): RT-Mimalloc-seg, beside the longest of Mimalloc and TLSF"] = beside_longest(cycles, SEG)
        made["Figure 9 (b): RT-Mimalloc-pag, beside the longest of Mimalloc and TLSF"] = beside_longest(cycles, PAG)
        made["Figure 9 (c): shortest, average and deviation, longest"] = of_loads(times, [SYNTHETIC])
    if benchmarks:
        made["Figure 10: allocation times inside the benchmarks"] = of_loads(times, benchmarks)
    return made
