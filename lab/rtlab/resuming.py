"""Rounds with a progress bar that go on where an interrupted call with the same key stopped."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from rtlab.allocators import Allocator
from rtlab.entries import Entry
from rtlab.environment import sha256
from rtlab.measuring import Run, measure
from rtlab.native import Native
from rtlab.rounds import Record, read_records, run_all


def progress_bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True)


def command_words(entry: Entry) -> list[str]:
    """A server's socket has another name in each call."""
    own = str(entry.client.socket) if entry.client is not None else None
    return [entry.name, *("socket" if word == own else word for word in entry.command)]


def key_of(entries: Sequence[Entry], allocators: Sequence[Allocator], limit_s: int) -> str:
    """The same where the same would be measured: commands, place, limit, and the libraries' contents."""
    libraries = [sha256(one.library) if one.library else one.version for one in allocators]
    commands = [word for entry in entries for word in command_words(entry)]
    parts = [*commands, os.getcwd(), str(limit_s), *(one.name for one in allocators), *libraries]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def goes_on(key_file: Path, key: str) -> bool:
    """An earlier call with this key was interrupted."""
    return key_file.is_file() and key_file.read_text() == key


def run_rounds(
    native: Native,
    entries: Sequence[Entry],
    allocators: Sequence[Allocator],
    rounds: int,
    limit_s: int,
    file: Path,
    key_file: Path,
    console: Console,
    ready: Callable[[Entry, Allocator], Allocator | Run] | None = None,
) -> tuple[list[Record], bool]:
    """As rounds.run_all. What `file` holds already is taken as it is if `key_file` says that it is of the same.

    `ready` says what is measured for an entry, or gives a run that failed before it began.
    """
    key = key_of(entries, allocators, limit_s)
    done = read_records(file) if goes_on(key_file, key) else []
    key_file.write_text(key)
    with progress_bar(console) as bar:
        task = bar.add_task("", total=len(entries) * len(allocators) * rounds)
        count = 0

        def progress(entry: Entry, number: int, allocator: Allocator) -> None:
            nonlocal count
            text = f"{entry.name}, round {number + 1} of {rounds}, {allocator.name}"
            bar.update(task, completed=count, description=text)
            count += 1

        def one(entry: Entry, allocator: Allocator) -> Run:
            chosen = ready(entry, allocator) if ready else allocator
            return chosen if isinstance(chosen, Run) else measure(native, entry, chosen, limit_s)

        return run_all(entries, allocators, rounds, one, file, progress, done)
