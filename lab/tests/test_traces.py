"""Traces on any allocator: the plan, the runner, what is kept, what a failure is called."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rtlab.allocators import Allocator
from rtlab.native import ensure_native
from rtlab.places import find_places
from rtlab.traces.contenders import area_bytes
from rtlab.traces.plan import lanes_of, write_plan
from rtlab.traces.replay_command import load_plan
from rtlab.traces.replaying import Bench, keep, kept, replay_on
from rtlab.traces.statistics import cost_table, groups, run_table

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "rtmalloc" / "tests"))
from traces import chunk, two_threads, write_trace

GLIBC = Allocator("glibc", None, "1", "")
MALLOC, FREE, FROM, TO = 3, 6, 7, 8
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")


@pytest.fixture
def bench(tmp_path):
    def make(trace, runs=2, limit_s=30):
        plan = load_plan(trace)
        write_plan(plan, tmp_path / "plan")
        return plan, Bench(ensure_native(find_places()), tmp_path / "plan", tmp_path, runs, limit_s)

    return make


def played(plan_and_bench, allocator=GLIBC):
    return replay_on(plan_and_bench[1], allocator, 0, lambda _: None)


def passing(path, blocks=3000):
    """Thread 1 allocates, thread 2 frees, always the same address."""
    one = [(10 * i, MALLOC, 0x1000, 100) for i in range(1, blocks + 1)]
    two = [(10 * i + 5, FREE, 0x1000, 0) for i in range(1, blocks + 1)]
    length = 24 * (blocks + 2)
    return write_trace(path, chunk((1, 0, one), length=length), chunk((2, 0, two), length=length))


def big_blocks(path, blocks=40):
    records = []
    for i in range(blocks):
        records += [(10 * i, MALLOC, 0x1000, 1 << 20), (10 * i + 5, FREE, 0x1000, 0)]
    return write_trace(path, chunk((1, 0, records), length=24 * (2 * blocks + 2)))


def test_a_plan_has_numbered_blocks_and_one_operation_for_a_resize(tmp_path):
    plan = load_plan(two_threads(tmp_path / "t"))
    rows = [tuple(row)[:3] + tuple(row)[4:6] for row in plan.operations.tolist()]
    assert rows == [  # size, block, old, kind, alignment
        (100, 0, 0, 1, 0),
        (50, 1, 0, 2, 0),
        (0, 1, 0, 4, 0),
        (0, 0, 0, 4, 0),
        (64, 2, 0, 3, 0),
        (300, 3, 2, 5, 0),
    ]
    assert plan.lanes.tolist() == [3, 3] and plan.remote.tolist() == [False, False, False, True, False, False]
    assert (plan.peak_live, plan.left_out) == (300, 2)


def test_threads_that_follow_each_other_share_a_lane():
    threads = np.array([1, 2, 2, 1, 3, 1, 4, 3], np.int32)
    assert lanes_of(threads, np.arange(8)).tolist() == [0, 1, 1, 0, 1, 0, 0, 1]


def test_every_operation_is_played_and_timed(bench, tmp_path):
    made = bench(two_threads(tmp_path / "t"))
    replayed, cycles = played(made)
    assert replayed.status == "ok" and replayed.failures == 0 and len(replayed.wall_s) == 2
    assert len(cycles) == 6 and np.all(cycles < 2**31)
    assert replayed.ticks_per_second > 1e6


def test_a_block_is_freed_by_the_other_thread_after_it_was_allocated(bench, tmp_path):
    """Out of order, the runner would wait for ever or glibc would see the double free."""
    made = bench(passing(tmp_path / "t"))
    replayed, cycles = played(made)
    assert replayed.status == "ok" and len(cycles) == 6000
    assert made[0].operations["window"].max() == 6000 // 1024 and made[0].remote.sum() == 3000


def test_system_calls_and_peak_are_those_of_the_replay(bench, tmp_path):
    _, prepared = bench(big_blocks(tmp_path / "t"), runs=1)
    replayed, _ = replay_on(prepared, Allocator("glibc", None, "1", "", {"MALLOC_MMAP_THRESHOLD_": "65536"}), 0, print)
    if replayed.calls is None:
        pytest.skip("ptrace or seccomp is not permitted here")
    assert replayed.calls["mmap"] == replayed.calls["munmap"] == 40
    assert replayed.minor_faults[0] >= 40 * 256 and replayed.peak_mib[0] > 1


def library(tmp_path, body):
    source, made = tmp_path / "bad.c", tmp_path / "bad.so"
    source.write_text("#include <stdlib.h>\n#include <unistd.h>\nvoid *__libc_malloc(size_t);\n" + body)
    subprocess.run(["gcc", "-shared", "-fPIC", "-fno-builtin", source, "-o", made], check=True)
    return Allocator("bad", made, "1", "")


@needs_gcc
@pytest.mark.parametrize(
    ("when_asked", "status"),
    [("abort();", "X SIGABRT"), ("_exit(7);", "X exit 7"), ("for (;;) pause();", "X timeout")],
)
def test_an_allocator_that_fails_is_an_x_with_its_reason(bench, tmp_path, when_asked, status):
    bad = library(
        tmp_path, f"void *malloc(size_t n) {{ if (n == (1 << 20)) {{ {when_asked} }} return __libc_malloc(n); }}"
    )
    plan, prepared = bench(big_blocks(tmp_path / "t"), limit_s=2)
    replayed, cycles = replay_on(prepared, bad, 0, lambda _: None)
    assert replayed.status == status and len(cycles) == 0
    assert run_table(plan, [replayed])["status"].tolist() == [status]


@needs_gcc
def test_no_memory_is_counted_and_the_replay_goes_on(bench, tmp_path):
    bad = library(tmp_path, "void *malloc(size_t n) { return n == (1 << 20) ? NULL : __libc_malloc(n); }")
    replayed, _ = replay_on(bench(big_blocks(tmp_path / "t"))[1], bad, 0, lambda _: None)
    assert replayed.status == "ok" and replayed.failures == 40


def test_a_kept_result_is_used_only_for_the_same_plan_and_allocator(bench, tmp_path):
    _, prepared = bench(two_threads(tmp_path / "t"))
    done = replay_on(prepared, GLIBC, 0, lambda _: None)
    keep(prepared, GLIBC, *done)
    again = kept(prepared, GLIBC)
    assert again is not None and again[0] == done[0] and np.array_equal(again[1], done[1])
    assert kept(prepared, Allocator("glibc", None, "2", "")) is None
    write_plan(load_plan(passing(tmp_path / "other")), prepared.plan)
    assert kept(prepared, GLIBC) is None


def test_statistics_by_hand(tmp_path):
    plan = load_plan(two_threads(tmp_path / "t"))
    cycles = {"a": np.array([10, 20, 5, 7, 30, 40], np.uint32)}
    table = cost_table(plan, cycles).set_index("operation")
    assert table.loc["allocate", ["calls", "min", "mean", "p50", "max"]].tolist() == [4, 10, 25, 25, 40]
    assert table.loc["free", "mean"] == 6 and table.loc["free, other thread's", "max"] == 7
    assert set(groups(plan)) == {*table.index} and "malloc" in table.index


def test_the_area_of_the_papers_allocators_grows_with_the_program():
    assert area_bytes(0) == 1 << 30 and area_bytes(1 << 30) >= 8 << 30


def rtlab(*arguments):
    command = [sys.executable, "-m", "rtlab", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "160"})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["replay", "/no/such"], "/no/such: the trace cannot be read"),
        (["replay", sys.executable], "is not a trace"),
        (["replay", "t", "--allocators", "rtmaloc-pag"], "Did you mean 'rtmalloc-pag'?"),
    ],
)
def test_bad_input_is_answered_with_what_to_do(arguments, expected):
    done = rtlab(*arguments)
    assert done.returncode == 2 and expected in done.stderr and "Traceback" not in done.stderr


def test_a_replay_writes_its_page_and_goes_on_where_it_was_interrupted(tmp_path):
    trace, out = passing(tmp_path / "t", 200), tmp_path / "out"
    first = rtlab("replay", trace, "--allocators", "glibc", "--runs", "2", "--out", out)
    assert first.returncode == 0, first.stderr
    made = (out / "kept" / "glibc.json").stat().st_mtime_ns
    second = rtlab("replay", trace, "--allocators", "glibc,tlsf,rt-mimalloc-pag", "--runs", "2", "--out", out)
    assert second.returncode == 0, second.stderr
    assert (out / "kept" / "glibc.json").stat().st_mtime_ns == made
    runs, costs = pd.read_csv(out / "replays.csv"), pd.read_csv(out / "costs.csv")
    assert runs["allocator"].tolist() == ["glibc", "tlsf", "rt-mimalloc-pag"] and (runs["status"] == "ok").all()
    assert (costs["calls"] == 200).all() and (costs["p50"] <= costs["p99.99"]).all()
    assert (out / "kept" / "rt-mimalloc-pag.rtp").is_file()
    assert len(pd.read_csv(out / "operations.csv")) == 400
    page = (out / "page.html").read_text()
    assert page.count("<svg") == 6 and "<script src" not in page and 'href="http' not in page
    assert (out / "figure-2.svg").read_text().startswith("<?xml")
    assert json.loads((out / "environment.json").read_text())["kernel"]
