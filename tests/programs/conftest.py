"""The libraries that the programs run on.

RTM_LIBRARY        the library, build/librtmalloc.so if not set
RTM_DEBUG_LIBRARY  its debug variant, build/librtmalloc-debug.so if not set and there; smaller loads
CI=true or RTM_REQUIRE_PROGRAMS=1: a missing program is a failure, but for node and java, which setup may not get
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from preloaded import Allocator

ROOT = Path(__file__).resolve().parents[2]
LOADS = Path(__file__).resolve().parent / "loads"
REQUIRED = {"redis-server", "gs", "lua5.4", "git", "gcc"}


def library_path(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable, ROOT / "build" / default)).resolve()


@pytest.fixture(scope="session")
def witness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        absent("gcc")
    library = tmp_path_factory.mktemp("witness") / "witness.so"
    source = Path(__file__).resolve().parent / "witness.c"
    subprocess.run(["gcc", "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.fixture(params=["normal", "debug"])
def preloaded(request: pytest.FixtureRequest, witness: Path, tmp_path: Path) -> Allocator:
    """The library under test."""
    if request.param == "normal":
        library = library_path("RTM_LIBRARY", "librtmalloc.so")
        if not library.exists():
            pytest.fail(f"no {library}: run make, or set RTM_LIBRARY")
    else:
        library = library_path("RTM_DEBUG_LIBRARY", "librtmalloc-debug.so")
        if not library.exists():
            pytest.skip(f"no {library}")
    return Allocator(library, witness, tmp_path)


@pytest.fixture
def system(witness: Path, tmp_path: Path) -> Allocator:
    """The system's malloc, to compare with."""
    return Allocator(None, witness, tmp_path)


@pytest.fixture
def scale(request: pytest.FixtureRequest) -> int:
    """How large a load is: 3 on the library, 1 on its debug variant."""
    return 1 if request.node.callspec.params["preloaded"] == "debug" else 3


def absent(name: str) -> None:
    """Skips the test, or fails it where programs are required."""
    required = os.environ.get("CI") == "true" or os.environ.get("RTM_REQUIRE_PROGRAMS") == "1"
    if required and name in REQUIRED:
        pytest.fail(f"{name} is not installed, and is required here")
    pytest.skip(f"{name} is not installed")


@pytest.fixture
def program() -> Callable[[str], str]:
    """Finds a program by name."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            absent(name)
        return str(path)

    return find
