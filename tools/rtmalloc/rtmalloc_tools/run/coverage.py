"""How much of a program its runs have reached, by gcov's counters: the loop of the paper's Fig. 7."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtmalloc_tools.mistakes import Mistake

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


def run_gcov(note: Path) -> list[Mapping[str, Any]]:
    command = ["gcov", "--json-format", "--stdout", "--branch-probabilities", note.name]
    done = subprocess.run(command, cwd=note.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Mistake(f"{note}: gcov cannot read it: {done.stderr.strip() or 'no reason given'}.")
    try:
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    except ValueError as error:
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
