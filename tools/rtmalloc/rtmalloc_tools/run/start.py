"""`rtmalloc run`: the environment that the library reads, and the program in place of this one."""

from __future__ import annotations

import io
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from rtmalloc_tools.bound.rows import MODES
from rtmalloc_tools.check.program import defined_names, inspect, machine_of
from rtmalloc_tools.files import read_bytes
from rtmalloc_tools.mistakes import Mistake, reason_of, unknown_name
from rtmalloc_tools.places import LIBRARY, find_library
from rtmalloc_tools.profile.profile_format import read_profile

VERSION_FUNCTION = "rtm_version"
ON_MISS = ("count", "report", "abort", "null")


def settings(
    mode: str | None, profile: Path | None, seal: bool, on_miss: str | None, report: Path | None
) -> dict[str, str]:
    """RTMALLOC_* for the options that were given, checked against each other."""
    if mode is not None and mode not in MODES:
        raise unknown_name("mode", mode, MODES)
    if on_miss is not None and on_miss not in ON_MISS:
        raise unknown_name("--on-miss", on_miss, ON_MISS)
    if seal and mode not in ("seg", "pag"):
        given = f"mode {mode}" if mode else "no mode"
        raise Mistake(f"--seal was given with {given}: only seg and pag can be sealed. Add --mode seg or --mode pag.")
    if profile is not None:
        read_profile(profile)  # complains about a file that is none
    values = {
        "RTMALLOC_MODE": mode,
        "RTMALLOC_PROFILE": str(profile.absolute()) if profile else None,
        "RTMALLOC_SEAL": "1" if seal else None,
        "RTMALLOC_ON_MISS": on_miss,
        "RTMALLOC_REPORT": str(report.absolute()) if report else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def hint(values: Mapping[str, str], base: Mapping[str, str]) -> str | None:
    """What is given may not do what it seems to; the program can still make it so."""
    on_miss = values.get("RTMALLOC_ON_MISS", "count")
    if on_miss == "count" or "RTMALLOC_SEAL" in {**base, **values}:
        return None
    return f"--on-miss {on_miss} acts from the seal on. Add --seal, unless the program calls rtm_seal."


def environment(library: Path, values: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """`base` with the library in front of whatever is preloaded already."""
    if any(mark in str(library) for mark in " :"):
        raise Mistake(f"{library}: LD_PRELOAD cannot name a path with a space or colon. Put the library elsewhere.")
    before = [entry for entry in base.get("LD_PRELOAD", "").replace(":", " ").split() if entry != str(library)]
    return {**base, **values, "LD_PRELOAD": " ".join([str(library), *before])}


def find_rtmalloc(given: Path | None) -> Path:
    """The library that is preloaded: with another one, or of another machine, the program would keep its allocator."""
    library = find_library(given)
    expected = f"Give the path of {LIBRARY} with --library."
    try:
        elf = ELFFile(io.BytesIO(read_bytes(library, "library")))
        machine, names = machine_of(elf), defined_names(elf)
    except ELFError as error:
        raise Mistake(f"{library}: is not an ELF file that can be read: {error}. {expected}") from None
    if elf["e_type"] != "ET_DYN" or VERSION_FUNCTION not in names:
        raise Mistake(f"{library}: is not rtmalloc: it has no {VERSION_FUNCTION}. {expected}")
    if machine != platform.machine():
        raise Mistake(f"{library}: is for {machine}, and this machine is {platform.machine()}. {expected}")
    return library


def check_preload(command: str) -> None:
    program = inspect(command)
    if program.interpreter is None:
        raise Mistake(f"{program.path}: is static, so nothing can be preloaded. Link librtmalloc-override.o into it.")
    if program.privileged:
        raise Mistake(
            f"{program.path}: {program.privileged}, so the dynamic linker ignores LD_PRELOAD. Link the library; it "
            "takes no options there, so the program calls rtm_load_profile and rtm_seal."
        )


def execute(command: Sequence[str], library: Path, values: Mapping[str, str]) -> NoReturn:
    """Does not come back."""
    check_preload(command[0])
    prepared = environment(library, values, os.environ)
    if text := hint(values, os.environ):
        print(f"rtmalloc: {text}", file=sys.stderr, flush=True)
    try:
        os.execvpe(command[0], list(command), prepared)
    except OSError as error:
        raise Mistake(f"{command[0]}: cannot be started: {reason_of(error)}.") from None
