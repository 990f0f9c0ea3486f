"""RT-Mimalloc's tables and figures: published values, ratios, what the text claims, and short runs."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

from rtlab.allocators import Allocator
from rtlab.entries import Entry
from rtlab.papers import rt_mimalloc_times
from rtlab.papers.rt_mimalloc_claims import CLAIMS, TLSF_LONGEST_NS, claims_table, judged, verdict_of
from rtlab.papers.rt_mimalloc_figures import make_figures
from rtlab.papers.rt_mimalloc_lines import Row, lines_frame, lines_table, source_files
from rtlab.papers.rt_mimalloc_tables import benchmark_cells, beside_published, page_table, published
from rtlab.papers.rt_mimalloc_times import TIMES, as_frame, probed_row, synthetic_row
from rtlab.papers.rt_mimalloc_variants import FIGURES_9_AND_10
from rtlab.places import Places, find_places
from rtlab.probing import Probed
from rtlab.profiled import PROFILED, loading, recording
from rtlab.svg import EMPTY


def value(table, operation, allocator, load, statistic):
    keys = ["table", "operation", "allocator", "load", "statistic"]
    return published().set_index(keys)["published"].loc[(table, operation, allocator, load, statistic)]


def test_published_values_are_all_there():
    counts = published()["table"].value_counts().to_dict()
    # IV: 9 functions; VI: 8 rows; 5 statistics each. The others without the X of the paper.
    assert counts["III"] == 12 and counts["IV"] == 45 and counts["VI"] == 40
    assert value("III", "source", "mimalloc", "source", "lines") == 13000
    assert value("IV", "segment_alloc", "rt-mimalloc-original", "synthetic", "variance") == 346084.77
    assert value("VI", "malloc", "rt-mimalloc-pag", "synthetic", "max") == 176
    assert value("VIII", "time", "rt-mimalloc-seg", "sh8bench", "ratio") == pytest.approx(1.80 / 1.09)
    assert value("VII", "time", "glibc", "cfrac", "ratio") == pytest.approx(8.28 / 7.74)
    assert value("VIII", "time", "talloc", "xmalloc_test", "ratio") == pytest.approx(286.04 / 0.84)
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


# ---- profiles ----


def test_talloc_is_filled_with_what_rt_mimalloc_pag_records(tmp_path):
    talloc = Allocator("talloc", tmp_path / "libtalloc-pool-preload.so", "", "")
    recorder = recording(talloc, tmp_path / "p")
    assert recorder.library == tmp_path / "librt-mimalloc-pag.so"
    assert recorder.environment == {"RT_MIMALLOC_SAVE": str(tmp_path / "p")}
    assert loading(talloc, tmp_path / "p", tmp_path / "r").environment == {"TALLOC_POOL_LOAD": str(tmp_path / "p")}


def test_a_profile_adds_to_the_other_settings(tmp_path):
    tlsf = Allocator("tlsf-profile", tmp_path / "libtlsf-preload.so", "", "", {"ALGORITHM_AREA": "1"})
    assert recording(tlsf, tmp_path / "p").environment == {"ALGORITHM_AREA": "1", "ALGORITHM_SAVE": str(tmp_path / "p")}
    assert set(PROFILED) < {*FIGURES_9_AND_10}


# ---- times ----


def probed(**figures):
    usual = {"allocations": 10, "frees": 9, "longest_us": 5, "p9999_us": 5, "shortest_us": 0.05}
    return Probed(**{**usual, "mean_us": 0.1, "variance_us2": 0.04, "overhead_us": 0.02, **figures})


def test_times_in_benchmarks_are_the_best_of_the_rounds_without_the_timer():
    row = probed_row("cfrac", "tlsf", [probed(), probed(longest_us=3, shortest_us=0.06)])
    assert row == dict(zip(TIMES, ("cfrac", "tlsf", pytest.approx(30), 80, 200, 2980, 10), strict=True))
    assert probed_row("cfrac", "tlsf", []) is None


def test_cycles_become_nanoseconds():
    row = synthetic_row("tlsf", np.array([20, 40, 60, 40], np.uint32), 2.0)
    assert row == dict(zip(TIMES, ("synthetic", "tlsf", 10, 20, pytest.approx(50**0.5), 30, 4), strict=True))


def test_an_interrupted_measurement_of_times_goes_on(tmp_path, monkeypatch):
    measured = []

    def measure(native, entry, allocator, limit_s, probe_report):
        if len(measured) == 3:
            raise KeyboardInterrupt
        measured.append(allocator.name)
        probe_report.write_text(json.dumps(asdict(probed(longest_us=len(measured)))))
        return type("Run", (), {"status": "ok"})

    monkeypatch.setattr(rt_mimalloc_times, "measure", measure)
    allocators = [Allocator(name, None, "", "") for name in ("a", "b")]
    file = tmp_path / "x.times"
    arguments = (None, Entry("x", "load", ()), allocators, 2, 1, file, lambda text: None)
    with pytest.raises(KeyboardInterrupt):
        rt_mimalloc_times.probed_rounds(*arguments)
    measured[:] = []
    reports = rt_mimalloc_times.probed_rounds(*arguments)
    assert measured == ["a"]  # the second round begins with b
    assert [report.longest_us for report in reports["b"]] == [2, 3]


# ---- what the text claims ----


def times_of(rows):
    return as_frame([dict(zip(TIMES, (*row, 100), strict=True)) for row in rows])


def test_claims_are_judged_by_how_often_they_hold():
    rows = [("a", "mimalloc-1.7", 10, 50, 90, 1000), ("a", "rt-mimalloc-pag", 11, 60, 80, 400)]
    rows += [("a", "rt-mimalloc-seg", 10, 55, 95, 500), ("b", "rt-mimalloc-pag", 11, 60, 80, 400)]
    found = {row["claim"]: row for row in judged(times_of(rows))}
    assert found["seg's and pag's shortest is Mimalloc's"]["verdict"] == "holds"
    assert found["the deviation is less than Mimalloc's"]["holds in"] == "1 of 2"
    assert found["the deviation is less than Mimalloc's"]["verdict"] == "does not hold"
    assert found["pag's longest is shorter than seg's"]["median ratio"] == pytest.approx(0.8)
    assert not [claim for claim in found if "TLSF" in claim]  # it was not measured


def test_figures_2_and_9_are_of_the_synthetic_load_alone():
    rows = [
        (load, name, 10, 50, 90, longest)
        for load, longest in (("synthetic", 700), ("cfrac", 900))
        for name in ("tlsf",)
    ]
    rows += [("synthetic", "mimalloc-1.7", 10, 40, 100, 1000), ("cfrac", "mimalloc-1.7", 10, 40, 100, 1)]
    found = {row["claim"]: row for row in judged(times_of(rows))}
    assert found["TLSF's longest is shorter"]["holds in"] == "1 of 1"
    assert f"700 ns here; the paper: below {TLSF_LONGEST_NS}." in claims_table(times_of(rows)).note


def test_verdicts():
    assert [verdict_of(*counts) for counts in ((4, 4), (3, 4), (2, 4))] == ["holds", "mostly holds", "does not hold"]
    assert claims_table(times_of([])) is None and len(CLAIMS) == 25


# ---- figures ----


def test_every_figure_is_drawn_of_what_there_is():
    names = ("mimalloc-1.7", "tlsf", "rt-mimalloc-seg", "rt-mimalloc-pag")
    cycles = {name: np.arange(1, 50, dtype=np.uint32) for name in names}
    rows = [(load, name, 0, 5, 9, 50) for load in ("synthetic", "cfrac", "lua") for name in names]
    made = make_figures(cycles, times_of(rows))
    assert [title.split(":")[0] for title in made] == [
        f"Figure {number}" for number in ("2", "9 (a)", "9 (b)", "9 (c)", "10")
    ]
    assert all(svg.startswith("<svg") for svg in made.values())
    assert make_figures({}, times_of([])) == {}
    assert make_figures({}, times_of([("cfrac", "glibc", 0, 5, 9, 50)])).popitem()[1] == EMPTY  # in Figure 2 alone
    assert list(make_figures({}, times_of(rows[4:8]))) == ["Figure 10: allocation times inside the benchmarks"]


# ---- Table III ----


def test_lines_of_code_are_counted_without_comments(tmp_path):
    source = tmp_path / "algorithms" / "rt_mimalloc"
    source.mkdir(parents=True)
    (source / "a.c").write_text("// A comment.\n\nint a;\nint b;  // another\n")
    (source / "notes.md").write_text("int c;\n")
    assert source_files(Places(tmp_path), Row("x", None, ("algorithms/rt_mimalloc",))) == [source / "a.c"]
    values = published()
    frame = lines_frame(Places(tmp_path), values[values["table"] == "III"], tmp_path / "kept.json")
    here = frame.set_index("allocator")["lines here"]
    assert here["rt-mimalloc"] == 2 and here["mimalloc-1.7"] == "- (not fetched)" and here["tcmalloc"] == "- (binary)"
    row = next(row for row in lines_table(frame).rows if row[0].text == "mimalloc-1.7")
    assert [cell.text for cell in row] == ["mimalloc-1.7", "2019", "2023", "13000", "- (not built)", "- (not fetched)"]


# ---- the command ----


def rt_mimalloc(*options):
    command = [sys.executable, "-m", "rtlab", "paper", "rt-mimalloc", *options]
    return {"args": command, "env": {**os.environ, "COLUMNS": "200"}, "text": True}


def skip_unless_built():
    if not (find_places().build / "algorithms" / "librt-mimalloc-seg.so").is_file():
        pytest.skip("build/ is not made")


def test_a_short_run_counts_the_functions(tmp_path):
    skip_unless_built()
    names = "rt-mimalloc-original,rt-mimalloc-seg,rt-mimalloc-pag,tlsf-profile"
    options = ("--no-cycles", "--mallocs", "400", "--allocators", names, "--out", str(tmp_path))
    done = subprocess.run(**rt_mimalloc(*options), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    cells = pd.read_csv(tmp_path / "cells.csv").set_index(["operation", "allocator", "statistic"])["measured"]
    assert cells["malloc", "rt-mimalloc-pag", "calls"] == 400
    for name in ("page_free_list_extend", "segment_find_free", "page_queue_push"):
        assert cells[name, "rt-mimalloc-seg", "max"] < cells[name, "rt-mimalloc-original", "max"] / 2
    assert ("page_free_list_extend", "rt-mimalloc-pag", "max") not in cells.index
    assert cells["malloc", "tlsf-profile", "max"] < 400  # its area is made before the first of them
    assert "Table VI" in (tmp_path / "page.html").read_text()


def test_a_short_run_makes_the_figures(tmp_path):
    skip_unless_built()
    names = ["glibc", "tlsf", "tlsf-profile", "rt-mimalloc-seg", "rt-mimalloc-pag", "rtmalloc-pag-bare"]
    if (find_places().build / "algorithms" / "libtalloc-pool-preload.so").is_file():
        names.append("talloc")
    options = ("--no-instructions", "--loads", "synthetic", "--mallocs", "500", "--allocators", ",".join(names))
    done = subprocess.run(**rt_mimalloc(*options, "--out", str(tmp_path)), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    times = pd.read_csv(tmp_path / "times.csv").set_index("allocator")
    assert set(times.index) == set(names) and (times["allocations"] == 500).all()
    assert (times["min"] <= times["mean"]).all() and (times["mean"] < times["max"]).all()
    assert len(pd.read_csv(tmp_path / "synthetic.csv")) == 500
    page = (tmp_path / "page.html").read_text()
    assert "Figure 2" in page and "Figure 9 (c)" in page and "Table III" in page and "The text says" not in page
    assert (tmp_path / "figure-4.svg").is_file() and not (tmp_path / "kept").exists()


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    skip_unless_built()
    options = (
        "--no-instructions",
        "--loads",
        "synthetic",
        "--mallocs",
        "500",
        "--allocators",
        "glibc,tlsf,tlsf-profile",
    )
    command = rt_mimalloc(*options, "--out", str(tmp_path))
    with subprocess.Popen(**command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as first:
        for line in first.stdout:
            if line == "synthetic, tlsf\n":
                first.send_signal(signal.SIGINT)
                break
        said = first.stdout.read()
    assert first.returncode == 130 and "the same command goes on from here." in said
    done = subprocess.run(**command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "synthetic, glibc\n" not in done.stdout and "synthetic, tlsf-profile\n" in done.stdout
    assert len(pd.read_csv(tmp_path / "times.csv")) == 3


def test_an_unknown_load_is_told(tmp_path):
    command = [sys.executable, "-m", "rtlab", "paper", "rt-mimalloc", "--loads", "cfracc", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Unknown load 'cfracc'. Did you mean 'cfrac'?" in done.stderr
