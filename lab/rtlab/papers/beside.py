"""What stands in the papers' tables beside their own allocators: rtmalloc in its modes, and those of `rtlab peers`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rtlab.allocators import what_to_do
from rtlab.catalogue import FOREIGN, MODES, RTMALLOC
from rtlab.places import Places

BESIDE = (RTMALLOC, *MODES, *FOREIGN)


@dataclass(frozen=True)
class Subject:
    """How a load of lab/paper is run on an allocator."""

    word: str  # on its command line
    library: Path | None = None  # preloaded


def find_beside(places: Places) -> dict[str, Subject]:
    """Those that are there, by name."""
    found = {}
    if places.rtmalloc.is_file():
        found |= {name: Subject("malloc", places.rtmalloc) for name in (RTMALLOC, *MODES)}
    libraries = {name: places.peers / f"{name}.so" for name in FOREIGN}
    return found | {name: Subject(str(library)) for name, library in libraries.items() if library.is_file()}


def absent(places: Places, found: dict[str, Subject]) -> dict[str, str]:
    """Why the others are not there."""
    return {name: what_to_do(places, name) for name in BESIDE if name not in found}
