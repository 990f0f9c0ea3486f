"""`rtmalloc bound` from its options to its exit status: 0 if every row is certified, 1 if not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from rtmalloc_tools.bound import show
from rtmalloc_tools.bound.analysis import Analyser, Result, analyse_aliases, analyse_all
from rtmalloc_tools.bound.binary import read_binary
from rtmalloc_tools.bound.certificate import Certificate, certify
from rtmalloc_tools.bound.listing import listing
from rtmalloc_tools.bound.observed import read_observed
from rtmalloc_tools.bound.page import render
from rtmalloc_tools.bound.rows import PATHS_FILE, Row, read_paths
from rtmalloc_tools.files import write_whole
from rtmalloc_tools.mistakes import Mistake, unknown_name
from rtmalloc_tools.profile.memory import STRUCTURES, Layout, most_memory
from rtmalloc_tools.profile.profile_format import read_profile, refusal


@dataclass(frozen=True)
class Request:
    library: Path
    profile: Path | None = None
    observed: Path | None = None
    only: str | None = None
    path: str | None = None
    json: bool = False
    html: Path | None = None
    paths: Path | None = None


def row_name(row: Row) -> str:
    return "/".join(row.key)


def select(rows: tuple[Row, ...], wanted: str | None) -> list[Row]:
    """The rows that have all the words of `wanted`, in any order: malloc/pag, general, free/page, remote free.

    'malloc/pag' is the operation malloc and the mode pag; each word is a mode, an operation or a kind.
    """
    if wanted is None:
        return list(rows)
    words = [word.strip() for word in wanted.split("/") if word.strip()]
    known = list(dict.fromkeys(part for row in rows for part in row.key))
    for word in words:
        if word not in known:
            raise unknown_name("row", word, known)
    chosen = [row for row in rows if all(word in row.key for word in words)]
    if not chosen:
        raise unknown_name("row", wanted, [row_name(row) for row in rows])
    return chosen


def run(request: Request, console: Console) -> int:
    paths = read_paths(request.paths or PATHS_FILE)
    rows = select(paths.rows, request.path or request.only)
    observed = read_observed(request.observed, paths.rows) if request.observed else {}
    profile = read_profile(request.profile) if request.profile else None
    if profile and (wrong := refusal(profile)):
        raise Mistake(f"{request.profile}: {wrong}")
    analyser = Analyser(read_binary(request.library), paths)
    memory = None
    if profile:
        layout = Layout.read(analyser.sources.structure_sizes(STRUCTURES))
        memory = most_memory(profile, str(request.profile), layout)
    results = analyse_all(analyser, rows)
    aliases = [] if request.path else analyse_aliases(analyser, results)
    certificate = certify(analyser, results, aliases, observed, memory)
    if request.html:
        write_page(request.html, certificate, analyser, results)
    if request.json:
        print(json.dumps(certificate.as_json(), indent=2))
    elif request.path:
        print_paths(analyser, results, certificate, console)
    else:
        show.show(certificate, console)
        if request.html:
            console.print(f"Written: {request.html}", markup=False, highlight=False)
    return 0 if certificate.ok else 1


def write_page(path: Path, certificate: Certificate, analyser: Analyser, results: list[Result]) -> None:
    paths = {row_name(result.row): list(listing(analyser, result.trail)) for result in results if result.trail}
    write_whole(path, render(certificate, paths).encode(), "page")


def print_paths(analyser: Analyser, results: list[Result], certificate: Certificate, console: Console) -> None:
    for result in results:
        if result.trail:
            show.show_path(row_name(result.row), listing(analyser, result.trail), console)
    show.show_problems(certificate, console)
