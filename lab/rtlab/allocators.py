"""Which allocators can be measured now, and how a program is made to use each."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtlab.catalogue import (
    ALLOCATOR_NAMES,
    BARE,
    GLIBC,
    MODES,
    PEERS,
    REAL_TIME,
    RECORDING,
    RTMALLOC,
    SECURE,
    SECURE_FEATURES,
    BuiltPeer,
    PackagedPeer,
    is_own,
)
from rtlab.debian import installed_version
from rtlab.mistakes import Mistake, choose
from rtlab.places import Places

# Of the allocators that work over one area: address space only.
FOREIGN_AREA = 16 << 30
LIBRARY_FOLDERS = ("/usr/lib/{machine}-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")


@dataclass(frozen=True)
class Allocator:
    name: str
    library: Path | None  # None: what the program was linked with
    version: str
    origin: str
    environment: Mapping[str, str] = field(default_factory=dict)  # its settings


def glibc_version() -> str:
    return (os.confstr("CS_GNU_LIBC_VERSION") or "unknown").removeprefix("glibc ")


def system_library(file_name: str) -> Path | None:
    for folder in LIBRARY_FOLDERS:
        path = Path(folder.format(machine=platform.machine())) / file_name
        if path.is_file():
            return path
    return None


def built_record(places: Places, name: str) -> dict[str, str]:
    """What peers.py noted when it made build/peers/NAME.so; empty if it did not."""
    try:
        return json.loads((places.peers / f"{name}.json").read_text())
    except (OSError, ValueError):
        return {}


def find_peer(places: Places, peer: PackagedPeer | BuiltPeer) -> Allocator | None:
    ours = places.peers / f"{peer.name}.so"
    if isinstance(peer, BuiltPeer):
        if not ours.is_file():
            return None
        version = built_record(places, peer.name).get("version", peer.version)
        area = {"ALGORITHM_AREA": str(FOREIGN_AREA)} if peer.foreign else {}
        return Allocator(peer.name, ours, version, peer.source.origin, area)
    library = ours if ours.is_file() else system_library(peer.library)
    if library is None:
        return None
    version = installed_version(peer.package) or "unknown"
    return Allocator(peer.name, library, version, f"Debian {peer.package}")


def bare(allocator: Allocator) -> Allocator:
    """What wants a profile, without one: rtmalloc in a mode, or RT-Mimalloc."""
    settings = {"RTMALLOC_MODE": MODES[allocator.name]} if allocator.name in MODES else {}
    return replace(allocator, name=allocator.name + BARE, environment=settings)


def find_allocators(places: Places) -> dict[str, Allocator]:
    """Every allocator that is there, rtmalloc first."""
    found: dict[str, Allocator] = {}
    if places.rtmalloc.is_file():
        found[RTMALLOC] = Allocator(RTMALLOC, places.rtmalloc, "this tree", "build/librtmalloc.so")
        for name in (*MODES, RECORDING):
            found[name] = replace(found[RTMALLOC], name=name)
        for name in MODES:
            found[name + BARE] = bare(found[name])
    if places.secure.is_file():
        found[SECURE] = Allocator(SECURE, places.secure, "this tree", "build/librtmalloc-secure.so")
        for name, feature in SECURE_FEATURES.items():
            found[name] = replace(found[SECURE], name=name, environment={"RTMALLOC_SECURE": feature})
    found[GLIBC] = Allocator(GLIBC, None, glibc_version(), "the system")
    for peer in PEERS:
        allocator = find_peer(places, peer)
        if allocator is not None:
            found[peer.name] = allocator
    return found


def what_to_do(places: Places, name: str) -> str:
    """Why an allocator is not there, and the command that gets it."""
    if is_own(name):
        library = places.rtmalloc if name in (RTMALLOC, *REAL_TIME) else places.secure
        return f"{name} is not built: {library} does not exist. Run 'make' first."
    return f"{name} is not there: {places.peers / name}.so does not exist. Run 'rtlab peers' first."


def choose_allocators(places: Places, given: str | None, default: list[str]) -> list[Allocator]:
    """The allocators in a comma-separated option; of the default ones, those that are there."""
    there = find_allocators(places)
    names = choose("allocator", given, ALLOCATOR_NAMES, [name for name in default if name in there])
    missing = [what_to_do(places, name) for name in names if name not in there]
    if missing:
        raise Mistake("\n".join(missing))
    return [there[name] for name in names]
