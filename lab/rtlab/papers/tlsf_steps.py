"""Instructions of each step of TLSF's malloc and free (2008, Tables I and II), counted by stepcount.

The program taskset-steps has them as functions of their own. A count includes the return, and what the function calls.
"""

from __future__ import annotations

import pandas as pd

from rtlab.page import Cell, PageTable
from rtlab.papers.loads import Natives

# Small blocks and large ones: below 128 bytes a list has one size.
LOADS = ("2006-table-4", "2008-profile-1")
MALLOCS, SAMPLE, AREA = 20_000, 20, 64 << 20

# Table, the paper's name of the step, its function in algorithms/tlsf.c, the published counts.
STEPS = (
    ("I", "mapping_search", "mapping_search", (11, 21)),
    ("I", "find_suitable_block", "find_suitable_block", (20, 29)),
    ("I", "remove_head", "remove_head", (17, 21, 24)),
    ("I", "split", "split", (6,)),
    ("I", "mapping_insert", "mapping_insert", (10, 15)),
    ("I", "insert_block", "insert_block", (22, 24)),
    ("II", "prev_physical", "previous_physical", (1,)),
    ("II", "mapping_insert", "mapping_insert", (6, 11)),
    ("II", "remove_block", "remove_block", (19, 21, 23, 27, 29, 36, 38, 39)),
    ("II", "insert_block", "insert_block", (22, 23)),
)
COLUMNS = ["table", "step", "paper", "here", "calls"]
TITLE = "Tables I and II: instructions of each step of TLSF, one count for each way through it"


def count_steps(natives: Natives) -> pd.DataFrame:
    """COLUMNS; `paper` and `here` are the counts that occur, rising, with spaces between."""
    options = {"seed": 1, "mallocs": MALLOCS, "sample": SAMPLE, "area": AREA}
    calls = pd.concat([natives.functions("taskset-steps", "tlsf", load, **options) for load in LOADS])
    rows = []
    for table, step, function, published in STEPS:
        counts = calls.loc[calls["function"] == function, "instructions"]
        measured = sorted(counts.unique())
        rows.append((table, step, " ".join(map(str, published)), " ".join(map(str, measured)), len(counts)))
    return pd.DataFrame(rows, columns=COLUMNS)


def steps_table(steps: pd.DataFrame) -> PageTable:
    kinds = ("name", "name", "", "", "")
    rows = [[Cell(str(value), kind) for value, kind in zip(row, kinds, strict=True)] for row in steps.values]
    return PageTable(TITLE, COLUMNS, rows)
