"""The order of the runs, and doing them: entry by entry, every allocator in each round, the order rotated."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TypeVar

from rtlab.allocators import Allocator
from rtlab.entries import Entry
from rtlab.measuring import Run

Item = TypeVar("Item")


@dataclass(frozen=True)
class Record:
    """One line of runs.csv."""

    entry: str
    kind: str
    round: int
    allocator: str
    time_s: float  # the one that is compared: wall_s, or for a server user_s + system_s
    wall_s: float
    user_s: float
    system_s: float
    peak_mib: float
    status: str
    output: str
    client_s: float | None


def read_records(file: Path) -> list[Record]:
    """What an earlier call wrote; nothing if there is no such file or its last line is cut off before its end."""
    try:
        with file.open(newline="") as stream:
            rows = list(csv.DictReader(stream))
    except OSError:
        return []
    numbers = ("time_s", "wall_s", "user_s", "system_s", "peak_mib")
    return [
        Record(
            **{
                **row,
                "round": int(row["round"]),
                **{name: float(row[name]) for name in numbers},
                "client_s": float(row["client_s"]) if row["client_s"] else None,
            }
        )
        for row in rows
        if all(value is not None for value in row.values())
    ]


def rotated(items: Sequence[Item], by: int) -> list[Item]:
    by %= len(items) or 1
    return [*items[by:], *items[:by]]


def schedule(entries: Sequence[Entry], allocators: Sequence[Allocator], rounds: int) -> Iterator[tuple]:
    """(entry, round, allocator) in the order of the runs: what changes slowly on the machine hits all alike."""
    for entry in entries:
        for number in range(rounds):
            for allocator in rotated(allocators, number):
                yield entry, number, allocator


def to_record(entry: Entry, number: int, allocator: Allocator, run: Run) -> Record:
    time_s = run.cpu_s if entry.time == "cpu" else run.wall_s
    return Record(
        entry=entry.name,
        kind=entry.kind,
        round=number,
        allocator=allocator.name,
        time_s=time_s,
        **asdict(run),
    )


def run_all(
    entries: Sequence[Entry],
    allocators: Sequence[Allocator],
    rounds: int,
    measure: Callable[[Entry, Allocator], Run],
    file: Path,
    progress: Callable[[Entry, int, Allocator], None],
    done: Sequence[Record] = (),
) -> tuple[list[Record], bool]:
    """All runs, each written to `file` at once. The second value is False if Ctrl-C ended them early.

    An allocator that failed an entry once is not run on it again: its failure is recorded for the later rounds too,
    since a timeout costs as much as all the others together. `done` are the records of an earlier call that was
    interrupted; they are taken as they are.
    """
    records: list[Record] = []
    failed: dict[tuple[str, str], Run] = {}
    known = {(record.entry, record.round, record.allocator): record for record in done}
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [field.name for field in fields(Record)])
        writer.writeheader()
        try:
            for entry, number, allocator in schedule(entries, allocators, rounds):
                progress(entry, number, allocator)
                key = (entry.name, allocator.name)
                record = known.get((entry.name, number, allocator.name))
                if record is None:
                    run = failed[key] if key in failed else measure(entry, allocator)
                    if run.status != "ok":
                        failed[key] = run
                    record = to_record(entry, number, allocator, run)
                records.append(record)
                writer.writerow(asdict(records[-1]))
                stream.flush()
        except KeyboardInterrupt:
            return records, False
    return records, True
