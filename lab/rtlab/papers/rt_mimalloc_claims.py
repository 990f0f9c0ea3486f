"""What the text of RT-Mimalloc says about its Figures 2, 9 and 10, held against our times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from rtlab.page import Cell, PageTable
from rtlab.papers.rt_mimalloc_times import SYNTHETIC
from rtlab.papers.rt_mimalloc_variants import BARE, GENERAL_PURPOSE, PAG, PREPARED, REFERENCE, SEG, TLSF, UNPREPARED
from rtlab.traces.contenders import TALLOC

SIMILAR = (0.8, 1.25)
ABOUT_AS = (0.5, 2.0)
MUCH_LESS = (0.0, 0.5)
LESS = (0.0, 1.0)
MORE = (1.0, math.inf)
# Figure 2 leaves glibc, Hoard and rpmalloc out.
FIGURE_2 = tuple(name for name in GENERAL_PURPOSE if name not in ("glibc", "hoard", "rpmalloc"))
LOCKED_AND_THREADED = ("alloc_testN", "cache_scratchN")
TALLOC_IS_LONGER = ("espresso", "glibc_simple")


@dataclass(frozen=True)
class Claim:
    """A statistic of each on the left, divided by that of each on the right, lies within the bounds."""

    figure: str
    text: str
    statistic: str  # of times.csv
    pairs: tuple[tuple[str, str], ...]
    bounds: tuple[float, float]
    only: tuple[str, ...] = ()  # these loads
    but: tuple[str, ...] = ()  # not these


def each(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((one, other) for one in left for other in right)


WITH_AND_WITHOUT = tuple((name + BARE, name) for name in PREPARED)
CLAIMS = (
    Claim("2", "TLSF's times vary less", "deviation", each((TLSF,), FIGURE_2), LESS),
    Claim("2", "TLSF's longest is shorter", "max", each((TLSF,), FIGURE_2), LESS),
    Claim("2", "TLSF is slower on average", "mean", each((TLSF,), FIGURE_2), MORE),
    Claim(
        "9", "seg's and pag's longest is much shorter than Mimalloc's", "max", each(PREPARED, (REFERENCE,)), MUCH_LESS
    ),
    Claim("9", "seg's and pag's longest is about TLSF's", "max", each(PREPARED, (TLSF,)), ABOUT_AS),
    Claim("9", "seg's and pag's average is about Mimalloc's", "mean", each(PREPARED, (REFERENCE,)), SIMILAR),
    Claim("9", "without a profile the longest is longer", "max", WITH_AND_WITHOUT, MORE),
    Claim("9", "without a profile the average stays", "mean", WITH_AND_WITHOUT, SIMILAR),
    Claim("10", "seg's and pag's shortest is Mimalloc's", "min", each(PREPARED, (REFERENCE,)), SIMILAR),
    Claim("10", "the shortest is much shorter than TLSF's", "min", each(PREPARED, (TLSF,)), MUCH_LESS),
    Claim("10", "seg's and pag's average is about Mimalloc's", "mean", each(PREPARED, (REFERENCE,)), SIMILAR),
    Claim("10", "TLSF is much slower on average", "mean", each(PREPARED, (TLSF,)), MUCH_LESS),
    Claim("10", "the deviation is less than Mimalloc's", "deviation", each(PREPARED, (REFERENCE,)), LESS),
    Claim("10", "the longest is shorter than Mimalloc's", "max", each(PREPARED, (REFERENCE,)), LESS),
    Claim("10", "pag's longest is shorter than seg's", "max", ((PAG, SEG),), LESS),
    Claim(
        "10",
        "with threads, pag's longest is much shorter than TLSF's",
        "max",
        ((PAG, TLSF),),
        MUCH_LESS,
        LOCKED_AND_THREADED,
    ),
    Claim("10", "Talloc's average is longer than seg's and pag's", "mean", each((TALLOC,), PREPARED), MORE),
    Claim("10", "Talloc's shortest is longer than seg's and pag's", "min", each((TALLOC,), PREPARED), MORE),
    Claim("10", "Talloc's longest is pag's or longer", "max", ((TALLOC, PAG),), MORE),
    Claim(
        "10", "Talloc's longest is shorter than Mimalloc's", "max", ((TALLOC, REFERENCE),), LESS, (), TALLOC_IS_LONGER
    ),
    Claim("10", "but longer in espresso and glibc-simple", "max", ((TALLOC, REFERENCE),), MORE, TALLOC_IS_LONGER),
    Claim("10", "without a profile the longest is longer", "max", WITH_AND_WITHOUT, MORE),
    Claim("10", "without a profile the longest is longer than TLSF's", "max", each(UNPREPARED, (TLSF,)), MORE),
    Claim("10", "and the shortest shorter than TLSF's", "min", each(UNPREPARED, (TLSF,)), LESS),
    Claim("10", "and the average shorter than TLSF's", "mean", each(UNPREPARED, (TLSF,)), LESS),
)
TLSF_LONGEST_NS = 600  # Figure 2, on the paper's machine


def ratios(claim: Claim, times: pd.DataFrame) -> pd.Series:
    """By load and pair, those that were measured."""
    loads = [load for load in times["load"].unique() if (load == SYNTHETIC) == (claim.figure != "10")]
    loads = [load for load in loads if (not claim.only or load in claim.only) and load not in claim.but]
    values = times.set_index(["load", "allocator"])[claim.statistic]
    keys = [
        (load, *pair) for load in loads for pair in claim.pairs if all((load, name) in values.index for name in pair)
    ]
    return pd.Series(
        {key: values[key[0], key[1]] / values[key[0], key[2]] for key in keys if values[key[0], key[2]] > 0}
    )


def verdict_of(holding: int, of: int) -> str:
    if holding == of:
        return "holds"
    return "mostly holds" if 2 * holding > of else "does not hold"


def judged(times: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Each claim that can be looked at: how often it holds, of all comparisons, and the median ratio."""
    for claim in CLAIMS:
        found = ratios(claim, times)
        if found.empty:
            continue
        holding = int(found.between(*claim.bounds).sum())
        low, high = claim.bounds
        wanted = f"> {low:g}" if high == math.inf else f"< {high:g}" if low == 0 else f"{low:g} to {high:g}"
        yield {
            "figure": claim.figure,
            "claim": claim.text,
            "verdict": verdict_of(holding, len(found)),
            "holds in": f"{holding} of {len(found)}",
            "statistic": claim.statistic,
            "ratio wanted": wanted,
            "median ratio": float(found.median()),
        }


