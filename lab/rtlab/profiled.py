"""Allocators that a recorded profile prepares: how one is recorded, and how it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rtlab.allocators import Allocator
from rtlab.catalogue import RTMALLOC


@dataclass(frozen=True)
class Profiled:
    """The environments that record a profile and that load it; {profile} and {report} are files."""

    record: Mapping[str, str]
    load: Mapping[str, str]
    recorded_by: str | None = None  # the library beside its own that records for it


def sealed(mode: str) -> Profiled:
    load = {"PROFILE": "{profile}", "MODE": mode, "SEAL": "1", "REPORT": "{report}"}
    return Profiled({"RTMALLOC_RECORD": "{profile}"}, {f"RTMALLOC_{key}": value for key, value in load.items()})


MODES = {f"{RTMALLOC}-{mode}": sealed(mode) for mode in ("seg", "pag")}
RT_MIMALLOC_SAVE = {"RT_MIMALLOC_SAVE": "{profile}"}
PROFILED = MODES | {
    "rt-mimalloc-seg": Profiled(RT_MIMALLOC_SAVE, {"RT_MIMALLOC_LOAD": "{profile}"}),
    "rt-mimalloc-pag": Profiled(RT_MIMALLOC_SAVE, {"RT_MIMALLOC_LOAD": "{profile}"}),
    "talloc": Profiled(RT_MIMALLOC_SAVE, {"TALLOC_POOL_LOAD": "{profile}"}, "librt-mimalloc-pag.so"),
    "tlsf-profile": Profiled({"ALGORITHM_SAVE": "{profile}"}, {"ALGORITHM_LOAD": "{profile}"}),
}


def recording(allocator: Allocator, profile: Path) -> Allocator:
    """What is run to record the profile of an allocator in PROFILED."""
    way = PROFILED[allocator.name]
    settings = {key: value.format(profile=profile) for key, value in way.record.items()}
    library = allocator.library
    if way.recorded_by is not None and library is not None:
        library = library.with_name(way.recorded_by)
    return replace(allocator, library=library, environment={**allocator.environment, **settings})


def loading(allocator: Allocator, profile: Path, report: Path) -> Allocator:
    """The allocator with its profile; what rtmalloc missed in it goes to `report`."""
    load = PROFILED[allocator.name].load
    settings = {key: value.format(profile=profile, report=report) for key, value in load.items()}
    return replace(allocator, environment={**allocator.environment, **settings})
