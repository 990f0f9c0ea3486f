"""Writes what a benchmark found: runs.csv grows during the runs, the rest is written at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from rtlab.catalogue import RTMALLOC, is_own
from rtlab.entries import Absent
from rtlab.ratios import failures, geometric_means, medians, ratios
from rtlab.rounds import Record
from rtlab.targets import judge_all

REFERENCES = ("mimalloc-1.7", "snmalloc")


def references_of(runs: pd.DataFrame) -> list[str]:
    """What ratios are held against: the references that were measured; rtmalloc where none was, or a variant of it."""
    measured = set(runs["allocator"])
    peers = [name for name in REFERENCES if name in measured]
    variants = any(is_own(name) for name in measured - {RTMALLOC})
    return [*peers, RTMALLOC] if RTMALLOC in measured and (variants or not peers) else peers


def to_frame(records: Sequence[Record]) -> pd.DataFrame:
    return pd.DataFrame([asdict(record) for record in records], columns=list(Record.__annotations__))


def without_gaps(table: pd.DataFrame) -> dict[str, dict[str, float]]:
    """{row: {column: value}} without the missing ones, which JSON has no number for."""
    return {str(row): values.dropna().to_dict() for row, values in table.iterrows()}


def summary(runs: pd.DataFrame) -> dict[str, object]:
    by_reference = {}
    for reference in references_of(runs):
        for column in ("time_s", "peak_mib"):
            table = ratios(runs, column, reference)
            by_reference[f"{column} / {reference}"] = {
                "entries": without_gaps(table),
                "geometric_mean": geometric_means(table).dropna().to_dict(),
            }
    return {
        "failures": [
            {"entry": entry, "allocator": name, "status": status} for (entry, name), status in failures(runs).items()
        ],
        "ratios": by_reference,
        "targets": [
            {
                **asdict(verdict.target),
                "value": verdict.value,
                "met": verdict.met,
                "remark": verdict.remark,
            }
            for verdict in judge_all(runs)
        ],
    }


def write_results(
    folder: Path,
    runs: pd.DataFrame,
    environment: dict[str, object],
    absent: Sequence[Absent],
    complete: bool,
) -> list[Path]:
    """medians.csv, ratios.csv and bench.json; `runs` with wrong output already marked."""
    figures = medians(runs)
    figures.to_csv(folder / "medians.csv", index=False)
    runs.to_csv(folder / "runs.csv", index=False)
    tables = [
        ratios(runs, column, reference).stack().rename("ratio").reset_index().assign(of=column, reference=reference)
        for reference in references_of(runs)
        for column in ("time_s", "peak_mib")
    ]
    pd.concat(tables or [pd.DataFrame()]).to_csv(folder / "ratios.csv", index=False)
    document = {
        "complete": complete,
        "environment": environment,
        "left_out": [asdict(item) for item in absent],
        "medians": json.loads(figures.to_json(orient="records")),
        **summary(runs),
    }
    (folder / "bench.json").write_text(json.dumps(document, indent=2, default=str) + "\n")
    return [folder / name for name in ("bench.json", "medians.csv", "ratios.csv", "runs.csv")]
