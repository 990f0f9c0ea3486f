"""`rtmalloc record`: a fake program that writes profiles, as the library will, and a gcov build."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from profiles import profile, record

from rtmalloc_tools.mistakes import Mistake
from rtmalloc_tools.profile.profile_format import read_profile, write_profile
from rtmalloc_tools.run.coverage import measure
from rtmalloc_tools.run.record import GAVE_UP
from rtmalloc_tools.run.signals import PassedOn
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
(counter.parent / "environment").write_text("\\n".join(f"{{name}}={{value}}" for name, value in os.environ.items()))
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
def fake(tmp_path, library, rtmalloc):
    """`rtmalloc record` on a program whose n-th run has the n-th peak."""

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


def test_the_environment_is_as_large_as_the_sealed_runs(fake, tmp_path, monkeypatch):
    monkeypatch.setenv("RTMALLOC_ON_MISS", "report")  # the user's own stays
    fake([5])
    given = (tmp_path / "environment").read_text().splitlines()
    expected = {"RTMALLOC_PROFILE=", "RTMALLOC_MODE=general", "RTMALLOC_SEAL=0", "RTMALLOC_ON_MISS=report"}
    assert {entry for entry in given if entry.startswith("RTMALLOC_") and "RECORD" not in entry} == expected


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
        (("--limit", "9", "--headroom", "5%"), "--limit and --headroom without --until-stable: the program runs once"),
        (("-o", ""), "The name of the file to write is empty"),
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


NAPPING = """#!{python}
import pathlib, signal, sys, time
def end(number, frame):
    pathlib.Path("ended").write_text(str(number))
    sys.exit({status}) if {status} else (signal.signal(number, signal.SIG_DFL), signal.raise_signal(number))
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, end)
pathlib.Path("started").touch()
time.sleep(60)
"""


@pytest.mark.parametrize(("number", "own", "status"), [(15, 0, 143), (1, 0, 129), (15, 7, 7)])
@pytest.mark.parametrize("kind", ["profile", "trace"])
def test_a_signal_ends_the_program_not_the_command_alone(library, tmp_path, kind, number, own, status):
    program = tmp_path / "program"
    program.write_text(NAPPING.format(python=sys.executable, status=own))
    program.chmod(0o755)
    options = ["record", "--library", library] if kind == "profile" else ["trace", "record", "--tracer", library]
    command = [sys.executable, "-m", "rtmalloc_tools", *options, "-o", "out", "--", program]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as it:
        wait_for(tmp_path / "started")
        it.send_signal(number)
        complaint = it.stderr.read()
    assert (tmp_path / "ended").read_text() == str(number)
    if kind == "profile":
        assert it.returncode == status
    else:  # the library is no tracer
        assert f"(status {own or -number}) wrote no trace" in complaint


def wait_for(path: Path) -> None:
    until = time.monotonic() + 30
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)


def test_a_signal_ends_the_runs_until_stable(fake, tmp_path, monkeypatch):
    # The program's second run ends well; the command was told to end before.
    class Told(PassedOn):
        def __exit__(self, *parts):
            super().__exit__(*parts)
            self.got = 15 if runs_made(tmp_path) == 2 else 0

    monkeypatch.setattr("rtmalloc_tools.run.record.PassedOn", Told)
    status, out, _ = fake([5], "--until-stable")
    assert status == 143 and "NOT stable: ended by signal 15 after 2 runs" in out
    assert (peak(tmp_path), runs_made(tmp_path)) == (5, 2)


def test_a_link_stays_and_what_it_leads_to_is_recorded(fake, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "app.rtp").symlink_to(folder / "there.rtp")
    assert fake([5, 9], "--until-stable", merges=False)[0] == 0
    assert (tmp_path / "app.rtp").is_symlink() and read_profile(folder / "there.rtp").records[0].blocks[1] == 9
    (tmp_path / "app.rtp").unlink()
    (tmp_path / "app.rtp").symlink_to(tmp_path / "none" / "there.rtp")
    status, _, complaint = fake([5])
    assert status == 2 and f"its folder {tmp_path / 'none'} does not exist" in complaint


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


def test_coverage_of_another_compiler_names_it(covered):
    note = covered / "main.gcno"
    made = note.read_bytes()
    for version, message in (
        (b"*804", "was made by clang, whose counters gcov cannot read. Build with gcc --coverage."),
        (b"*29Z", "It was made by gcc 259: gcov-259 in PATH can."),
        (b"what", "gcov cannot read it: "),
    ):
        note.write_bytes(made[:4] + version + made[8:])
        with pytest.raises(Mistake) as refused:
            measure(covered)
        assert message in str(refused.value) and str(note) in str(refused.value) and "\n" not in str(refused.value)


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
