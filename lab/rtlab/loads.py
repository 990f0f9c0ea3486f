"""The loads of lab/loads as entries: build/loads/NAME scale [threads]."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rtlab.entries import Absent, Entry


@dataclass(frozen=True)
class Load:
    entry: str  # the name shown
    executable: str
    threads: str  # "none": takes no such argument, "one", "all"


LOADS = (
    Load("cfrac", "cfrac", "none"),
    Load("espresso", "espresso", "none"),
    Load("barnes", "barnes", "none"),
    Load("larson", "larson", "all"),
    Load("larson_sized", "larson_sized", "all"),
    Load("xmalloc_test", "xmalloc_test", "all"),
    Load("alloc_test1", "alloc_test", "one"),
    Load("alloc_testN", "alloc_test", "all"),
    Load("cache_scratch1", "cache_scratch", "one"),
    Load("cache_scratchN", "cache_scratch", "all"),
    Load("cache_thrash1", "cache_thrash", "one"),
    Load("cache_thrashN", "cache_thrash", "all"),
    Load("sh6bench", "sh6bench", "all"),
    Load("sh8bench", "sh8bench", "all"),
    Load("glibc_simple", "glibc_simple", "none"),
    Load("glibc_thread", "glibc_thread", "all"),
    Load("malloc_large", "malloc_large", "none"),
    Load("mleak", "mleak", "all"),
    Load("mstress", "mstress", "all"),
    Load("rptest", "rptest", "all"),
)
LOAD_NAMES = tuple(load.entry for load in LOADS)


def load_command(load: Load, folder: Path, scale: float, threads: int) -> tuple[str, ...]:
    base = (str(folder / load.executable), f"{scale:g}")
    if load.threads == "none":
        return base
    return (*base, "1" if load.threads == "one" else str(threads))


def load_entry(load: Load, folder: Path, scale: float, threads: int) -> Entry | Absent:
    if not (folder / load.executable).is_file():
        return Absent(load.entry, "not built (run 'make')")
    command = load_command(load, folder, scale, threads)
    return Entry(load.entry, "load", command)
