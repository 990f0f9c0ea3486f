"""Figures as SVG text, the same bytes for the same data."""

from __future__ import annotations

import io

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

matplotlib.rcParams["svg.hashsalt"] = "rtlab"
EMPTY = "Nothing was measured for this figure."


def as_svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.tight_layout()
    figure.savefig(text, format="svg", metadata={"Date": None})
    plt.close(figure)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def new_figure(x: str, y: str):
    figure, axes = plt.subplots(figsize=(8, 4.2))
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    return figure, axes


def grid_of(names: list[str]):
    rows = (len(names) + 1) // 2
    figure, axes = plt.subplots(rows, 2, figsize=(9, 2.6 * rows), squeeze=False)
    for spare in axes.flat[len(names) :]:
        spare.set_visible(False)
    return figure, dict(zip(names, axes.flat, strict=False))
