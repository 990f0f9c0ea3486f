"""`rtmalloc record`: a fake program that writes profiles, as the library will, and a gcov build."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from profiles import profile, record

from rtmalloc_tools.mistakes import Mistake
from rtmalloc_tools.profile.profile_format import read_profile, write_profile
from rtmalloc_tools.run.coverage import measure
from rtmalloc_tools.run.record import GAVE_UP
from rtmalloc_tools.run.stability import Progress, after_run
from rtmalloc_tools.shares import share

PROGRAM = """#!{python}
import os, sys
from pathlib import Path
sys.path[:0] = {paths!r}
from profiles import profile, record
from rtmalloc_tools.profile.combine import merge
from rtmalloc_tools.profile.profile_format import read_profile, write_profile

counter, out = Path({counter!r}), Path(os.environ["RTMALLOC_RECORD"])
run = int(counter.read_text()) if counter.exists() else 0
counter.write_text(str(run + 1))
peaks, fails = {peaks!r}, {fails!r}
if run in fails:
    sys.exit(fails[run])
made = profile(record("", 0, 0, {{1: peaks[min(run, len(peaks) - 1)]}}))
if {merges!r} and out.exists():
    made = merge([read_profile(out), made], ["a", "b"])
if {writes!r}:
    write_profile(out, made)
