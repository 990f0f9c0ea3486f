"""A program as far as preloading the library goes: dynamic or static, setuid, when it binds, its interpreter."""

from __future__ import annotations

import io
import os
import platform
import shlex
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from rtmalloc_tools.bound.binary import binds_now
from rtmalloc_tools.check.findings import BAD, GOOD, WARN, Finding
from rtmalloc_tools.files import read_bytes
from rtmalloc_tools.mistakes import Mistake

MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
FAMILY = ("malloc", "free", "calloc", "realloc")
SCRIPTS_DEEP = 4  # the kernel's own limit on interpreters of interpreters


@dataclass(frozen=True)
class Program:
    path: Path
    scripts: tuple[Path, ...]  # that lead to it by #!
    machine: str
    interpreter: str | None  # of a dynamic program
    bind_now: bool
    privileged: str  # why the dynamic linker ignores LD_PRELOAD; empty: it does not
    own_malloc: tuple[str, ...]  # functions of the malloc family that the program brings itself

    @property
    def takes_preload(self) -> bool:
        return self.interpreter is not None and not self.privileged


def find_program(command: str) -> Path:
    if not command:
        raise Mistake("The program's name is empty. Give a program behind --.")
    found = shutil.which(command)
    if found is None:
        if Path(command).is_dir():
            raise Mistake(f"{command}: is a directory, not a program.")
        if Path(command).exists():
            if "/" not in command:
                raise Mistake(f"{command}: is not in PATH. Write ./{command} for the one in this folder.")
            raise Mistake(f"{command}: may not be executed. `chmod +x` makes it executable.")
        raise Mistake(f"{command}: there is no such program.")
    return Path(found)


def inspect(command: str) -> Program:
    path = find_program(command)
    scripts: list[Path] = []
    contents = read_bytes(path, "program")
    while contents.startswith(b"#!") and len(scripts) < SCRIPTS_DEEP:
        scripts.append(path)
        path = script_interpreter(path, contents)
        contents = read_bytes(path, "program")
    try:
        elf = ELFFile(io.BytesIO(contents))
        return describe(path, tuple(scripts), elf)
    except ELFError as error:
        raise Mistake(f"{path}: is neither an ELF program nor a script: {error}.") from None


def script_interpreter(path: Path, contents: bytes) -> Path:
    """The first line's program; behind `env`, the one that env finds."""
    words = shlex.split(contents.splitlines()[0][2:].decode(errors="replace"))
    words = [word for word in words if not word.startswith("-")]
    if not words:
        raise Mistake(f"{path}: its first line names no interpreter.")
    if Path(words[0]).name == "env" and len(words) > 1:
        return find_program(words[1])
    return find_program(words[0])


def describe(path: Path, scripts: tuple[Path, ...], elf: ELFFile) -> Program:
    interpreter = next((s.get_interp_name() for s in elf.iter_segments() if s["p_type"] == "PT_INTERP"), None)
    defined = defined_names(elf)
    return Program(
        path=path,
        scripts=scripts,
        machine=machine_of(elf),
        interpreter=interpreter,
        bind_now=binds_now(elf),
        privileged=privileges(path),
        own_malloc=tuple(name for name in FAMILY if name in defined),
    )


def machine_of(elf: ELFFile) -> str:
    return MACHINES.get(elf["e_machine"], str(elf["e_machine"]))


def defined_names(elf: ELFFile) -> set[str]:
    """What the dynamic linker finds in it."""
    symbols = elf.get_section_by_name(".dynsym")
    return {s.name for s in symbols.iter_symbols() if s["st_shndx"] != "SHN_UNDEF"} if symbols else set()


def privileges(path: Path) -> str:
    mode = path.stat().st_mode
    if mode & stat.S_ISUID and path.stat().st_uid != os.geteuid():
        return "setuid"
    if mode & stat.S_ISGID and mode & stat.S_IXGRP and path.stat().st_gid != os.getegid():
        return "setgid"
    try:
        os.getxattr(path, "security.capability")
        return "has file capabilities" if os.geteuid() else ""
    except OSError:
        return ""


def findings(program: Program) -> list[Finding]:
    rows = [Finding("program", " -> ".join(str(path) for path in (*program.scripts, program.path)), GOOD)]
    if program.machine != platform.machine():
        rows.append(
            Finding(
                "machine", program.machine, BAD, f"the program is for another machine than this {platform.machine()}"
            )
        )
    rows.append(linking(program))
    if program.interpreter is not None:
        there = Path(program.interpreter).exists()
        advice = "" if there else "the dynamic linker that the program names is not here: it cannot start"
        rows.append(Finding("dynamic linker", program.interpreter, GOOD if there else BAD, advice))
        rows.append(binding(program))
    if program.own_malloc:
        advice = "its own calls may not reach rtmalloc: link librtmalloc-override.o first instead"
        rows.append(Finding("own malloc", ", ".join(program.own_malloc), WARN, advice))
    return rows


def linking(program: Program) -> Finding:
    if program.interpreter is None:
        return Finding(
            "linking", "static", BAD, "preloading does nothing: link librtmalloc-override.o or librtmalloc.a into it"
        )
    if program.privileged:
        return Finding(
            "linking",
            f"dynamic, {program.privileged}",
            BAD,
            "the dynamic linker ignores LD_PRELOAD: link the library instead, and as that takes no options from the "
            "environment there, call rtm_load_profile and rtm_seal",
        )
    return Finding("linking", "dynamic: preloading works", GOOD)


def binding(program: Program) -> Finding:
    if program.bind_now:
        return Finding("binding", "when it starts (BIND_NOW)", GOOD)
    return Finding(
        "binding",
        "at each function's first call",
        WARN,
        "the first call takes long: link with -z now, or run with LD_BIND_NOW=1",
    )
