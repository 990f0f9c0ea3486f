"""The documents' tables of what is proven, against the library as it is built here by the compiler that they name."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from rtmalloc_tools.bound.analysis import Analyser, analyse_aliases
from rtmalloc_tools.bound.binary import Binary, read_binary
from rtmalloc_tools.bound.rows import read_paths
from rtmalloc_tools.places import LIBRARY, checkout

BUILT = Path(os.environ.get("RTM_LIBRARY", checkout() / "build" / LIBRARY))
pytestmark = pytest.mark.skipif(not BUILT.is_file(), reason="the library is not built")

# Each is the first one behind its words; and what its operations begin with in the certificate.
TABLES = {
    "general": [("command.md", "General mode, gcc 12 with `-O2`", "")],
    "pag": [
        ("certificate.md", "Sealed mode `pag`, gcc 12 with `-O2`", ""),
        ("certificate.md", "where the thread's own store has nothing left", "common "),
    ],
    "seg": [("certificate.md", "Sealed mode `seg`;", "")],
}
OPERATIONS = {
    "malloc": ["malloc"],
    "`operator new`": ["operator new"],
    "free": ["free"],
    "free by the owner": ["free"],
    "free by another thread": ["remote free"],
    "free into the heap of a thread that has exited": ["orphan free"],
    "`operator delete` with a size": ["sized free"],
    "`operator delete` with a size, by the owner": ["sized free"],
    "`operator delete` with a size, by another thread": ["remote sized free"],
    "`free_sized`": ["free_sized"],
    "`operator delete` with a size and an alignment": ["aligned delete"],
    "`free_sized`; `operator delete` with a size and an alignment": ["free_sized", "aligned delete"],
    "`free_sized`; `operator delete` with a size and an alignment, by the owner": ["free_sized", "aligned delete"],
    "`free_sized`; `operator delete` with a size and an alignment, by another thread": [
        "remote free_sized",
        "remote aligned delete",
    ],
    "calloc, zeroing apart": ["calloc"],
    "realloc, copying apart": ["realloc"],
    "realloc, copying apart, within one kind": ["realloc"],
    "aligned_alloc": ["aligned_alloc"],
    "aligned_alloc, up to 4 KiB": ["aligned_alloc"],
    "aligned_alloc, to 4 MiB": ["wide aligned_alloc"],
    "a thread is given its prepared heap, by the one that starts it": ["thread create"],
    "a thread begins with it": ["thread start"],
    "a thread that one of its own routine started takes over that one's heap, in its first malloc": ["thread takeover"],
    "a thread leaves it": ["thread exit"],
    "the first malloc of a thread that has not begun with its heap": ["first malloc"],
    "its first `operator new`; calloc; realloc; aligned_alloc, up to 4 KiB": [
        "first operator new",
        "first calloc",
        "first realloc",
        "first aligned_alloc",
    ],
}


def cells(line: str) -> list[str]:
    """Of a table's line; links by their words only."""
    return [cell.strip() for cell in re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line).strip("|").split("|")]


def documented(file: str, words: str) -> dict[str, set[int]]:
    """For each row of the table the numbers in its columns of proven counts."""
    table = (checkout() / "docs" / file).read_text().split(words, 1)[1].split("\n|", 1)[1].split("\n\n", 1)[0]
    head, _, *lines = table.splitlines()
    columns = [number for number, name in enumerate(cells(head)) if name in ("page", "span", "huge")]
    rows = {}
    for line in lines:
        row = cells(line)
        found = re.findall(r"\d[\d,]*", " ".join(row[column] for column in columns))
        rows[row[0]] = {int(number.replace(",", "")) for number in found}
    return rows


def documented_library() -> Binary:
    binary = read_binary(BUILT)
    if "12.2.0" not in binary.compiler or "clang" in binary.compiler:
        pytest.skip(f"the documents have the counts of gcc 12, not {binary.compiler}")
    return binary


@pytest.mark.parametrize("mode", TABLES)
def test_the_documents_have_what_is_proven(mode):
    analyser = Analyser(documented_library(), read_paths())
    proven: dict[str, set[int]] = {}
    for row in analyser.paths.rows:
        if row.mode == mode:
            proven.setdefault(row.operation, set()).add(analyser.analyse(row).proven)
    named = set()
    for file, words, before in TABLES[mode]:
        rows = documented(file, words)
        names = {label: [before + name for name in OPERATIONS[label]] for label in rows}
        named |= {name for some in names.values() for name in some}
        assert rows == {label: set().union(*(proven[name] for name in names[label])) for label in rows}
    assert named == set(proven)


def test_the_documents_say_what_other_names_take():
    analyser = Analyser(documented_library(), read_paths())
    text = (checkout() / "docs" / "certificate.md").read_text().split("The other names of these functions")[1]
    said = {int(number) for number in re.findall(r"\b\d+\b", text.split("`bound` proves")[0])}
    results = analyse_aliases(analyser, [analyser.analyse(row) for row in analyser.paths.rows])
    assert {result.more for result in results if result.more is None or result.more > 0} == said
