"""The pool paper's test: percentiles and verdicts from histograms, and a short run."""

import os
import subprocess
import sys

import pandas as pd
import pytest

from rtlab.papers.pool import Plan, longest, mean, percentile, rounds_of, row_of, share_up_to, verdicts
from rtlab.papers.pool_latency import Case, Seen, added
from rtlab.places import find_places


class Heap:
    def __init__(self, name):
        self.name = name


def seen(source, heap, times, cycles_per_us=1000.0):
    counts = pd.Series(times).value_counts().sort_index()
    frame = {"cycles_from": counts.index, "cycles_to": counts.index, "voted": counts.values, "all": counts.values}
    return Seen(Case(source, Heap(heap)), pd.DataFrame(frame), cycles_per_us)


def test_percentiles_are_those_of_the_values():
    histogram = seen("pool", "glibc", [10] * 98 + [50, 900]).histogram
    assert [percentile(histogram, "all", percent) for percent in (50, 98, 98.5, 99.999)] == [10, 10, 50, 900]
    assert longest(histogram, "all") == 900 and share_up_to(histogram, "all", 20) == 98
    assert mean(histogram, "all") == pytest.approx(19.3)


def test_rounds_are_added_by_bucket():
    both = added([seen("pool", "glibc", [10, 20]), seen("pool", "glibc", [20, 30], 3000.0)])
    assert both.histogram["all"].tolist() == [1, 2, 1] and both.cycles_per_us == 2000.0


def test_verdicts_name_what_misses_the_aim():
    cases = [
        seen("pool", "glibc", [10] * 99 + [21]),
        seen("malloc", "glibc", [10] * 50 + [90] * 50),
        seen("malloc", "other", [5] * 100),
    ]
    said = verdicts(pd.DataFrame([row_of(one) for one in cases]))
    assert "21 cycles; median 10: beyond twice that" in said[0]
    assert "99.999 % without voting: 21 cycles, below 1 of 2 heaps (not other)." in said[1]


def test_the_long_form_is_ten_to_the_nine_in_several_processes():
    rounds, count = rounds_of(Plan(None, None, full=True, rounds=None, count=None, out=None))
    assert rounds * count == 10**9 and count <= 10**8
    rounds, count = rounds_of(Plan(None, None, full=False, rounds=None, count=None, out=None))
    assert rounds * count == 10**7


def command(*options):
    return subprocess.run(
        [sys.executable, "-m", "rtlab", "paper", "pool", *options],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_short_run_writes_the_page(tmp_path):
    if not find_places().rtmalloc.is_file():
        pytest.skip("build/ is not made")
    chosen = ["--allocators", "glibc,rtmalloc-pag", "--loads", "nothing,pool,shared_ptr,malloc,make_shared"]
    done = command(*chosen, "--mallocs", "20000", "--seeds", "2", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    cells = pd.read_csv(tmp_path / "cells.csv").set_index(["source", "heap"])
    assert len(cells) == 9 and (cells["acquisitions"] == 20000).all()
    assert (cells["voted_50"] <= cells["all_longest"]).all()
    assert sorted(cells.loc["pool", "held"]) == [100, 1000]
    page = (tmp_path / "page.html").read_text()
    assert "Figure 7" in page and "Figure 8" in page and (tmp_path / "figure-1.svg").is_file()


def test_an_unknown_source_is_told():
    done = command("--loads", "pol")
    assert done.returncode == 2 and "Unknown source 'pol'. Did you mean 'pool'?" in done.stderr
