"""The papers' tables: published values, F, comparison, and a short run of the whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from browser import look_at

from rtlab.catalogue import FOREIGN, MODES, RTMALLOC
from rtlab.mistakes import Mistake
from rtlab.papers.compare import compare, published
from rtlab.papers.definitions import PAPERS
from rtlab.papers.loads import NoMemory, ensure_natives
from rtlab.papers.measures import assemble, factor_f
from rtlab.papers.tlsf_ranges import in_words, range_jobs, summarize
from rtlab.papers.tlsf_steps import count_steps
from rtlab.places import find_places
from rtlab.results_page import beside


@pytest.fixture(scope="session")
def natives():
    return ensure_natives(find_places())


def test_f_of_the_papers_example():
    """2006, Figure 2: F = 47.06 %, which is 25 to 17."""
    assert factor_f(25, 17) == pytest.approx(47.06, abs=0.005)


@pytest.mark.parametrize(
    ("paper", "cells", "key", "value"),
    [
        ("2006", 12 + 5 * 6 * 12, ("7", "F", "half-fit", "2006-test-3", "mean"), 98.14),
        ("2006", 12 + 5 * 6 * 12, ("6", "malloc", "best-fit", "2006-test-2", "max"), 1006),
        ("2008", 2 + 5 * 4 * 12, ("V", "free", "tlsf", "2008-profile-3", "mean"), 107),
        ("2008", 2 + 5 * 4 * 12, ("IV", "malloc", "half-fit", "2008-profile-2", "max"), 783),
    ],
)
def test_published_values_are_all_there(paper, cells, key, value):
    table = published(PAPERS[paper])
    assert len(table) == cells
    assert table.set_index(list(table.columns[:5])).loc[key, "value"] == value


@pytest.mark.parametrize(
    ("measured", "difference", "within"), [(9.0, -1.49, True), (8.9, -1.59, False), (11.0, 0.51, True)]
)
def test_f_is_judged_in_points(measured, difference, within):
    cell = {"table": "7", "operation": "F", "allocator": "tlsf", "load": "2006-test-1", "statistic": "mean"}
    found = compare(PAPERS["2006"], pd.DataFrame([cell | {"measured": measured}])).iloc[0]
    assert found["published"] == 10.49 and found["difference"] == pytest.approx(difference)
    assert bool(found["within"]) is within


def test_instructions_are_judged_in_percent_and_only_averages_are():
    cell = {"table": "V", "operation": "malloc", "allocator": "tlsf", "load": "2008-profile-1"}
    rows = [cell | {"statistic": "mean", "measured": 138 * 1.2}, cell | {"statistic": "max", "measured": 500.0}]
    mean, worst = compare(PAPERS["2008"], pd.DataFrame(rows)).itertuples()
    assert mean.difference == pytest.approx(20) and mean.within
    assert pd.isna(worst.within) and worst.published == 151


def space(natives, allocator, profile, **options):
    return natives.run("taskset", allocator, "space", profile, **options)


def test_the_same_seed_gives_the_same_instruction_counts(natives):
    runs = [natives.run("taskset", "tlsf", "count", "2006-table-4", mallocs=300, sample=3) for _ in range(2)]
    assert len(runs[0]) > 100 and runs[0].equals(runs[1])


def test_each_step_of_tlsf_is_counted(natives):
    steps = count_steps(natives)
    assert (steps["calls"] > 10).all()
    counts = {(row.table, row.step): list(map(int, row.here.split())) for row in steps.itertuples()}
    # Small and large sizes; the list at hand or a later one; of removing, all ways but few.
    assert len(counts["I", "mapping_search"]) == len(counts["I", "find_suitable_block"]) == 2
    assert len(counts["I", "remove_head"]) == 3 and len(counts["II", "remove_block"]) >= 3
    assert len(counts["I", "split"]) == 1  # no condition in it
    assert max(map(max, counts.values())) < 50


def test_all_allocators_see_the_same_load(natives):
    live = [
        space(natives, name, "2008-profile-2", mallocs=3000, points=10)["live"] for name in ("tlsf", "half-fit-above")
    ]
    assert live[0].equals(live[1]) and len(live[0]) == 10


def test_half_fit_one_list_higher_wastes_more(natives):
    last = {
        name: space(natives, name, "2006-table-3", mallocs=20_000).iloc[-1] for name in ("half-fit", "half-fit-above")
    }
    f = {name: factor_f(row["reached"], row["peak_live"]) for name, row in last.items()}
    assert 30 < f["half-fit"] < 55 and 65 < f["half-fit-above"] < 95


def test_worst_cases_grow_as_the_papers_say(natives):
    """2006, Table 1: by the number of blocks for first fit, by a constant a doubling for binary buddy, not for TLSF."""

    def worst(allocator, profile, blocks, **more):
        each = natives.run("worst", allocator, "count", profile, blocks=blocks, **more)
        return each.loc[each["operation"] == "malloc", "instructions"].max()

    first = [worst("first-fit", "sequential", 1 << n) for n in (8, 9, 10)]
    assert first[2] - first[1] == 2 * (first[1] - first[0])
    buddy = [worst("binary-buddy", "splits", 1 << n, area=(32 << n) + 8192) for n in (8, 9, 10)]
    assert buddy[2] - buddy[1] == buddy[1] - buddy[0] > 0
    assert worst("tlsf", "two-sides", 1 << 8) == worst("tlsf", "two-sides", 1 << 10) <= 160


@pytest.mark.parametrize(("load", "profile"), [("synthetic", "uniform"), ("router", "ethernet")])
def test_the_other_loads_run(natives, load, profile):
    last = natives.run(load, "tlsf", "space", profile, mallocs=5000).iloc[-1]
    assert last["mallocs"] == 5000 and last["reached"] >= last["peak_live"] > 0


def test_an_area_that_is_too_small_is_told_and_not_averaged(natives):
    with pytest.raises(NoMemory, match="no memory for"):
        space(natives, "tlsf", "2006-table-3", mallocs=1000, area=100_000)


@pytest.mark.parametrize("names", [(RTMALLOC, *MODES), FOREIGN], ids=["rtmalloc", "foreign"])
def test_allocators_beside_the_papers_see_the_same_load(natives, names):
    options = {"seed": 2, "mallocs": 3000, "points": 10}
    reference = space(natives, "tlsf", "2008-profile-2", **options)
    there = [name for name in names if name in natives.beside]
    if not there:
        pytest.skip(f"not there: {', '.join(names)}")
    for name in there:
        runs = space(natives, name, "2008-profile-2", **options)
        assert runs["live"].equals(reference["live"]) and runs["peak_live"].equals(reference["peak_live"]), name
        # F: more than what is live, and no reserve of whole segments.
        last = runs.iloc[-1]
        assert last["peak_live"] < last["reached"] < 2.5 * last["peak_live"] + (1 << 20), name


@pytest.mark.parametrize("mode", MODES)
def test_the_modes_are_sealed_and_their_instructions_counted(natives, mode):
    counts = natives.run("taskset", mode, "count", "2006-table-4", mallocs=2000, sample=7)
    most = counts.groupby("operation")["instructions"].max()
    # Of general mode's cold paths none is taken: design, section 5.
    assert len(counts) > 300 and most["malloc"] <= 250 and most["free"] <= 130


def test_the_parts_of_rtmallocs_memory_make_up_what_it_uses(natives):
    options = {"mallocs": 20_000, "copies": 4}
    parts = natives.run("taskset", RTMALLOC, "parts", "2008-profile-1", **options).iloc[0]
    last = space(natives, RTMALLOC, "2008-profile-1", **options).iloc[-1]
    assert parts["live"] < parts["usable"] < parts["in_use"] and parts["live"] <= parts["peak_live"]
    assert last["peak_live"] == parts["peak_live"] > 3 * (1 << 20)
    assert last["reached"] == pytest.approx(parts["in_use"] + parts["metadata"], rel=0.02)
    assert 0 < parts["metadata"] < 0.1 * parts["in_use"]


def test_the_parts_are_rtmallocs_alone(natives):
    with pytest.raises(Mistake, match="'parts' are of the allocator 'malloc' alone, got 'tlsf'"):
        natives.run("taskset", "tlsf", "parts", "2008-profile-1")
    with pytest.raises(Mistake, match="the malloc here has no rtm_stats"):
        natives.run("taskset", "malloc", "space", "2008-profile-1")
    with pytest.raises(Mistake, match="cannot open the allocator: /nowhere/rlsf"):
        natives.run("taskset", "/nowhere/rlsf.so", "space", "2008-profile-1")


def test_f_of_tlsf_over_ranges_of_sizes(natives):
    """2008, conclusions: below 30 % in all combinations of powers of two, around 15 % on average."""
    jobs = {text: job for text, job in range_jobs(natives, 1)}
    assert len(jobs) == 120
    chosen = pd.concat([jobs[f"F, {least} to {most} bytes"]() for least, most in ((32, 64), (64, 4096), (4096, 65536))])
    ranges = summarize(chosen)
    assert (ranges["worst"] < 30).all() and ranges["average"].between(1, 30).all()
    assert "F of TLSF over 3 ranges of sizes" in in_words(ranges)
    with pytest.raises(Mistake, match="no profile 'sizes-16-5'"):
        space(natives, "tlsf", "sizes-16-5")


def test_cells_of_what_could_not_run_are_left_out():
    series = pd.DataFrame(
        {"mallocs": [5, 9], "live": [3, 4], "peak_live": [4, 4], "reached": [5, 6], "allocator": "tlsf", "seed": 1}
    ).assign(load="2006-test-1")
    frames = {"space": series, "cost": pd.DataFrame(), "worst": pd.DataFrame(), "sweep": pd.DataFrame()}
    frames |= {name: pd.DataFrame() for name in ("steps", "ranges", "parts")}

    class Plan:
        paper = PAPERS["2006"]

    measured = assemble(Plan, frames, ["left out"])
    assert measured.cells.set_index("statistic").loc["mean", "measured"] == 50.0 and measured.failures == ["left out"]


def rtlab(*arguments):
    command = [sys.executable, "-m", "rtlab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["paper", "2007"], "Unknown paper '2007'. Did you mean '200"),
        (["paper", "2006", "--allocators", "tslf"], "Unknown allocator 'tslf'. Did you mean 'tlsf'?"),
        (["paper", "2008", "--loads", "2008-profil-1"], "Did you mean '2008-profile-1'?"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(arguments, expected):
    done = rtlab(*arguments)
    assert done.returncode == 2 and expected in done.stderr and "Traceback" not in done.stderr


def test_a_folder_without_results_is_refused(tmp_path):
    done = rtlab("results", str(tmp_path))
    assert done.returncode == 2 and "holds no results of rtlab paper" in done.stderr and "Traceback" not in done.stderr


def test_a_short_run_writes_page_and_tables(tmp_path):
    done = rtlab(
        *("paper", "2008", "--allocators", "tlsf,half-fit", "--loads", "2008-profile-1,2008-profile-3"),
        *("--seeds", "1", "--mallocs", "400", "--out", str(tmp_path)),
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 5
    assert "<script src" not in page and 'href="http' not in page  # self-contained
    cells = pd.read_csv(tmp_path / "cells.csv")
    assert set(cells["table"]) == {"IV", "V", "VI", "6.1"}
    assert cells.loc[cells["table"] == "VI", "published"].notna().all()
    assert json.loads((tmp_path / "environment.json").read_text())["kernel"]
    assert len(pd.read_csv(tmp_path / "steps.csv")) == 10
    look_at(tmp_path / "page.html", tmp_path)
    results = rtlab("results", str(tmp_path), "--out", str(tmp_path / "results.md"))
    text = (tmp_path / "results.md").read_text()
    assert results.returncode == 0, results.stderr
    assert "## rtlab paper 2008" in text and "`rtlab paper 2008 --allocators" in text and "load before" in text
    row = cells.query(
        "table == 'VI' and allocator == 'tlsf' and statistic == 'mean' and load == '2008-profile-3'"
    ).iloc[0]
    assert f"| {beside(row)} |" in text and f"({row['published']:.2f})" in beside(row)
    assert (tmp_path / "figure-1.svg").read_text().startswith("<?xml")
    assert Path(tmp_path / "runs.csv").exists()
