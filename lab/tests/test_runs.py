"""Running: the order, what one run's ending is called, and what is kept when runs are interrupted."""

import csv
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from rtlab import resuming
from rtlab.allocators import Allocator
from rtlab.entries import Client, Entry
from rtlab.measuring import Run, ending, essential_output, measure, preload
from rtlab.native import ensure_native
from rtlab.places import Places, find_places
from rtlab.rounds import rotated, run_all, schedule

A, B, C = (Allocator(name, None, "", "") for name in "abc")
GOOD = Run(1.0, 0.9, 0.1, 5.0, "ok", "")


def entry(name, *command, **more):
    return Entry(name, "program", command, **more)


def test_each_round_starts_with_another_allocator():
    order = [allocator.name for _, _, allocator in schedule([entry("x")], [A, B, C], 3)]
    assert "".join(order) == "abcbcacab"
    assert rotated([], 1) == []


def test_an_interrupted_run_keeps_what_was_measured(tmp_path):
    file, calls = tmp_path / "runs.csv", []

    def interrupted_at_the_third(one, allocator):
        calls.append(allocator.name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return GOOD

    records, complete = run_all([entry("x")], [A, B], 5, interrupted_at_the_third, file, lambda *_: None)
    assert not complete and len(records) == 2
    with file.open() as stream:
        assert [row["allocator"] for row in csv.DictReader(stream)] == ["a", "b"]


def test_a_bench_that_was_interrupted_goes_on(tmp_path, monkeypatch):
    file, key_file, calls = tmp_path / "runs.csv", tmp_path / "runs.key", []

    def interrupted_at_the_third(native, one, allocator, limit_s):
        calls.append(allocator.name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return GOOD

    monkeypatch.setattr(resuming, "measure", interrupted_at_the_third)

    def bench(*allocators, limit_s=9):
        return resuming.run_rounds(None, [entry("x", "ls")], allocators, 3, limit_s, file, key_file, Console())

    records, complete = bench(A, B)
    assert not complete and len(records) == 2
    records, complete = bench(A, B)
    assert complete and len(records) == 6 and len(calls) == 7  # the third was made again
    assert bench(A, B)[1] and len(calls) == 7
    bench(A, B, limit_s=10)  # something else: nothing is taken over
    assert len(calls) == 13


def test_a_server_is_the_same_in_the_next_call_though_its_socket_has_another_name():
    def server(socket, program="server"):
        client = Client(("client", "-s", socket), Path(socket))
        return Entry("x", "program", (program, "--socket", socket), client=client)

    def key(*entries):
        return resuming.key_of(entries, [A], 20)

    assert key(server("/tmp/1.sock")) == key(server("/tmp/2.sock")) != key(server("/tmp/1.sock", "other"))


def test_a_failure_is_recorded_for_each_round_but_run_once(tmp_path):
    calls = []

    def crash(one, allocator):
        calls.append(allocator.name)
        return Run(0.1, 0.0, 0.0, 1.0, "X SIGSEGV", "") if allocator is B else GOOD

    records, complete = run_all([entry("x")], [A, B], 3, crash, tmp_path / "runs.csv", lambda *_: None)
    assert complete and calls.count("b") == 1
    assert [record.status for record in records if record.allocator == "b"] == ["X SIGSEGV"] * 3


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ((0, 0, False, ""), "ok"),
        ((3, 0, False, ""), "X exit 3"),
        ((-1, 11, False, ""), "X SIGSEGV"),
        ((-1, 9, True, ""), "X timeout"),
        ((0, 0, False, "ld.so: object 'a.so' from LD_PRELOAD cannot be preloaded: ignored."), "X not preloaded"),
    ],
)
def test_the_ending_of_a_run_has_a_name(how, name):
    assert ending(*how) == name


def test_only_the_checksum_lines_of_an_output_are_compared():
    assert essential_output(b"took 3 s\ncfrac: checksum 00ff\n") == b"cfrac: checksum 00ff"
    assert essential_output(b"no such line") == b"no such line"


def test_glibc_is_preloaded_only_where_the_program_brings_another_malloc():
    assert preload(entry("x"), A) == ""
    assert preload(entry("x", own_malloc=True), A).endswith("libc.so.6")


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    """The runner, built from this tree into a temporary folder."""
    root = tmp_path_factory.mktemp("project")
    (root / "lab").symlink_to(find_places().root / "lab")
    return ensure_native(Places(root))


def test_peak_memory_is_the_programs_own_and_not_that_of_python(native):
    small = measure(native, entry("x", "/bin/true"), A, 20)
    assert small.status == "ok" and small.peak_mib < 10
    large = measure(native, entry("x", "/usr/bin/python3", "-c", "b = bytearray(80 << 20)"), A, 20)
    assert 80 < large.peak_mib < 120


def test_time_is_measured(native):
    run = measure(native, entry("x", "sleep", "0.2"), A, 20)
    assert 0.2 <= run.wall_s < 5 and run.cpu_s < 0.1


def test_a_signal_an_exit_status_a_timeout_and_an_unloadable_library_are_told_apart(native, tmp_path):
    def status(*command, allocator=A, limit=20):
        return measure(native, entry("x", *command), allocator, limit).status

    assert status("sh", "-c", "kill -SEGV $$") == "X SIGSEGV"
    assert status("sh", "-c", "exit 4") == "X exit 4"
    assert status("sleep", "60", limit=1) == "X timeout"
    missing = Allocator("gone", tmp_path / "gone.so", "", "")
    assert status("true", allocator=missing) == "X not preloaded"


def test_the_probe_counts_every_allocation_of_a_program(native, tmp_path):
    from rtlab.probing import read_probe

    def allocations(count):
        script = f"import ctypes; c = ctypes.CDLL(None); [c.malloc(100) for _ in range({count})]"
        report = tmp_path / f"{count}.json"
        run = measure(native, entry("x", "/usr/bin/python3", "-c", script), A, 20, probe_report=report)
        assert run.status == "ok"
        found = read_probe(report)
        assert 0 < found.p9999_us <= found.longest_us
        assert 0 < found.overhead_us <= found.shortest_us < found.mean_us < found.longest_us
        assert 0 < found.variance_us2 < found.longest_us**2
        return found.allocations

    more = allocations(30_000) - allocations(10_000)
    assert 20_000 <= more < 21_000  # and a few for the longer list


SLOW_FIRST = """
#include <stddef.h>
#include <unistd.h>
void *__libc_malloc(size_t);
void *malloc(size_t bytes) {
  static int called;
  if (!called++) usleep(300000);  // as one that loads a profile
  return __libc_malloc(bytes);
}
"""


def test_the_probe_times_nothing_before_the_programs_start(native, tmp_path):
    """libstdc++ allocates before any constructor of a preloaded library; in that call a profile is loaded."""
    from rtlab.probing import read_probe

    source, library, report = tmp_path / "slow.c", tmp_path / "slow.so", tmp_path / "report.json"
    source.write_text(SLOW_FIRST)
    subprocess.run(["cc", "-O1", "-fPIC", "-shared", "-fno-builtin", "-o", library, source], check=True)
    slow = Allocator("slow", library, "", "")
    run = measure(native, entry("x", "cmake", "--version"), slow, 20, probe_report=report)
    found = read_probe(report)
    assert run.status == "ok" and run.wall_s > 0.3
    assert found.allocations > 10 and found.longest_us < 200_000
