"""The library as it is built here: what the certificate promises of it today. Skipped where it is not built by gcc.

A change in src may make these fail: bring rtmalloc_tools/bound/paths.toml up to date, its head says how.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rtmalloc_tools.bound.analysis import Analyser
from rtmalloc_tools.bound.binary import read_binary
from rtmalloc_tools.bound.listing import listing, total
from rtmalloc_tools.bound.longest import count
from rtmalloc_tools.bound.rows import Apart, read_paths
from rtmalloc_tools.places import LIBRARY, checkout

BUILT = Path(os.environ.get("RTM_LIBRARY", checkout() / "build" / LIBRARY))
pytestmark = pytest.mark.skipif(not BUILT.is_file(), reason="the library is not built")


@pytest.fixture(scope="module")
def analyser() -> Analyser:
    binary = read_binary(BUILT)
    if "clang" in binary.compiler:  # gcc's name is in every library: the C library's start files are its
        pytest.skip(f"paths.toml describes what gcc makes, not {binary.compiler}")
    return Analyser(binary, read_paths())


def test_every_row_has_a_bound(analyser):
    refused = [
        f"{'/'.join(row.key)}: {result.problems[0]}"
        for row in analyser.paths.rows
        if (result := analyser.analyse(row)).problems
    ]
    assert not refused, "paths.toml is behind the library"


def test_every_row_is_within_its_limit(analyser):
    over = [
        f"{'/'.join(row.key)}: {proven} of {row.limit}"
        for row in analyser.paths.rows
        if row.limit and (proven := analyser.analyse(row).proven) and proven > row.limit
    ]
    assert not over, "a path has become longer: rtmalloc bound --path NAME shows it"


def test_no_function_of_another_library_is_an_exit(analyser):
    # What follows its call would be cut from the path.
    outside = {slot.symbol for slot in analyser.binary.slots.values()}
    exits = {name for row in analyser.paths.rows for name, named in row.named.items() if named.apart is Apart.EXIT}
    assert not exits & outside


def test_every_function_that_a_row_names_is_one_of_the_library(analyser):
    known = {scope.name for scope in analyser.sources.scopes} | set(analyser.binary.by_name)
    known |= {slot.symbol for slot in analyser.binary.slots.values()}
    named = {name for row in analyser.paths.rows for name in row.named}
    # What the secure variant alone has.
    secure = "".join(path.read_text() for path in (Path(__file__).parents[3] / "src/secure").glob("*.[ch]"))
    assert not sorted(name for name in named - known if f"{name}(" not in secure)


def test_a_remote_free_has_no_loop_and_at_most_60_instructions(analyser):
    (row,) = [row for row in analyser.paths.rows if row.key == ("general", "remote free", "any")]
    result = analyser.analyse(row)
    assert not result.loops
    assert 40 < result.proven <= 60
    texts = [line.text for line in listing(analyser, result.trail)]
    assert any("xadd" in text for text in texts), "the path that sets the block's bit is lost"
    assert not any("cmpxchg" in text for text in texts)


def test_each_path_adds_up_to_its_bound(analyser):
    results = [analyser.analyse(row) for row in analyser.paths.rows]
    certified = [result for result in results if result.proven is not None]
    assert certified
    for result in certified:
        assert count(result.trail) == result.proven == total(list(listing(analyser, result.trail)))
