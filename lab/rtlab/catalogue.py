"""The allocators we compare with: where each comes from. Data only; peers.py gets them, allocators.py finds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rtlab import recipes
from rtlab.crates import Crate
from rtlab.debian import SourcePackage

RTMALLOC = "rtmalloc"
SECURE = "rtmalloc-secure"
# The secure build with each of its features alone (docs/secure.md), with none, and with all: RTMALLOC_SECURE.
FEATURES = ("guards", "random", "placement", "canaries", "gaps", "zero", "quarantine", "guard-pages")
SECURE_FEATURES = {f"{SECURE}-{feature}": feature for feature in ("none", *FEATURES, "all")}
SECURE_ALL = f"{SECURE}-all"
# The real-time modes with a recorded profile and sealed, and without a profile; and a run that records one.
BARE = "-bare"
MODES = {f"{RTMALLOC}-{mode}": mode for mode in ("seg", "pag")}
BARE_MODES = tuple(name + BARE for name in MODES)
RECORDING = f"{RTMALLOC}-record"
REAL_TIME = (*MODES, *BARE_MODES, RECORDING)
GLIBC = "glibc"
SECURE_PEERS = ("mimalloc-1.7-secure", "mimalloc-3-secure")

CC = ("cc", "1.2.0")
SHLEX = ("shlex", "1.3.0")
LIBC = ("libc", "0.2.155")
CMAKE = ("cmake", "0.1.50")
PKG_CONFIG = ("pkg-config", "0.3.30")
UNAME = ("uname", "0.1.1")
MAKE_CMD = ("make-cmd", "0.1.0")
CFG_IF, RUSTVERSION, CONST_DEFAULT = ("cfg-if", "1.0.0"), ("rustversion", "1.0.14"), ("const-default", "1.0.0")


@dataclass(frozen=True)
class PackagedPeer:
    """A Debian package with a preloadable library."""

    name: str
    package: str
    library: str  # file name in the system's library folder


@dataclass(frozen=True)
class BuiltPeer:
    """Built here from the source that a crate or a Debian package carries."""

    name: str
    source: Crate | SourcePackage
    version: str  # of the allocator, not of the crate or package
    build: Callable[[Path, Path], Path]
    tools: tuple[str, ...] = ("cargo", "cmake", "cc")
    foreign: bool = False  # over the caller's memory, with an adapter in algorithms/foreign


def mimalloc(name: str, crate_version: str, folder: str, version: str, secure: bool = False) -> BuiltPeer:
    crate = Crate("libmimalloc-sys", crate_version, (CC, SHLEX))
    return BuiltPeer(name, crate, version, recipes.mimalloc(folder, version, secure))


JEMALLOC = "5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8"

PEERS: tuple[PackagedPeer | BuiltPeer, ...] = (
    mimalloc("mimalloc-1.7", "0.1.24", "", "1.7.5"),
    mimalloc("mimalloc-2", "0.1.49", "v2", "2.3.2"),
    mimalloc("mimalloc-3", "0.1.49", "v3", "3.3.2"),
    mimalloc(SECURE_PEERS[0], "0.1.24", "", "1.7.5", secure=True),
    mimalloc(SECURE_PEERS[1], "0.1.49", "v3", "3.3.2", secure=True),
    BuiltPeer(
        "snmalloc",
        Crate("snmalloc-sys", "0.7.6", (CC, SHLEX, CMAKE)),
        "0.7.6",
        recipes.snmalloc,
        ("cargo", "cmake", "c++"),
    ),
    BuiltPeer(
        "jemalloc-5.3",
        Crate("tikv-jemalloc-sys", f"0.7.1+{JEMALLOC}", (CC, SHLEX, LIBC)),
        "5.3.1",
        recipes.jemalloc(JEMALLOC),
        ("cargo", "make", "cc", "c++"),
    ),
    BuiltPeer(
        "rpmalloc",
        Crate("rpmalloc-sys", "0.2.3+b097fd0", (CC, SHLEX, LIBC, PKG_CONFIG)),
        "1.4.3",
        recipes.rpmalloc,
        ("cargo", "cc"),
    ),
    BuiltPeer("hoard", Crate("hoard-sys", "0.1.2", (LIBC, UNAME)), "3.13.0", recipes.hoard, ("cargo", "make", "c++")),
    BuiltPeer(
        "rlsf",
        Crate("rlsf", "0.2.3", (LIBC, CFG_IF, RUSTVERSION, CONST_DEFAULT)),
        "0.2.3",
        recipes.rlsf,
        ("cargo", "cc"),
        foreign=True,
    ),
    BuiltPeer(
        "o1heap",
        Crate("o1heap", "0.0.2"),
        "2.2",
        recipes.foreign("o1heap", "o1heap/o1heap"),
        ("cargo", "cc"),
        foreign=True,
    ),
    BuiltPeer(
        "dlmalloc-2.8.3-lea",
        Crate("libffi-sys", "1.0.0", (CC, SHLEX, MAKE_CMD)),
        "2.8.3",
        recipes.foreign("dlmalloc_283", "libffi/src"),
        ("cargo", "cc"),
        foreign=True,
    ),
    BuiltPeer(
        "dlmalloc-2.7.2-lea",
        SourcePackage("uclibc-source", "usr/src/uClibc-ng-*.tar.xz"),
        "2.7.2",
        recipes.dlmalloc_272,
        ("tar", "cc"),
        foreign=True,
    ),
    PackagedPeer("jemalloc", "libjemalloc2", "libjemalloc.so.2"),
    PackagedPeer("tcmalloc", "libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
    PackagedPeer("mimalloc-debian", "libmimalloc2.0", "libmimalloc.so.2"),
    PackagedPeer("tbbmalloc", "libtbbmalloc2", "libtbbmalloc_proxy.so.2"),
)

PEER_NAMES = tuple(peer.name for peer in PEERS)
# Over one area, with one lock: for the papers' loads, and for programs where they are asked for.
FOREIGN = tuple(peer.name for peer in PEERS if isinstance(peer, BuiltPeer) and peer.foreign)
ALLOCATOR_NAMES = (RTMALLOC, *REAL_TIME, SECURE, *SECURE_FEATURES, GLIBC, *PEER_NAMES)
# Measured only where they are asked for: they are to be held against their usual builds, or have one lock.
ON_REQUEST = (*REAL_TIME, *SECURE_FEATURES, *SECURE_PEERS, *FOREIGN)


def is_own(name: str) -> bool:
    """Made by `make`; the others are got by `rtlab peers`."""
    return name in (RTMALLOC, *REAL_TIME, SECURE, *SECURE_FEATURES)
