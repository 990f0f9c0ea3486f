"""The command line: what bad input is answered with, and with which exit status."""

import os
import shutil
import subprocess
import sys

import pytest


def rtlab(root, *arguments):
    environment = {**os.environ, "RTLAB_ROOT": str(root), "COLUMNS": "400"}
    command = [sys.executable, "-m", "rtlab", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=root)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["bench", "--allocators", "snmaloc"], "Unknown allocator 'snmaloc'. Did you mean 'snmalloc'?"),
        (["bench", "--loads", "cfrak"], "Unknown load or program 'cfrak'. Did you mean 'cfrac'?"),
        (["peers", "--only", "jemaloc"], "Unknown peer 'jemaloc'. Did you mean 'jemalloc'?"),
        (["bench", "--allocators", "rtmalloc"], "Run 'make' first."),
        (["bench", "--allocators", "mimalloc-1.7"], "Run 'rtlab peers' first."),
    ],
)
def test_bad_input_is_answered_with_what_to_do(tmp_path, arguments, expected):
    done = rtlab(tmp_path, *arguments)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_loads_that_are_not_built_are_named(tmp_path):
    (tmp_path / "lab").symlink_to(os.path.dirname(os.path.dirname(__file__)))
    done = rtlab(tmp_path, "bench", "--allocators", "glibc", "--loads", "cfrac")
    assert done.returncode == 2
    assert "Left out: cfrac: not built (run 'make')" in done.stdout
    assert "Nothing to run" in done.stderr


@pytest.mark.parametrize("option", [["--runs", "0"], ["--threads", "1"], ["--scale", "0"], ["--timeout", "x"]])
def test_numbers_out_of_range_are_refused(tmp_path, option):
    done = rtlab(tmp_path, "bench", *option)
    assert done.returncode == 2 and option[0] in done.stderr


@pytest.mark.skipif(shutil.which("lua5.4") is None, reason="no lua5.4")
def test_a_benchmark_writes_its_figures_and_its_environment(tmp_path):
    import json

    (tmp_path / "lab").symlink_to(os.path.dirname(os.path.dirname(__file__)))
    out = tmp_path / "out"
    done = rtlab(
        tmp_path,
        *("bench", "--allocators", "glibc", "--loads", "lua", "--runs", "2", "--scale", "0.05", "--out", str(out)),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((out / "bench.json").read_text())
    assert found["complete"] and found["medians"][0]["entry"] == "lua"
    assert 0 < found["medians"][0]["time_s"] < 60 and found["medians"][0]["runs"] == 2
    assert found["environment"]["allocators"]["glibc"]["version"]
    assert len((out / "runs.csv").read_text().splitlines()) == 3