def claim_lines(times: pd.DataFrame) -> list[str]:
    return [
        f"Figure {row['figure']}: {row['claim']}: {row['verdict']} "
        f"({row['holds in']}; {row['statistic']}, median ratio {row['median ratio']:.3g}, wanted {row['ratio wanted']})"
        for row in judged(times)
    ]


def claims_table(times: pd.DataFrame) -> PageTable | None:
    rows = list(judged(times))
    if not rows:
        return None
    table = []
    for row in rows:
        kind = "beyond" if row["verdict"] == "does not hold" else "within"
        names = [Cell(str(row[name]), "name") for name in ("figure", "claim")]
        middle = [Cell(str(row[name])) for name in ("holds in", "statistic", "ratio wanted")]
        table.append([*names, Cell(str(row["verdict"]), kind), *middle, Cell(f"{row['median ratio']:.3g}")])
    tlsf = times[(times["load"] == SYNTHETIC) & (times["allocator"] == TLSF)]["max"]
    note = f"{sum(row['verdict'] != 'does not hold' for row in rows)} of {len(rows)} hold in most comparisons."
    if len(tlsf):
        note += (
            f" TLSF's longest on the synthetic load: {tlsf.iloc[0]:.0f} ns here; the paper: below {TLSF_LONGEST_NS}."
        )
    return PageTable("What the text says of Figures 2, 9 and 10", list(rows[0]), table, note)
