"""`rtlab report`: a page again from the raw data alone."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest
from browser import look_at

from rtlab.page import cell_of, table_of


def rtlab(*arguments):
    command = [sys.executable, "-m", "rtlab", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "160"})


@pytest.mark.parametrize(
    ("value", "text", "kind"),
    [
        (3, "3", ""),
        (1234.56, "1235", ""),
        (0.01234, "0.0123", ""),
        (None, "-", ""),
        ("X SIGSEGV", "X SIGSEGV", "beyond"),
    ],
)
def test_a_cell_shows_figures_in_short_and_failures_in_colour(value, text, kind):
    assert (cell_of(value).text, cell_of(value).kind) == (text, kind)


def test_a_missing_figure_is_a_dash():
    table = table_of("t", pd.DataFrame({"a_b": [1.0, float("nan")]}))
    assert table.headings == ["a b"] and [row[0].text for row in table.rows] == ["1", "-"]


def bench_folder(folder):
    rows = [
        {"entry": entry, "kind": "load", "round": number, "allocator": name, "time_s": time, "wall_s": time}
        | {"user_s": time, "system_s": 0.0, "peak_mib": 5.0, "status": "ok", "output": "a", "client_s": None}
        for entry in ("cfrac", "<larson>")
        for number in range(2)
        for name, time in (("rtmalloc", 0.5), ("snmalloc", 1.0))
    ]
    rows[-1]["status"] = "X SIGABRT"
    pd.DataFrame(rows).to_csv(folder / "runs.csv", index=False)
    document = {"left_out": [{"name": "node", "reason": "not installed"}], "environment": {"kernel": "some"}}
    (folder / "bench.json").write_text(json.dumps(document))


def test_the_page_of_a_benchmark_has_its_ratios_failures_and_figures(tmp_path):
    bench_folder(tmp_path)
    done = rtlab("report", tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert "Time / snmalloc, below 1 is better" in page and "&lt;larson&gt; on snmalloc: X SIGABRT" in page
    assert "node: not installed" in page and page.count("<svg") == 3
    look_at(tmp_path / "page.html", tmp_path)
    assert "<larson>" not in page and "<script src" not in page and 'href="http' not in page
    assert (tmp_path / "figure-1.svg").read_text().startswith("<?xml")


def test_the_page_of_a_comparison_is_made_again_without_measuring(tmp_path):
    first = rtlab(
        "compare", "--cmd", "ls /", "--allocators", "glibc", "--runs", "1", "--replays", "1", "--out", tmp_path
    )
    assert first.returncode == 0, first.stderr
    before = (tmp_path / "runs.csv").read_text(), (tmp_path / "page.html").read_text()
    (tmp_path / "page.html").unlink()
    done = rtlab("report", tmp_path)
    assert done.returncode == 0, done.stderr
    assert ((tmp_path / "runs.csv").read_text(), (tmp_path / "page.html").read_text()) == before


def test_a_folder_without_results_is_answered_with_what_to_give(tmp_path):
    done = rtlab("report", tmp_path)
    assert done.returncode == 2 and "holds no results of rtlab bench, replay or compare" in done.stderr
