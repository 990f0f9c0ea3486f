"""Which allocator suits a program: the ranking by hand, and the whole on a small program."""

import os
import subprocess
import sys

import pandas as pd
import pytest

from rtlab.rounds import read_records
from rtlab.traces.recommending import mark_other_output, ranking, recommend, whole_runs


def runs(*rows):
    """Rows are (allocator, time, memory, status, output)."""
    return pd.DataFrame(rows, columns=["allocator", "time_s", "peak_mib", "status", "output"])


def costs(**p9999):
    rows = [
        {"allocator": name, "operation": "allocate", "p99.99": value, "max": 10 * value}
        for name, value in p9999.items()
    ]
    return pd.DataFrame(rows)


GOOD = [("glibc", 2.0, 10.0, "ok", "a"), ("fast", 1.0, 40.0, "ok", "a"), ("small", 4.0, 5.0, "ok", "a")]


def test_the_score_is_the_geometric_mean_of_the_ratios_to_the_best():
    order = ranking(whole_runs(runs(*GOOD)), costs(glibc=800, fast=100, small=100)).set_index("allocator")
    assert order.index.tolist() == ["small", "fast", "glibc"]
    assert order["score"].tolist() == pytest.approx([4 ** (1 / 3), 2.0, 32 ** (1 / 3)])


def test_the_advice_names_the_best_for_each_purpose_with_its_figures():
    lines = recommend(ranking(whole_runs(runs(*GOOD)), costs(glibc=50, fast=100, small=800)))
    text = " ".join(lines)
    assert lines[0].startswith("glibc suits this program best")
    assert "For speed: fast, 1 s a run" in text and "For memory: small, 5.0 MiB" in text
    assert "For latency: glibc, one allocation in 10,000 takes more than 50 cycles" in text


def test_equal_times_are_called_equal():
    rows = [("a", t, 1.0, "ok", "") for t in (1.0, 1.2, 1.1)] + [("b", t, 1.0, "ok", "") for t in (1.05, 1.15, 1.25)]
    assert "within the noise of these runs as fast: b" in " ".join(
        recommend(ranking(whole_runs(runs(*rows)), costs(a=1, b=1)))
    )


def test_a_failure_in_the_program_or_in_the_replay_takes_an_allocator_out():
    rows = [*GOOD, ("fast", 1.0, 40.0, "X SIGSEGV", "")]
    whole = whole_runs(runs(*rows))
    assert whole.set_index("allocator").loc["fast", "status"] == "X SIGSEGV"
    assert ranking(whole, costs(glibc=1, fast=1))["allocator"].tolist() == ["glibc"]  # small was not replayed
    assert "nothing to recommend" in recommend(ranking(whole, costs(fast=1)))[0]


def test_other_output_is_a_failure_only_where_the_programs_own_is_always_the_same():
    rows = [("glibc", 1, 1, "ok", "a"), ("glibc", 1, 1, "ok", "a"), ("x", 1, 1, "ok", "b")]
    assert mark_other_output(runs(*rows))["status"].tolist() == ["ok", "ok", "X other output"]
    rows[1] = ("glibc", 1, 1, "ok", "c")
    assert (mark_other_output(runs(*rows))["status"] == "ok").all()


def rtlab(*arguments):
    command = [sys.executable, "-m", "rtlab", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "160"})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--cmd", ""], "The command is empty"),
        (["--cmd", "ls 'x"], "is not understood"),
        (["--cmd", "ls", "--allocators", "glibbc"], "Did you mean 'glibc'?"),
        (["--cmd", "no-such-program"], "no-such-program: there is no such program"),
        (["--cmd", "ls /no/such/file"], "ended with status 2 while it was recorded"),
    ],
)
def test_bad_input_is_answered_with_what_to_do(tmp_path, arguments, expected):
    done = rtlab("compare", *arguments, "--out", tmp_path)
    assert done.returncode == 2 and expected in done.stderr and "Traceback" not in done.stderr


def test_a_small_program_is_compared_and_a_second_call_adds_runs_only(tmp_path):
    names = ["glibc", "tlsf", "rtmalloc-pag"]  # the last with a profile
    chosen = ("--allocators", ",".join(names), "--replays", "1", "--out", tmp_path)
    command = ("compare", "--cmd", "ls -l /usr/bin", *chosen)
    first = rtlab(*command, "--runs", "1")
    assert first.returncode == 0, first.stderr
    times = [record.time_s for record in read_records(tmp_path / "runs.csv")]
    made = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "kept").glob("*.npy")}
    second = rtlab(*command, "--runs", "2")
    assert second.returncode == 0, second.stderr
    records = read_records(tmp_path / "runs.csv")
    assert [record.time_s for record in records][:3] == times and len(records) == 6
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "kept").glob("*.npy")} == made
    assert "suits this program best" in second.stdout
    assert any(tmp_path.rglob("program.rtp"))
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 7 and "suits this program best" in page and "<script src" not in page
    assert set(pd.read_csv(tmp_path / "ranking.csv")["allocator"]) == set(names)


def test_a_line_of_the_runs_that_was_cut_off_is_left_out(tmp_path):
    (tmp_path / "runs.csv").write_text(
        "entry,kind,round,allocator,time_s,wall_s,user_s,system_s,peak_mib,status,output,client_s\n"
        "program,program,0,glibc,1,1,0.5,0.5,3,ok,a,\n"
        "program,program,0,tls"
    )
    assert [record.allocator for record in read_records(tmp_path / "runs.csv")] == ["glibc"]
    assert read_records(tmp_path / "none.csv") == []
