"""The commands on real programs and the library as it is built: record, look, load, seal. Skipped where it is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rtmalloc_tools.places import LIBRARY, checkout
from rtmalloc_tools.profile.profile_format import build_here, read_profile
from rtmalloc_tools.run.record import GAVE_UP

BUILT = Path(os.environ.get("RTM_LIBRARY", checkout() / "build" / LIBRARY))
WIDE = BUILT.parent / "tests" / "modes" / "wide"
CONTROL_LOOP = BUILT.parent / "examples" / "realtime" / "control_loop"
PYTHON = Path(sys.executable).resolve()
pytestmark = pytest.mark.skipif(not BUILT.is_file(), reason="the library is not built")

Done = subprocess.CompletedProcess[str]
Command = Callable[..., Done]

# The same in every run: no hashing of strings by a random seed.
SCRIPT = "import json; d = {str(i): [i] * (i % 7) for i in range(3000)}; print(len(json.loads(json.dumps(d))))"

# Its n-th run needs 200 n blocks of 100 bytes; the number is in a file.
GROWING = """
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  int run = 0;
  FILE *file = fopen(argv[1], "r+");
  if (fscanf(file, "%d", &run) != 1)
    return 2;
  rewind(file);
  fprintf(file, "%d", run + 1);
  fclose(file);
  for (int i = 0; i < run * 200; i++)
    *(volatile char *)malloc(100) = 1;
  if (run > 2)
    puts("many");
  return argc < 2;
}
"""


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """build/rtmalloc in a folder of its own."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RTMALLOC_")}

    def start(*arguments: object) -> Done:
        line = [sys.executable, "-m", "rtmalloc_tools", *(str(argument) for argument in arguments)]
        environment = plain | {"COLUMNS": "200", "PYTHONHASHSEED": "0"}
        return subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return start


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    (tmp_path / "growing.c").write_text(GROWING)
    (tmp_path / "number").write_text("1")
    build = ["gcc", "--coverage", "-O0", "growing.c", "-o", "growing"]
    subprocess.run(build, cwd=tmp_path, check=True)
    return tmp_path / "growing"


def record(command: Command, *arguments: object) -> Done:
    return command("record", "--library", BUILT, "-o", "app.rtp", *arguments)


def test_python_is_stable_and_sealed_it_misses_nothing(command: Command, tmp_path: Path) -> None:
    done = record(command, "--until-stable", "--", PYTHON, "-c", SCRIPT)
    assert done.returncode == 0, done.stderr
    assert "stable after 4 runs: within 5% for 3 runs in a row" in done.stdout
    assert "processes recorded" not in done.stdout
    profile = read_profile(tmp_path / "app.rtp")
    assert profile.build == build_here()
    assert profile.runs == 4 and [entry.name for entry in profile.records] == ["whole process", "main thread #0"]
    assert sum(profile.records[1].blocks) > 1000
    options = ["--mode", "pag", "--profile", "app.rtp", "--seal", "--on-miss", "abort", "--report", "report.json"]
    done = command("run", "--library", BUILT, *options, "--", PYTHON, "-c", SCRIPT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3000\n", "")
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["misses"], report["system_calls_since_seal"], report["sealed"]) == (0, 0, 1)


def test_a_program_that_needs_more_in_each_run_is_given_up_with_what_grew(command: Command, growing: Path) -> None:
    done = record(command, "--until-stable", "--limit", 4, "--", growing, "number")
    assert done.returncode == GAVE_UP
    assert "NOT stable after 4 runs, the limit" in done.stdout
    assert "blocks of 112" in done.stdout, "says what grew"


def test_coverage_goes_up_with_the_runs_that_reach_more(command: Command, growing: Path) -> None:
    done = record(command, "--until-stable", "--limit", 3, "--coverage", ".", "--", growing, "number")
    branches = [line.split("branches ")[1].split("/")[0] for line in done.stdout.splitlines() if "branches " in line][
        :3
    ]
    assert int(branches[0]) < int(branches[2]), done.stdout
    assert "Coverage and profile, run by run" in done.stdout


