#!/usr/bin/env python3
"""Runs the misuse suite (cases.py) on allocators, and prints what each makes of it.

  .venv/bin/python tests/misuse/run.py                        every allocator that is there
  .venv/bin/python tests/misuse/run.py --library build/librtmalloc.so --library glibc --only double
  .venv/bin/python tests/misuse/run.py --library build/librtmalloc-secure.so=canaries,zero    RTMALLOC_SECURE set so
  .venv/bin/python tests/misuse/run.py --markdown table.md    the same as Markdown
  .venv/bin/python tests/misuse/run.py --check tests/misuse/expected.txt   status 1 if a row is worse than there

Outcomes, from the best:
  at once   the program ended before the misuse was done: a message and an abort, or a fault (marked *)
  later     it ended after that; * by a fault, which is luck and may be what an attacker wants
  harmless  it went on, and nothing of its memory changed
  missed    it went on, and harm was done; or it hung
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from cases import CASES, Case
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GLIBC = "glibc"
SECONDS = 25
FAULTS = {signal.SIGSEGV, signal.SIGBUS}
OUTCOMES = ("missed", "later *", "later", "harmless", "at once *", "at once")  # from the worst
CATEGORIES = ("at once", "later", "harmless", "missed")
COLOURS = {"at once": "green", "later": "yellow", "harmless": "cyan", "missed": "red"}


@dataclass(frozen=True)
class Library:
    name: str
    path: Path | None  # None: the system's own malloc
    features: str = ""  # of the secure build; empty: its default


def category(outcome: str) -> str:
    return outcome.removesuffix(" *")


def find_libraries(build: Path) -> list[Library]:
    ours = [build / f"librtmalloc{variant}.so" for variant in ("", "-debug", "-secure")]
    peers = sorted((build / "peers").glob("*.so"))
    found = [Library(path.stem.removeprefix("lib"), path) for path in ours if path.is_file()]
    if ours[-1].is_file():
        found += [named_library(f"{ours[-1]}={features}") for features in ("all", "fenced")]
    found += [Library(path.stem.removeprefix("lib"), path) for path in peers]
    return [Library(GLIBC, None), *found]


def named_library(given: str) -> Library:
    if given == GLIBC:
        return Library(GLIBC, None)
    file, _, features = given.partition("=")
    path = Path(file).resolve()
    if not path.is_file():
        raise typer.BadParameter(f"{file} does not exist; give a shared library, or '{GLIBC}'")
    name = path.stem.removeprefix("lib")
    return Library(f"{name} {features}" if features else name, path, features)


# ---- programs ----


def program_of(case: Case, folder: Path) -> Path:
    """Compiled, if it is not there already as it should be."""
    stem = f"{case.group}-{case.name}".replace(" ", "_")
    source, program = folder / f"{stem}.{'cpp' if case.cxx else 'c'}", folder / stem
    up_to_date = source.exists() and source.read_text() == case.source and program.exists()
    if up_to_date and program.stat().st_mtime > (HERE / "misuse.h").stat().st_mtime:
        return program
    source.write_text(case.source)
    # clang leaves sized delete out if it is not asked for.
    cxx = [os.environ.get("CXX", "c++"), "-std=c++17", "-fsized-deallocation"]
    compiler = cxx if case.cxx else [os.environ.get("CC", "cc"), "-std=gnu11"]
    flags = ["-O0", "-fno-builtin", "-w", "-pthread", f"-I{HERE}"]
    done = subprocess.run(
        [*compiler, *flags, "-o", str(program), str(source)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"cannot compile {source}:\n{done.stderr}")
    return program


# ---- one run ----


def outcome_of(letters: str, status: int, case: Case, library: Library) -> str:
    if status == 0 and letters.endswith("m"):
        return "missed"
    if status == 0 and letters.endswith("h"):
        return "harmless"
    if status == -signal.SIGALRM:
        return "missed"
    if "b" not in letters or status == 3:
        raise SystemExit(f"{case.group}/{case.name} on {library.name}: ended before the misuse, status {status}")
    fault = " *" if status < 0 and -status in FAULTS else ""
    return ("later" if "a" in letters else "at once") + fault


def run_once(case: Case, program: Path, library: Library) -> str:
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("LD_", "RTMALLOC_", "MALLOC_"))
    }
    if library.path:
        environment["LD_PRELOAD"] = str(library.path)
    if library.features:
        environment["RTMALLOC_SECURE"] = library.features
    try:
        done = subprocess.run(
            [str(program)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "missed"
    return outcome_of(done.stdout.decode(errors="replace"), done.returncode, case, library)


def worst(outcomes: Iterable[str]) -> str:
    return min(outcomes, key=OUTCOMES.index)


Results = dict[Case, dict[str, str]]


def run_all(cases: list[Case], libraries: list[Library], runs: int, folder: Path, console: Console) -> Results:
    folder.mkdir(parents=True, exist_ok=True)
    results: Results = {}
    with Progress(console=console, transient=True) as progress:
        for case in progress.track(cases, description="misuse"):
            program = program_of(case, folder)
            results[case] = {
                library.name: worst(run_once(case, program, library) for _ in range(runs)) for library in libraries
            }
    return results


# ---- tables ----


def counts(results: Results, name: str) -> Counter[str]:
    return Counter(category(row[name]) for row in results.values())


def faults(results: Results, name: str) -> int:
    return sum(row[name] == "later *" for row in results.values())


def summary_rows(results: Results, names: list[str]) -> list[list[str]]:
    rows = [[word, *(str(counts(results, name)[word]) for name in names)] for word in CATEGORIES]
    rows.append(["of those later, by a fault", *(str(faults(results, name)) for name in names)])
    for heading, words in (("caught", ("at once", "later")), ("caught or harmless", ("at once", "later", "harmless"))):
        rows.append([heading, *(str(sum(counts(results, name)[word] for word in words)) for name in names)])
    return [*rows, ["programs", *(str(len(results)) for _ in names)]]


def terminal_table(results: Results, names: list[str]) -> Table:
    table = Table(title=f"{len(results)} kinds of misuse (* by a fault)", title_justify="left")
    for heading in ("misuse", *names):
        table.add_column(heading, no_wrap=heading == "misuse")
    group = ""
    for case, row in results.items():
        if case.group != group:
            table.add_section()
            table.add_row(f"[bold]{case.group}")
            group = case.group
        table.add_row(f"  {case.name}", *(f"[{COLOURS[category(row[name])]}]{row[name]}[/]" for name in names))
    table.add_section()
    for cells in summary_rows(results, names):
        table.add_row(*cells)
    return table


def markdown_line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def markdown(results: Results, names: list[str]) -> str:
    lines = [markdown_line(["", *names]), markdown_line(["---"] * (len(names) + 1))]
    lines += [markdown_line(cells) for cells in summary_rows(results, names)]
    group = ""
    for case, row in results.items():
        if case.group != group:
            group = case.group
            lines += [
                "",
                f"### {group.capitalize()}",
                "",
                markdown_line(["program", *names]),
                markdown_line(["---"] * (len(names) + 1)),
            ]
        lines.append(markdown_line([case.name.replace("_", " "), *(row[name].replace("*", "\\*") for name in names)]))
    return "\n".join(lines) + "\n"


# ---- what was reached before ----


def expected_lines(results: Results, names: list[str]) -> list[str]:
    return [
        f"{name}\t{case.group}/{case.name}\t{category(row[name])}" for name in names for case, row in results.items()
    ]


RANK = {"missed": 0, "later": 1, "harmless": 2, "at once": 2}


def worse_than(expected: Path, results: Results, names: list[str]) -> list[str]:
    before = dict(
        line.rsplit("\t", 1) for line in expected.read_text().splitlines() if line and not line.startswith("#")
    )
    found = []
    for line in expected_lines(results, names):
        key, now = line.rsplit("\t", 1)
        if key in before and RANK[now] < RANK[before[key]]:
            found.append(f"{key.replace(chr(9), ': ')}: was {before[key]}, is {now}")
    return found


def main(
    library: Annotated[
        list[str] | None,
        typer.Option(
            help="A shared library, or 'glibc'; again for more. The secure build's features follow after '='. "
            "[default: all that are there]"
        ),
    ] = None,
    build: Annotated[Path, typer.Option(help="Where the libraries are, peers in its folder peers.")] = ROOT / "build",
    only: Annotated[str, typer.Option(help="Programs whose group or name has this text.")] = "",
    runs: Annotated[int, typer.Option(min=1, help="Runs of each; the worst outcome counts.")] = 1,
    out: Annotated[Path | None, typer.Option("--markdown", help="Write the table as Markdown.")] = None,
    check: Annotated[Path | None, typer.Option(help="A file of outcomes that must not get worse.")] = None,
    record: Annotated[Path | None, typer.Option(help="Write such a file.")] = None,
) -> None:
    """Run each program of the misuse suite on each allocator, and say what became of it."""
    libraries = [named_library(given) for given in library] if library else find_libraries(build)
    cases = [case for case in CASES if only in f"{case.group}/{case.name}"]
    if not cases:
        raise typer.BadParameter(f"no program has '{only}' in its name")
    wide = None if sys.stdout.isatty() else 42 + sum(max(len(one.name), 9) + 3 for one in libraries)
    console = Console(width=wide)
    results = run_all(cases, libraries, runs, build / "misuse", console)
    names = [one.name for one in libraries]
    console.print(terminal_table(results, names))
    if out:
        out.write_text(markdown(results, names))
    if record:
        record.write_text(
            "# Outcomes that must not get worse; made by tests/misuse/run.py --record\n"
            + "\n".join(expected_lines(results, names))
            + "\n"
        )
    if check:
        problems = worse_than(check, results, names)
        for problem in problems:
            print(f"worse than before: {problem}", file=sys.stderr)
        raise typer.Exit(1 if problems else 0)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    typer.run(main)
