"""What a trace can be played on: `rtlab bench`'s allocators, rtmalloc's modes, RT-Mimalloc, the papers' allocators."""

from __future__ import annotations

from pathlib import Path

from rtlab.allocators import Allocator, find_allocators, what_to_do
from rtlab.catalogue import ALLOCATOR_NAMES, BARE_MODES, RECORDING
from rtlab.mistakes import Mistake, choose
from rtlab.places import Places

RT_MIMALLOC = ("rt-mimalloc-original", "rt-mimalloc-seg", "rt-mimalloc-pag")
ALGORITHMS = (
    "tlsf",
    "tlsf-profile",
    "half-fit",
    "binary-buddy",
    "first-fit",
    "next-fit",
    "best-fit",
    "dlmalloc-2.7.2",
    "dlmalloc-2.8.3",
)
TALLOC = "talloc"
NAMES = (
    *(name for name in ALLOCATOR_NAMES if name not in (*BARE_MODES, RECORDING)),
    *RT_MIMALLOC,
    TALLOC,
    *ALGORITHMS,
)
# Libraries in build/algorithms that are not named after their allocator.
LIBRARIES = {TALLOC: "libtalloc-pool-preload.so", "tlsf-profile": "libtlsf-preload.so"}
LEAST_AREA = 1 << 30


def area_bytes(peak_live: int) -> int:
    """For the papers' allocators: address space only, so generous."""
    return max(LEAST_AREA, 1 << (8 * peak_live).bit_length())


def library_of(places: Places, name: str) -> Path:
    """Of an allocator in algorithms/. RT-Mimalloc has threads of its own; the others have a lock around them."""
    usual = f"lib{name}.so" if name in RT_MIMALLOC else f"lib{name}-preload.so"
    return places.build / "algorithms" / LIBRARIES.get(name, usual)


def find_contenders(places: Places, peak_live: int) -> dict[str, Allocator]:
    """Every one that is there, in the order of NAMES."""
    found = find_allocators(places)
    area = {"ALGORITHM_AREA": str(area_bytes(peak_live))}
    for name in (*RT_MIMALLOC, TALLOC, *ALGORITHMS):
        library = library_of(places, name)
        if library.is_file():
            found[name] = Allocator(name, library, "this tree", "algorithms/", area if name in ALGORITHMS else {})
    return {name: found[name] for name in NAMES if name in found}


def why_absent(places: Places, name: str) -> str:
    if name == TALLOC:
        return f"{name} is not built: it wants libtalloc. Run 'tools/setup-debian bench' and 'make'."
    if name in ALGORITHMS or name in RT_MIMALLOC:
        return f"{name} is not built: {library_of(places, name)} does not exist. Run 'make' first."
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