@pytest.mark.skipif(not CONTROL_LOOP.is_file(), reason="the example is not built")
def test_the_control_loop_runs_sealed_with_headroom_for_its_races(command: Command, tmp_path: Path) -> None:
    done = record(command, "--until-stable", "--limit", 8, "--headroom", "20%", "--", CONTROL_LOOP, 150)
    words = {0: "stable after ", GAVE_UP: "NOT stable after 8 runs"}  # on a busy machine its threads race more
    assert words[done.returncode] in done.stdout
    names = [entry.name for entry in read_profile(tmp_path / "app.rtp").records]
    assert len(names) == 5 and sum(name.startswith("control_loop+") for name in names) == 3, names
    raised = command("profile", "merge", "--headroom", "100%", "-o", "raised.rtp", "app.rtp")
    assert raised.returncode == 0, raised.stderr
    for mode in ("seg", "pag"):
        options = ["--mode", mode, "--profile", "raised.rtp", "--seal", "--report", "report.json"]
        done = command("run", "--library", BUILT, *options, "--", CONTROL_LOOP, 150)
        assert done.returncode == 0 and done.stderr == ""
        report = json.loads((tmp_path / "report.json").read_text())
        assert (report["mode"], report["misses"], report["system_calls_since_seal"]) == (mode, 0, 0)
        # The certificate knows beforehand, to the byte.
        done = command("bound", "--library", BUILT, "--profile", "raised.rtp", "--only", "pag/free/page", "--json")
        assert json.loads(done.stdout)["memory"][mode]["bytes"] == report["prepared_bytes"], mode


@pytest.mark.skipif(not WIDE.is_file(), reason="the program is not built")
def test_the_certificate_knows_what_alignments_take(command: Command, tmp_path: Path) -> None:
    for most in (16, 512):  # KiB: the runs differ, so that there is something in common
        assert record(command, "--", WIDE, 1, most).returncode == 0
    done = command("bound", "--library", BUILT, "--profile", "app.rtp", "--only", "pag/free/page", "--json")
    memory = json.loads(done.stdout)["memory"]
    for mode in ("seg", "pag"):
        options = ["--mode", mode, "--profile", "app.rtp", "--seal", "--report", "report.json"]
        assert command("run", "--library", BUILT, *options, "--", WIDE, 2, 512).returncode == 0
        report = json.loads((tmp_path / "report.json").read_text())
        assert (report["misses"], report["prepared_bytes"]) == (0, memory[mode]["bytes"]), mode


def test_the_processes_of_a_script_are_told_of(command: Command) -> None:
    done = record(command, "--", "sh", "-c", "ls; ls; true")
    assert done.returncode == 0
    assert "2 processes recorded in that run" in done.stdout  # the shell itself ends without its exit handlers


def test_the_profile_commands_read_what_the_library_writes(command: Command, tmp_path: Path) -> None:
    for name, script in (("a.rtp", "pass"), ("b.rtp", SCRIPT)):
        assert command("record", "--library", BUILT, "-o", name, "--", PYTHON, "-c", script).returncode == 0
    assert "a.rtp: good: 2 records, runs 1" in command("profile", "check", "a.rtp", "b.rtp").stdout
    shown = command("profile", "show", "b.rtp").stdout
    assert "main thread #0: blocks by size (equation 3)" in shown and "segments (equation 2)" in shown
    assert "main thread #0" in command("profile", "diff", "a.rtp", "b.rtp").stdout
    assert command("profile", "merge", "-o", "c.rtp", "a.rtp", "b.rtp").returncode == 0
    # The library reads what this package writes.
    options = ["--mode", "pag", "--profile", "c.rtp", "--seal", "--on-miss", "abort"]
    done = command("run", "--library", BUILT, *options, "--", PYTHON, "-c", SCRIPT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3000\n", "")


def test_a_machine_is_checked_with_its_program(command: Command) -> None:
    done = command("check", "--", PYTHON, "-c", "pass")
    assert done.returncode == 0 and "RLIMIT_MEMLOCK" in done.stdout and PYTHON.name in done.stdout, done.stdout
