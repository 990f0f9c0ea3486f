"""`rtmalloc run`: what the program's environment is, and what is refused before it starts."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from profiles import profile

from rtmalloc_tools.mistakes import Mistake
from rtmalloc_tools.profile.profile_format import write_profile
from rtmalloc_tools.run.start import environment, settings


def test_options_become_the_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_profile(Path("app.rtp"), profile())
    found = settings("pag", Path("app.rtp"), True, "abort", Path("report.json"))
    assert found == {
        "RTMALLOC_MODE": "pag",
        "RTMALLOC_PROFILE": str(tmp_path / "app.rtp"),
        "RTMALLOC_SEAL": "1",
        "RTMALLOC_ON_MISS": "abort",
        "RTMALLOC_REPORT": str(tmp_path / "report.json"),
    }
    assert settings(None, None, False, None, None) == {}


def test_the_library_comes_first_and_only_once():
    library = Path("/lib/librtmalloc.so")
    assert environment(library, {}, {})["LD_PRELOAD"] == "/lib/librtmalloc.so"
    assert environment(library, {}, {"LD_PRELOAD": "/a.so:/lib/librtmalloc.so /b.so"})["LD_PRELOAD"] == (
        "/lib/librtmalloc.so /a.so /b.so"
    )
    assert environment(library, {"A": "1"}, {"A": "0", "B": "2"})["A"] == "1"
    with pytest.raises(Mistake, match="space or colon"):
        environment(Path("/my lib/librtmalloc.so"), {}, {})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--mode", "pga"), "Unknown mode 'pga'. Did you mean 'pag'?"),
        (("--on-miss", "abrot"), "Did you mean 'abort'?"),
        (("--seal",), "--seal was given with no mode"),
        (("--seal", "--mode", "general"), "--seal was given with mode general"),
        (("--profile", "/no/such.rtp"), "/no/such.rtp: the profile cannot be read"),
        (("--library", "/no/such.so"), "/no/such.so: there is no such library"),
    ],
)
def test_what_makes_no_sense_is_refused(rtmalloc, library, arguments, message):
    given = arguments if "--library" in arguments else ("--library", library, *arguments)
    status, _, complaint = rtmalloc("run", *given, "--", "false")
    assert status == 2 and message in complaint


@pytest.mark.parametrize("command", [("run",), ("record", "-o", "app.rtp")])
def test_a_library_that_is_another_one_is_refused(rtmalloc, build, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    other, text = build("int nothing;"), tmp_path / "text.so"
    text.write_text("hello")
    arm = bytearray(build("int rtm_version(void) { return 1; }").read_bytes())
    arm[18:20] = (183 if platform.machine() == "x86_64" else 62).to_bytes(2, "little")  # e_machine
    (tmp_path / "arm.so").write_bytes(arm)
    os.mkfifo(tmp_path / "fifo")
    for given, message in (
        (other, "is not rtmalloc: it has no rtm_version"),
        (text, "is not an ELF file that can be read"),
        (tmp_path / "arm.so", f"and this machine is {platform.machine()}"),
        (tmp_path / "fifo", "is no regular file"),
    ):
        status, _, complaint = rtmalloc(*command, "--library", given, "--", "false")
        assert status == 2 and f"{given}: " in complaint and message in complaint


@pytest.mark.parametrize(
    ("options", "sealed_by", "hinted"),
    [
        (("--on-miss", "abort"), None, True),
        (("--on-miss", "count"), None, False),
        (("--on-miss", "abort", "--seal"), None, False),
        (("--on-miss", "abort"), "1", False),
        ((), None, False),
    ],
)
def test_what_acts_from_the_seal_on_is_said_to(library, options, sealed_by, hinted):
    command = ["run", "--mode", "pag", *options, "--library", str(library), "--", "true"]
    values = {**os.environ, **({"RTMALLOC_SEAL": sealed_by} if sealed_by else {})}
    started = [sys.executable, "-m", "rtmalloc_tools", *command]
    done = subprocess.run(started, capture_output=True, text=True, env=values, check=False)
    hint = "rtmalloc: --on-miss abort acts from the seal on. Add --seal, unless the program calls rtm_seal.\n"
    assert (done.returncode, done.stderr) == (0, hint if hinted else "")


def test_a_program_that_does_not_exist_is_named(rtmalloc, library):
    status, _, complaint = rtmalloc("run", "--library", library, "--", "no-such-program")
    assert status == 2 and "no-such-program: there is no such program" in complaint


def test_the_program_runs_in_this_place_with_its_own_options_and_status(build):
    library = build(
        "int rtm_version(void) { return 1; }\n"
        '#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { setenv("LOADED", "yes", 1); }\n'
    )
    program = 'echo "$RTMALLOC_MODE $LOADED $0 $*"; exit 7'
    command = ["run", "--mode", "seg", "--library", str(library), "--", "sh", "-c", program, "a", "--seal", "-x"]
    done = subprocess.run(
        [sys.executable, "-m", "rtmalloc_tools", *command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (7, "seg yes a --seal -x\n")
