"""The highest counts that were single-stepped, to show beside what is proven."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from reprlib import repr as in_short  # however deep it is nested
from typing import Any

from rtmalloc_tools.bound.rows import Row
from rtmalloc_tools.files import read_bytes
from rtmalloc_tools.mistakes import Mistake, unknown_name

Key = tuple[str, str, str]
KEYS = ("mode", "operation", "kind")


def read_observed(path: Path, rows: tuple[Row, ...]) -> dict[Key, int]:
    """A list of {mode, operation, kind, observed}; the highest counts where a row is there more than once."""
    try:
        content = json.loads(read_bytes(path, "file of observed counts"))
    except ValueError as error:
        raise Mistake(f"{path}: is not JSON: {error}.") from None
    except RecursionError:
        raise Mistake(f"{path}: is nested too deep; expected a list of {{mode, operation, kind, observed}}.") from None
    if not isinstance(content, list):
        raise Mistake(
            f"{path}: expected a list of {{mode, operation, kind, observed}}, found {type(content).__name__}."
        )
    highest: dict[Key, int] = {}
    for number, entry in enumerate(content):
        key, count = read_entry(path, number, entry)
        if key not in {row.key for row in rows}:
            raise Mistake(
                f"{path}: entry {number}: {unknown_name('row', '/'.join(key), ['/'.join(r.key) for r in rows])}"
            )
        highest[key] = max(count, highest.get(key, 0))
    return highest


def read_entry(path: Path, number: int, entry: Any) -> tuple[Key, int]:
    if not isinstance(entry, Mapping):
        given = in_short(entry)
        raise Mistake(f"{path}: entry {number} is {given}; expected an object with mode, operation, kind, observed.")
    for key in (*KEYS, "observed"):
        if key not in entry:
            raise Mistake(f"{path}: entry {number} has no '{key}'.")
    for key in KEYS:
        if not isinstance(entry[key], str):
            raise Mistake(f"{path}: entry {number}: {key} is {in_short(entry[key])}; expected a word.")
    count = entry["observed"]
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise Mistake(f"{path}: entry {number}: observed is {in_short(count)}; expected a count of instructions.")
    return (entry["mode"], entry["operation"], entry["kind"]), count
