"""RT-Mimalloc's tables: published values, ratios, and a short run."""

import os
import subprocess
import sys

import pandas as pd
import pytest

from rtlab.papers.rt_mimalloc import benchmark_cells, beside_published, page_table, published
from rtlab.places import find_places


def value(table, operation, allocator, load, statistic):
    keys = ["table", "operation", "allocator", "load", "statistic"]
    return published().set_index(keys)["published"].loc[(table, operation, allocator, load, statistic)]


def test_published_values_are_all_there():
    counts = published()["table"].value_counts().to_dict()
    # IV: 9 functions; VI: 8 rows; 5 statistics each. The others without the X of the paper.
    assert counts["IV"] == 45 and counts["VI"] == 40
    assert value("IV", "segment_alloc", "rt-mimalloc-original", "synthetic", "variance") == 346084.77
    assert value("VI", "malloc", "rt-mimalloc-pag", "synthetic", "max") == 176
    assert value("VIII", "time", "rt-mimalloc-seg", "sh8bench", "ratio") == pytest.approx(1.80 / 1.09)
    assert value("VII", "time", "glibc", "cfrac", "ratio") == pytest.approx(8.28 / 7.74)
    assert value("X", "memory", "rt-mimalloc-pag", "glibc_thread", "ratio") == pytest.approx(27468 / 4964)


def test_ratios_are_taken_within_a_round():
    rows = [("mimalloc-1.7", 0, 2.0, 10), ("tlsf", 0, 4.0, 5), ("mimalloc-1.7", 1, 1.0, 10), ("tlsf", 1, 4.0, 5)]
    rows += [("mimalloc-1.7", 2, 1.0, 10), ("tlsf", 2, 3.0, 5)]
    runs = pd.DataFrame(rows, columns=["allocator", "round", "time", "memory"]).assign(load="cfrac")
    cells = beside_published(benchmark_cells(runs)).set_index(["table", "allocator"])
    assert cells.loc[("VII", "tlsf"), "measured"] == 3.0  # of 2, 4, 3; the ratio of the medians would be 4
    assert cells.loc[("IX", "tlsf"), "measured"] == 0.5
    assert cells.loc[("VII", "tlsf"), "difference"] == pytest.approx(100 * (3 / (16.77 / 7.74) - 1))


def test_what_did_not_run_is_an_x():
    rows = [("mimalloc-1.7", "cfrac"), ("tlsf", "cfrac"), ("mimalloc-1.7", "redis")]
    runs = pd.DataFrame(rows, columns=["allocator", "load"]).assign(round=0, time=1.0, memory=1.0)
    table = page_table(beside_published(benchmark_cells(runs)), "VII")
    assert [cell.text for cell in table.rows[1]] == ["tlsf", "1.00 (2.17)", "X"]


def test_a_short_run_counts_the_functions(tmp_path):
    places = find_places()
    if not (places.build / "algorithms" / "librt-mimalloc-seg.so").is_file():
        pytest.skip("build/ is not made")
    names = "rt-mimalloc-original,rt-mimalloc-seg,rt-mimalloc-pag"
    command = [sys.executable, "-m", "rtlab", "paper", "rt-mimalloc", "--no-cycles", "--mallocs", "400"]
    done = subprocess.run(
        [*command, "--allocators", names, "--out", str(tmp_path)],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    cells = pd.read_csv(tmp_path / "cells.csv").set_index(["operation", "allocator", "statistic"])["measured"]
    assert cells["malloc", "rt-mimalloc-pag", "calls"] == 400
    for name in ("page_free_list_extend", "segment_find_free", "page_queue_push"):
        assert cells[name, "rt-mimalloc-seg", "max"] < cells[name, "rt-mimalloc-original", "max"] / 2
    assert ("page_free_list_extend", "rt-mimalloc-pag", "max") not in cells.index
    assert "Table VI" in (tmp_path / "page.html").read_text()


def test_an_unknown_load_is_told(tmp_path):
    command = [sys.executable, "-m", "rtlab", "paper", "rt-mimalloc", "--loads", "cfracc", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Unknown load 'cfracc'. Did you mean 'cfrac'?" in done.stderr
