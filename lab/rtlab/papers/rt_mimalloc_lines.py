"""RT-Mimalloc's Table III: years and lines of code, the paper's beside what is here. Lines are counted by pygount."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pygount import SourceAnalysis

from rtlab.allocators import Allocator, find_allocators
from rtlab.debian import installed_version
from rtlab.page import Cell, PageTable
from rtlab.places import Places

SUFFIXES = (".c", ".h", ".cc", ".cpp", ".hpp", ".S")
BINARY = "- (binary)"
PUBLISHED = ("first release", "latest update", "lines")


@dataclass(frozen=True)
class Row:
    name: str
    published: str | None = None  # its name in the paper's table
    sources: tuple[str, ...] = ()  # folders and files below the project, of the allocator without its tests


def crate(name: str, path: str, *parts: str) -> tuple[str, ...]:
    return tuple(f"build/peers/src/{name}/vendor/{path}/{part}" for part in parts)


LAYERS = tuple(f"Heap-Layers/{part}" for part in ("heaps", "locks", "threads", "utility", "wrappers"))
HOARD = crate("hoard", "hoard-sys", "Hoard/src/source", "Hoard/src/include", *LAYERS)
ROWS = (
    Row("jemalloc-5.3", "jemalloc", crate("jemalloc-5.3", "tikv-jemalloc-sys/jemalloc", "src", "include")),
    Row("mimalloc-1.7", "mimalloc", crate("mimalloc-1.7", "libmimalloc-sys/c_src/mimalloc", "src", "include")),
    Row("mimalloc-2", None, crate("mimalloc-2", "libmimalloc-sys/c_src/mimalloc/v2", "src", "include")),
    Row("mimalloc-3", None, crate("mimalloc-3", "libmimalloc-sys/c_src/mimalloc/v3", "src", "include")),
    Row("snmalloc", "snmalloc", crate("snmalloc", "snmalloc-sys/upstream", "src/snmalloc")),
    Row("tcmalloc", "tcmalloc"),
    Row("rpmalloc", None, crate("rpmalloc", "rpmalloc-sys/rpmalloc", "rpmalloc")),
    Row("hoard", None, HOARD),
    Row("glibc"),
    Row("tlsf", None, ("algorithms/tlsf.c", "algorithms/tlsf.h")),
    Row("rt-mimalloc", None, ("algorithms/rt_mimalloc",)),
    Row("libtalloc"),
    Row("talloc pool", None, ("algorithms/talloc_pool",)),
    Row("rtmalloc", None, ("src", "include")),
)


def source_files(places: Places, row: Row) -> list[Path]:
    found = [places.root / source for source in row.sources]
    files = [file for path in found for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return [file for file in files if file.suffix in SUFFIXES and file.is_file()]


def count_lines(files: list[Path], kept: Path) -> int:
    """Lines that hold code. Counting takes seconds, so that the count of unchanged files is kept."""
    texts = [file.read_bytes() for file in files]
    key = hashlib.sha256(b"\0".join(texts)).hexdigest()
    counts = json.loads(kept.read_text()) if kept.is_file() else {}
    if key not in counts:
        counts[key] = sum(SourceAnalysis.from_file(str(file), "", encoding="utf-8").code_count for file in files)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(counts) + "\n")
    return counts[key]


def version_of(row: Row, there: dict[str, Allocator]) -> str:
    if row.name in there:
        return there[row.name].version
    if row.name == "libtalloc":
        return installed_version("libtalloc2") or "- (not installed)"
    return "this tree" if row.sources and not row.sources[0].startswith("build/") else "- (not built)"


def lines_frame(places: Places, published: pd.DataFrame, kept: Path) -> pd.DataFrame:
    """One row an allocator. `published`: allocator, statistic, published of the paper's Table III."""
    there = find_allocators(places)
    values = published.set_index(["allocator", "statistic"])["published"]
    rows = []
    for row in ROWS:
        files = source_files(places, row)
        if row.sources and files:
            here: object = count_lines(files, kept)
        else:
            here = "- (not fetched)" if row.sources else BINARY
        paper = [values.get((row.published, name)) for name in PUBLISHED]
        rows.append([row.name, *paper, version_of(row, there), here])
    return pd.DataFrame(rows, columns=["allocator", *PUBLISHED, "version here", "lines here"])


def lines_table(frame: pd.DataFrame) -> PageTable:
    rows = []
    for row in frame.itertuples(index=False):
        paper = [Cell("-" if pd.isna(value) else f"{value:.0f}") for value in row[1:4]]
        rows.append([Cell(row[0], "name"), *paper, Cell(row[4], "name"), Cell(str(row[5]))])
    headings = [
        "allocator",
        "first release, paper",
        "latest update, paper",
        "lines, paper",
        "version here",
        "lines here",
    ]
    note = (
        "Here: lines with code in C and C++ files, without tests. The paper does not say what it counts. "
        "Binary: Debian's package, without source. What is not fetched or built, 'rtlab peers' gets."
    )
    return PageTable("Table III: years and lines of code", headings, rows, note)
