"""Figures as SVG text, the same bytes for the same data."""

from __future__ import annotations

import io

import matplotlib
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

matplotlib.rcParams["svg.hashsalt"] = "rtlab"
PIXELS_AN_INCH = 144  # of what is drawn as pixels
EMPTY = "Nothing was measured for this figure."


def as_svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.tight_layout()
    figure.savefig(text, format="svg", metadata={"Date": None}, dpi=PIXELS_AN_INCH)
    plt.close(figure)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def new_figure(x: str, y: str):
    figure, axes = plt.subplots(figsize=(8, 4.2))
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    return figure, axes


def grid_of(names: list[str], height: float = 2.6):
    rows = (len(names) + 1) // 2
    figure, axes = plt.subplots(rows, 2, figsize=(9, height * rows), squeeze=False)
    for spare in axes.flat[len(names) :]:
        spare.set_visible(False)
    return figure, dict(zip(names, axes.flat, strict=False))


def dots(axes, values: ArrayLike, label: str = "") -> None:
    """Each value in its order, on a logarithmic axis; as pixels, since thousands of them make no small SVG."""
    heights = np.maximum(values, 1)
    axes.plot(np.arange(len(heights)), heights, ".", markersize=1.5, label=label, rasterized=True)
    axes.set_yscale("log")
    axes.tick_params(labelsize=8)


def boxes(axes, rows: pd.DataFrame) -> None:
    """A row each: a line from `min` to `max`, a box of a `deviation` to both sides of `mean`, which is marked."""
    shown = [
        {
            "label": name,
            "whislo": row["min"],
            "q1": max(row["min"], row["mean"] - row["deviation"]),
            "med": row["mean"],
            "q3": min(row["max"], row["mean"] + row["deviation"]),
            "whishi": row["max"],
        }
        for name, row in rows.iterrows()
    ]
    axes.bxp(shown, orientation="horizontal", showfliers=False)
    axes.invert_yaxis()
    axes.tick_params(labelsize=7)
    axes.grid(axis="x", alpha=0.3)
