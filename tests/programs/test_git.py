"""git prints and packs the same on the library as on the system's malloc.

It works on this repository (or on RTM_GIT_REPOSITORY), or, if that has no commits or is shallow, on one
that is generated. The repository itself is only read: gc runs on clones.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT
from preloaded import Allocator, Output

ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": str(Path(__file__).with_name("git.config")),
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_PAGER": "cat",
}


def has_history(repository: Path) -> bool:
    command = ["git", "-C", str(repository), "rev-parse", "--is-shallow-repository", "--verify", "HEAD"]
    result = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=False)
    return result.returncode == 0 and "true" not in result.stdout.split()


def fast_import_stream(commits: int) -> bytes:
    """A history of 20 files that change a little in every commit."""
    stream = []
    for commit in range(commits):
        when = f"committer Tester <tester@example.org> {1_600_000_000 + commit * 60} +0000\n"
        stream.append(f"commit refs/heads/main\n{when}data 9\ncommit {commit % 100:02}\n")
        for file in (commit % 20, (commit * 7 + 1) % 20):
            text = "".join(f"line {line} of file {file}: {(line * 31 + commit * file) % 97}\n" for line in range(300))
            stream.append(f"M 100644 inline file{file}.txt\ndata {len(text)}\n{text}\n")
    return "".join(stream).encode()


@pytest.fixture
def repository(tmp_path: Path, program: Callable[[str], str]) -> Path:
    program("git")
    ours = Path(os.environ.get("RTM_GIT_REPOSITORY", ROOT))
    if has_history(ours):
        return ours
    generated = tmp_path / "generated"
    environment = {**os.environ, **ENVIRONMENT}
    subprocess.run(["git", "init", "-q", "-b", "main", generated], env=environment, check=True)
    subprocess.run(
        ["git", "-C", generated, "fast-import", "--quiet"], input=fast_import_stream(200), env=environment, check=True
    )
    return generated


def git(allocator: Allocator, repository: Path, *arguments: object) -> Output:
    return allocator.run("git", "-C", repository, *arguments, env=ENVIRONMENT)


def test_log(system: Allocator, preloaded: Allocator, scale: int, repository: Path) -> None:
    arguments = ("log", "-p", "--stat", f"-n{scale * 100}", "HEAD")
    expected = git(system, repository, *arguments)
    assert expected.stdout.startswith(b"commit ")
    assert git(preloaded, repository, *arguments) == expected


def test_clone_gc_and_fsck(system: Allocator, preloaded: Allocator, repository: Path, tmp_path: Path) -> None:
    def packed(allocator: Allocator, name: str) -> list[Output | list[str]]:
        clone = tmp_path / name
        allocator.run("git", "clone", "-q", "--mirror", "--no-local", repository, clone, env=ENVIRONMENT)
        git(allocator, clone, "gc", "-q", "--prune=now")
        packs = sorted(path.name for path in (clone / "objects" / "pack").iterdir())
        checked = git(allocator, clone, "fsck", "--full", "--strict", "--no-progress")
        return [packs, checked, git(allocator, clone, "rev-list", "--all", "--objects")]

    expected = packed(system, "system")
    assert any(name.endswith(".pack") for name in expected[0])
    assert packed(preloaded, "preloaded") == expected