"""


@pytest.fixture
def fake(tmp_path, build, rtmalloc):
    """`rtmalloc record` on a program whose n-th run has the n-th peak."""
    library = build("int nothing;")

    def run(peaks, *options, fails=None, merges=True, writes=True):
        program = tmp_path / "program"
        paths = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
        values = {"python": sys.executable, "paths": paths, "counter": str(tmp_path / "counter"), "peaks": peaks}
        program.write_text(PROGRAM.format(**values, fails=fails or {}, merges=merges, writes=writes))
        program.chmod(0o755)
        return rtmalloc("record", "--library", library, "-o", tmp_path / "app.rtp", *options, "--", program)

    return run


def peak(tmp_path: Path) -> int:
    return read_profile(tmp_path / "app.rtp").records[0].blocks[1]


def runs_made(tmp_path: Path) -> int:
    return int((tmp_path / "counter").read_text())


def test_one_run_is_recorded(fake, tmp_path):
    status, out, _ = fake([5, 9])
    assert status == 0 and "recorded" in out
    assert (peak(tmp_path), runs_made(tmp_path)) == (5, 1)


def test_until_stable_stops_after_as_many_quiet_runs_as_asked_for(fake, tmp_path):
    status, out, _ = fake([10, 20, 20, 20, 20, 99], "--until-stable", "--runs", "3")
    # 10 is first, 20 grows, then three runs stay within.
    assert status == 0 and "stable after 5 runs" in out
    assert (peak(tmp_path), runs_made(tmp_path)) == (20, 5)


def test_growth_within_the_headroom_is_stable(fake, tmp_path):
    assert fake([100, 104, 105, 105], "--until-stable", "--headroom", "5%")[0] == 0
    assert (peak(tmp_path), runs_made(tmp_path)) == (105, 4)


def test_a_profile_that_never_settles_is_given_up_at_the_limit(fake, tmp_path):
    status, out, _ = fake([10, 20, 40, 80, 160], "--until-stable", "--limit", "4")
    assert status == GAVE_UP and "NOT stable after 4 runs" in out and "--headroom" in out
    assert runs_made(tmp_path) == 4


def test_which_of_threads_that_are_alike_needs_the_most_does_not_matter():
    def made(*blocks: int):
        return profile(*(record("app", 0x40, index, {72: count}) for index, count in enumerate(blocks)))

    progress = after_run(Progress(None), made(20, 40), 0.05)
    progress = after_run(progress, made(40, 40), 0.05)
    assert progress.streak == 1
    progress = after_run(progress, made(40, 43), 0.05)
    assert (progress.streak, progress.grown[0].what) == (0, "blocks of 32768")


def test_where_threads_share_a_reserve_their_sum_counts():
    def made(together: int):
        threads = (
            record("app", 0x40, index, {1: 1}, granules=granules, granules_least=1, together=together)
            for index, granules in enumerate((5000, 4900, 4800, 4700))
        )
        return profile(record("*", 0, 0, granules=together), *threads, runs=2)

    first = after_run(Progress(None), made(5000), 0.05)
    assert after_run(first, made(5400), 0.05).streak == 1
    grown = after_run(first, made(5450), 0.05).grown
    assert [change.thread for change in grown] == ["whole process", "app+0x40"]


def test_a_slow_creep_is_not_stable():
    progress = Progress(None)
    for count in (100, 104, 108, 112):
        progress = after_run(progress, profile(record(blocks={1: count})), 0.05)
    # 104 is within 5 % of 100; 108 is not, and starts anew; 112 is within 5 % of 108.
    assert (progress.streak, progress.reference.records[0].blocks[1]) == (1, 108)


def test_a_failing_program_gives_its_exit_status(fake, tmp_path):
    status, out, _ = fake([5, 5, 5], "--until-stable", fails={1: 9})
    assert status == 9 and "Run 2: the program failed with exit status 9" in out
    assert peak(tmp_path) == 5


def test_a_profile_that_was_started_afresh_is_merged_with_the_one_before(fake, tmp_path):
    assert fake([10, 4, 4, 4], "--until-stable", merges=False)[0] == 0
    assert peak(tmp_path) == 10


def test_a_program_that_writes_no_profile_is_a_mistake(fake):
    status, _, complaint = fake([5], writes=False)
    assert status == 2 and "wrote no profile" in complaint


def test_a_bad_profile_is_refused_before_the_run(fake, tmp_path):
    (tmp_path / "app.rtp").write_bytes(b"not a profile")
    status, _, complaint = fake([5])
    assert status == 2 and "app.rtp: is not a profile" in complaint
    assert not (tmp_path / "counter").exists()


def test_a_profile_of_another_build_is_refused(fake, tmp_path):
    write_profile(tmp_path / "app.rtp", profile(record(), build=8))
    status, _, complaint = fake([5], merges=False)
    assert status == 2 and "another build" in complaint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--headroom", "much"), "Headroom 'much' is not understood"),
        (("--headroom", "150%"), "more than the profile itself"),
        (("--until-stable", "--limit", "2"), "--limit 2 is less than the 3 runs"),
        (("-o", "/no/such/folder/a.rtp"), "does not exist"),
        (("-o", "/tmp"), "is a directory"),
        (("-o", "/dev/full"), "is no regular file"),
        (("--coverage", "/no/such/folder"), "there is no such folder"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_run(fake, tmp_path, options, message):
    status, _, complaint = fake([5], *options)
    assert status == 2 and message in complaint
    assert not (tmp_path / "counter").exists()


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("0.05", 0.05), (" 12.5 % ", 0.125), ("0", 0)])
def test_the_headroom_in_words(text, value):
    assert share(text) == pytest.approx(value)


COVERED = """
#include <stdlib.h>
int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 0;
  if (n > 1)
    n *= 2;
  if (n > 10)
    n = 3;
  return n > 100;
}
"""


@pytest.fixture
def covered(tmp_path, build) -> Path:
    folder = tmp_path / "coverage"
    folder.mkdir()
    (folder / "main.c").write_text(COVERED)
    subprocess.run(["gcc", "--coverage", "-O0", "-c", "main.c"], cwd=folder, check=True)
    subprocess.run(["gcc", "--coverage", "main.o", "-o", "program"], cwd=folder, check=True)
    return folder


def test_coverage_counts_what_the_runs_have_reached(covered):
    before = measure(covered)
    assert (before.branches_taken, before.branches) == (0, 6) and before.lines_run == 0
    subprocess.run([covered / "program"], check=True)
    first = measure(covered)
    assert (first.branches_taken, first.branches) == (3, 6)
    subprocess.run([covered / "program", "20"], check=True)
    second = measure(covered)
    assert (second.branches_taken, second.lines_run) == (6, second.lines)


def test_a_header_in_two_objects_counts_once_with_what_either_reached(tmp_path, build):
    (tmp_path / "both.h").write_text("static int twice(int n) {\n  if (n > 1)\n    n *= 2;\n  return n;\n}\n")
    (tmp_path / "a_main.c").write_text('#include "both.h"\nint main(void) { return twice(0); }\n')
    (tmp_path / "b_other.c").write_text('#include "both.h"\nint other(void) { return twice(9); }\n')
    command = ["gcc", "--coverage", "-O0", "a_main.c", "b_other.c", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "program"], cwd=tmp_path, check=True)
    found = measure(tmp_path)
    assert (found.branches_taken, found.branches) == (1, 2)


def test_coverage_is_shown_run_by_run(fake, covered):
    status, out, _ = fake([5], "--until-stable", "--runs", "2", "--coverage", covered)
    assert status == 0
    assert "branches 0/6 (0.0%)" in out and "Coverage and profile, run by run" in out


def test_a_folder_without_counters_says_how_to_build(tmp_path):
    with pytest.raises(Mistake, match="gcc --coverage"):
        measure(tmp_path)
