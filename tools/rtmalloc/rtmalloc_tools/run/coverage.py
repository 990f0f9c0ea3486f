"""How much of a program its runs have reached, by gcov's counters: the loop of the paper's Fig. 7."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtmalloc_tools.mistakes import Mistake

NOTE_MAGIC = b"oncg"
CLANGS_UNTIL = 5  # gcc before that has no JSON
SYSTEM = ("/usr/", "/opt/")


@dataclass(frozen=True)
class Coverage:
    branches_taken: int
    branches: int
    lines_run: int
    lines: int


def share(part: int, whole: int) -> str:
    return f"{part}/{whole} ({part / whole:.1%})" if whole else "none"


def measure(folder: Path) -> Coverage:
    """The counters of all that was compiled into the folder, also of what never ran."""
    if not folder.is_dir():
        raise Mistake(
            f"{folder}: there is no such folder. Give the one that holds the .gcno files of a --coverage build."
        )
    notes = sorted(folder.rglob("*.gcno"))
    if not notes:
        raise Mistake(
            f"{folder}: holds no .gcno files. Build the program with gcc --coverage, and give its build folder."
        )
    if shutil.which("gcov") is None:
        raise Mistake("gcov is missing: it comes with gcc.")
    branches: dict[tuple[str, int, int], int] = {}
    lines: dict[tuple[str, int], int] = {}
    for note in notes:
        for document in run_gcov(note):
            add(document, branches, lines)
    return Coverage(
        sum(n > 0 for n in branches.values()), len(branches), sum(n > 0 for n in lines.values()), len(lines)
    )


def gcc_version(note: Path) -> int | None:
    """Of the gcc whose gcov reads the file: 12 where it has 'B22*', 9 for 'A93*', 4 for '408*', which clang writes."""
    with note.open("rb") as file:
        begin = file.read(8)
    found = re.fullmatch(r"(?:([A-Z])(\d)|(\d)\d)..", begin[7:3:-1].decode("latin-1"))
    if begin[:4] != NOTE_MAGIC or not found:
        return None
    return int(found[3]) if found[3] else 10 * (ord(found[1]) - ord("A")) + int(found[2])


def run_gcov(note: Path) -> list[Mapping[str, Any]]:
    version = gcc_version(note)
    if version is not None and version < CLANGS_UNTIL:
        raise Mistake(f"{note}: was made by clang, whose counters gcov cannot read. Build with gcc --coverage.")
    program = shutil.which(f"gcov-{version}") or "gcov"
    command = [program, "--json-format", "--stdout", "--branch-probabilities", note.name]
    done = subprocess.run(command, cwd=note.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = "; ".join(done.stderr.split("\n")).strip("; ") or "no reason given"
        needs = f" It was made by gcc {version}: gcov-{version} in PATH can." if version and program == "gcov" else ""
        raise Mistake(f"{note}: gcov cannot read it: {reason}.{needs}")
    try:
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    except (ValueError, RecursionError) as error:
        raise Mistake(f"{note}: gcov's output cannot be read: {error}.") from None


def add(
    document: Mapping[str, Any], branches: dict[tuple[str, int, int], int], lines: dict[tuple[str, int], int]
) -> None:
    """A source file that several objects include counts once, with what any of them reached."""
    folder = str(document.get("current_working_directory", ""))
    for file in own_files(document):
        name = str(Path(folder) / file["file"])
        for line in file["lines"]:
            key = name, int(line["line_number"])
            lines[key] = max(lines.get(key, 0), int(line["count"]))
            for number, branch in enumerate(line.get("branches", ())):
                if branch.get("throw"):
                    continue
                place = (*key, number)
                branches[place] = max(branches.get(place, 0), int(branch["count"]))


def own_files(document: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return [file for file in document.get("files", ()) if not str(file["file"]).startswith(SYSTEM)]
