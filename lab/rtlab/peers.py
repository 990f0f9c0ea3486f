"""Gets every peer as build/peers/NAME.so and says what is there. Called by `rtlab peers`."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rtlab.allocators import built_record, glibc_version, system_library
from rtlab.catalogue import GLIBC, PEERS, BuiltPeer, PackagedPeer
from rtlab.crates import Crate, crate_checksum, fetch_crate, stub_manifest
from rtlab.debian import ensure_packages, installed_version, unpack_source
from rtlab.places import Places, find_places
from rtlab.processes import Failed, run_tool

Say = Callable[[str], None]


@dataclass(frozen=True)
class PeerState:
    name: str
    version: str
    origin: str
    reason: str  # why it is missing; empty if it is there


def missing_tool(tools: tuple[str, ...]) -> str | None:
    return next((tool for tool in tools if shutil.which(tool) is None), None)


def build_key(peer: BuiltPeer) -> str:
    """Changes when the library must be made again: another source, another recipe, another compiler."""
    recipes = Path(__file__).with_name("recipes.py").read_text()
    compiler = run_tool([os.environ.get("CC", "cc"), "--version"]).splitlines()[0]
    own = find_places().root / "algorithms"
    adapter = [*sorted((own / "foreign").rglob("*.*")), *sorted(own.glob("preload*"))] if peer.foreign else []
    source = stub_manifest(peer.source) if isinstance(peer.source, Crate) else installed_version(peer.source.name) or ""
    text = "\n".join([source, peer.version, recipes, compiler, *(file.read_text() for file in adapter)])
    return hashlib.sha256(text.encode()).hexdigest()


def problem_with(library: Path) -> str | None:
    """Preloads the library into a small program; None if that program works as always."""
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run(
        ["/bin/sh", "-c", "ls / >/dev/null && echo works"],
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == 0 and done.stdout == "works\n" and not done.stderr:
        return None
    return f"does not load (status {done.returncode}) {done.stderr.strip()[:200]}".strip()


def fetch_source(peer: BuiltPeer, folder: Path, install: bool, say: Say) -> Path:
    if isinstance(peer.source, Crate):
        return fetch_crate(peer.source, folder)
    return unpack_source(peer.source, folder, install, say)


def build_peer(places: Places, peer: BuiltPeer, install: bool, say: Say) -> None:
    """Makes build/peers/NAME.so unless it is there from the same source, recipe and compiler. Raises Failed."""
    tool = missing_tool(peer.tools)
    if tool is not None:
        raise Failed(f"no {tool}")
    library, key = places.peers / f"{peer.name}.so", build_key(peer)
    if library.is_file() and built_record(places, peer.name).get("key") == key:
        return
    say(f"Building {peer.name} {peer.version} from {peer.source.origin}")
    source = fetch_source(peer, places.peers / "src" / peer.name, install, say)
    work = places.peers / "work" / peer.name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    made = peer.build(source, work)
    problem = problem_with(made)
    if problem is not None:
        raise Failed(problem)
    shutil.copy2(made, library)
    record = {
        "key": key,
        "version": peer.version,
        "source": peer.source.origin,
        "sha256": crate_checksum(source) if isinstance(peer.source, Crate) else "",
    }
    library.with_suffix(".json").write_text(json.dumps(record, indent=2) + "\n")
    shutil.rmtree(work)


def link_packaged(places: Places, peer: PackagedPeer, install: bool, say: Say) -> None:
    """Points build/peers/NAME.so to the system's library, installing its package if allowed. Raises Failed."""
    link = places.peers / f"{peer.name}.so"
    library = system_library(peer.library)
    if library is None:
        reason = ensure_packages([peer.package], say) if install else "not installed"
        library = system_library(peer.library)
        if library is None:
            raise Failed(reason or f"no {peer.library} in {peer.package}")
    problem = problem_with(library)
    if problem is not None:
        raise Failed(problem)
    link.unlink(missing_ok=True)
    link.symlink_to(library)


def get_peer(places: Places, peer: PackagedPeer | BuiltPeer, install: bool, say: Say) -> PeerState:
    if isinstance(peer, BuiltPeer):
        version = peer.version
        origin = peer.source.origin
    else:
        version, origin = "", f"Debian {peer.package}"
    try:
        if isinstance(peer, BuiltPeer):
            build_peer(places, peer, install, say)
        else:
            link_packaged(places, peer, install, say)
            version = installed_version(peer.package) or "unknown"
    except Failed as failure:
        return PeerState(peer.name, version, origin, str(failure))
    return PeerState(peer.name, version, origin, "")


def get_peers(places: Places, names: list[str], install: bool, say: Say) -> list[PeerState]:
    """Every named peer, there or with the reason why not."""
    places.peers.mkdir(parents=True, exist_ok=True)
    states = []
    if GLIBC in names:
        states.append(PeerState(GLIBC, glibc_version(), "the system (no preload)", ""))
    wanted = [peer for peer in PEERS if peer.name in names]
    return states + [get_peer(places, peer, install, say) for peer in wanted]
