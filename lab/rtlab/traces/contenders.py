"""What a trace can be played on: the allocators of `rtlab bench`, rtmalloc's modes, the papers' allocators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rtlab.allocators import Allocator, find_allocators, what_to_do
from rtlab.catalogue import ALLOCATOR_NAMES, RTMALLOC
from rtlab.mistakes import Mistake, choose
from rtlab.places import Places

MODES = {f"{RTMALLOC}-{mode}": mode for mode in ("seg", "pag")}
ALGORITHMS = (
    "tlsf",
    "half-fit",
    "binary-buddy",
    "first-fit",
    "next-fit",
    "best-fit",
    "dlmalloc-2.7.2",
    "dlmalloc-2.8.3",
)
NAMES = (RTMALLOC, *MODES, *ALLOCATOR_NAMES[1:], *ALGORITHMS)
LEAST_AREA = 1 << 30


def area_bytes(peak_live: int) -> int:
    """For the papers' allocators: address space only, so generous."""
    return max(LEAST_AREA, 1 << (8 * peak_live).bit_length())


def find_contenders(places: Places, peak_live: int) -> dict[str, Allocator]:
    """Every one that is there, in the order of NAMES."""
    found = find_allocators(places)
    for name in MODES:
        if RTMALLOC in found:
            found[name] = replace(found[RTMALLOC], name=name)
    for name in ALGORITHMS:
        library = places.build / "algorithms" / f"lib{name}-preload.so"
        if library.is_file():
            area = {"ALGORITHM_AREA": str(area_bytes(peak_live))}
            found[name] = Allocator(name, library, "this tree", "algorithms/, with a lock", area)
    return {name: found[name] for name in NAMES if name in found}


def why_absent(places: Places, name: str) -> str:
    if name in MODES:
        return what_to_do(places, RTMALLOC)
    if name in ALGORITHMS:
        return f"{name} is not built: {places.build}/algorithms has no lib{name}-preload.so. Run 'make' first."
    return what_to_do(places, name)


def check_names(given: str | None) -> list[str] | None:
    """The names in the option, None without it. Complains about one that does not exist, with the nearest."""
    return None if given is None else choose("allocator", given, NAMES, NAMES)


def choose_contenders(places: Places, names: list[str] | None, peak_live: int) -> tuple[list[Allocator], list[str]]:
    """Those to play on, and a word for each that is left out."""
    there = find_contenders(places, peak_live)
    missing = [why_absent(places, name) for name in names or NAMES if name not in there]
    if names and missing:
        raise Mistake("\n".join(missing))
    return [there[name] for name in names or NAMES if name in there], missing


def settings_of_mode(name: str, profile: Path, report: Path) -> Mapping[str, str]:
    """rtmalloc sealed with a recorded profile."""
    values = {"PROFILE": str(profile), "MODE": MODES[name], "SEAL": "1", "REPORT": str(report)}
    return {f"RTMALLOC_{key}": value for key, value in values.items()}
