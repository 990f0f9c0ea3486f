"""Small libraries compiled at test time, and rows for them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rtmalloc_tools.bound.analysis import Analyser, Result
from rtmalloc_tools.bound.binary import read_binary
from rtmalloc_tools.bound.rows import Apart, External, LoopBound, Named, Paths, Row
from rtmalloc_tools.cli import main

Build = Callable[..., Path]

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"build", "assemble", "bound_of"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(needs_gcc)


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Compiles C to a shared library that is bound when it is loaded."""

    def compile_c(source: str, *options: str, suffix: str = ".c") -> Path:
        number = len(list(tmp_path.glob("lib*.so")))
        file, library = tmp_path / f"source{number}{suffix}", tmp_path / f"lib{number}.so"
        file.write_text(source)
        flags = [
            "-O2",
            "-g",
            "-fPIC",
            "-shared",
            "-fno-jump-tables",
            "-fcf-protection=none",
            "-Wl,-z,now",
            "-Wl,-z,relro",
        ]
        subprocess.run(["gcc", *flags, *options, str(file), "-o", str(library)], check=True, capture_output=True)
        return library

    return compile_c


def function(name: str, body: str) -> str:
    """An assembler function with a type and an extent, as the compiler would write it."""
    return f".globl {name}\n.type {name}, @function\n{name}:\n{body}\n.size {name}, .-{name}\n"


@pytest.fixture
def assemble(build: Build) -> Callable[[dict[str, str]], Path]:
    """Builds functions given as assembler text."""

    def make(functions: dict[str, str], *options: str) -> Path:
        text = ".text\n" + "".join(function(name, body) for name, body in functions.items())
        return build(
            text + '.section .note.GNU-stack,"",@progbits\n', "-nostdlib", "-Wl,-Bsymbolic", *options, suffix=".s"
        )

    return make


def row(
    entry: str = "entry",
    mode: str = "general",
    exits: tuple[str, ...] = (),
    linear: tuple[str, ...] = (),
    limit: int | None = None,
) -> Row:
    named = {name: Named(name, Apart.EXIT, "never in a test") for name in exits}
    named |= {name: Named(name, Apart.LINEAR, "linear in a test") for name in linear}
    return Row(mode, "malloc", "page", entry, named, limit)


def analyse(library: Path, of: Row, loops: tuple[LoopBound, ...] = (), externals: tuple[External, ...] = ()) -> Result:
    paths = Paths((of,), loops, {external.name: external for external in externals})
    return Analyser(read_binary(library), paths).analyse(of)


@pytest.fixture
def bound_of(assemble: Callable[[dict[str, str]], Path]) -> Callable[..., Result]:
    """The result for assembler text: `entry` and, by keyword, other functions."""

    def compute(entry: str, of: Row | None = None, loops: tuple[LoopBound, ...] = (), **others: str) -> Result:
        return analyse(assemble({"entry": entry, **others}), of or row(), loops)

    return compute


@pytest.fixture
def library(build: Build) -> Path:
    """One that passes for rtmalloc, and leaves the program's allocator as it is."""
    return build("int rtm_version(void) { return 1; }\n")


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def rtmalloc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command, in this process: exit status, output, complaints. Wide, so that tables are not folded."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rtmalloc", *(str(argument) for argument in arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return command
