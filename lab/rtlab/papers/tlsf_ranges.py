"""F of TLSF for requests of every range from one power of two to a larger one (2008, conclusions).

'This has included all possible combinations of power of 2 subranges in a wide block-size spectrum. This evaluation
shows that worst-case fragmentation is lower than 30%, while average values are around 15%.'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import pandas as pd

from rtlab.page import Cell, PageTable, number
from rtlab.papers.loads import Natives

POWERS = range(5, 21)  # 32 bytes to 1 MiB; below 32 a block's header and rounding alone take more
MALLOCS, AREA = 30_000, 3 << 30
WORST, AVERAGE = 30.0, 15.0
TITLE = "Conclusions: F of TLSF in %, requests uniform in a range of powers of two (average and worst of the seeds)"
COLUMNS = ["from", "to", "average", "worst", "live_mib"]


def range_jobs(natives: Natives, seeds: int) -> Iterator[tuple[str, Callable[[], pd.DataFrame]]]:
    for least, most in combinations(POWERS, 2):

        def job(least=least, most=most) -> pd.DataFrame:
            profile = f"sizes-{least}-{most}"
            options = {"mallocs": MALLOCS, "area": AREA}
            runs = [
                natives.run("taskset", "tlsf", "space", profile, seed=1 + i, **options).iloc[-1] for i in range(seeds)
            ]
            return pd.DataFrame(runs).assign(**{"from": 1 << least, "to": 1 << most})

        yield f"F, {1 << least} to {1 << most} bytes", job


def summarize(runs: pd.DataFrame) -> pd.DataFrame:
    """COLUMNS, one row a range; F in percent."""
    if runs.empty:
        return pd.DataFrame(columns=COLUMNS)
    runs = runs.assign(f=100.0 * (runs["reached"] / runs["peak_live"] - 1.0))
    found = runs.groupby(["from", "to"], as_index=False).agg(
        average=("f", "mean"), worst=("f", "max"), live_mib=("peak_live", lambda live: live.mean() / 2**20)
    )
    return found[COLUMNS]


def in_words(ranges: pd.DataFrame) -> str:
    return (
        f"F of TLSF over {len(ranges)} ranges of sizes: {ranges['average'].mean():.1f} % on average "
        f"(paper: around {AVERAGE:g}), {ranges['worst'].max():.1f} % at worst (paper: below {WORST:g})."
    )


def ranges_table(ranges: pd.DataFrame) -> PageTable:
    rows = [
        [
            *(Cell(str(int(row[0]))), Cell(str(int(row[1]))), Cell(number(row[2], 1))),
            Cell(number(row[3], 1), "within" if row[3] < WORST else "beyond"),
            Cell(number(row[4], 2)),
        ]
        for row in ranges.itertuples(index=False)
    ]
    return PageTable(TITLE, ["from, bytes", "to, bytes", "average", "worst", "peak live, MiB"], rows)
