"""Allocators that a recorded profile prepares: how one is recorded, and how it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rtlab.allocators import Allocator
from rtlab.catalogue import MODES, RECORDING
from rtlab.entries import Entry
from rtlab.measuring import Run, measure
from rtlab.native import Native

RECORDINGS_MOST = 5


@dataclass(frozen=True)
class Profiled:
    """The environments that record a profile and that load it; {profile} and {report} are files."""

    record: Mapping[str, str]
    load: Mapping[str, str]
    recorded_by: str | None = None  # the library beside its own that records for it


def sealed(mode: str) -> Profiled:
    load = {"PROFILE": "{profile}", "MODE": mode, "SEAL": "1", "REPORT": "{report}"}
    return Profiled({"RTMALLOC_RECORD": "{profile}"}, {f"RTMALLOC_{key}": value for key, value in load.items()})


RT_MIMALLOC_SAVE = {"RT_MIMALLOC_SAVE": "{profile}"}
PROFILED = {name: sealed(mode) for name, mode in MODES.items()} | {
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


def recorded(native: Native, entry: Entry, allocator: Allocator, profile: Path, limit_s: int) -> str:
    """Records until the profile stays as it is (the paper's section VII); 'ok' or why not."""
    unfinished = profile.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    before = b""
    for _ in range(RECORDINGS_MOST):
        run = measure(native, entry, recording(allocator, unfinished), limit_s)
        if run.status != "ok" or not unfinished.is_file():
            return f"{run.status} (recording)" if run.status != "ok" else "X no profile"
        if unfinished.read_bytes() == before:
            break
        before = unfinished.read_bytes()
    unfinished.rename(profile)
    return "ok"


@dataclass(frozen=True)
class Profiles:
    """The profiles of a benchmark's entries: one for both modes, recorded before an entry's first run that loads it."""

    native: Native
    folder: Path
    limit_s: int

    def ready(self, entry: Entry, allocator: Allocator) -> Allocator | Run:
        """What is measured; or the run, if none can be recorded."""
        profile = self.folder / f"{entry.name}.rtp"
        if allocator.name == RECORDING:
            again = self.folder / f"{entry.name}.again.rtp"
            again.unlink(missing_ok=True)
            return replace(allocator, environment={**allocator.environment, "RTMALLOC_RECORD": str(again)})
        if allocator.name not in MODES:
            return allocator
        self.folder.mkdir(exist_ok=True)
        if not profile.is_file():
            status = recorded(self.native, entry, allocator, profile, self.limit_s)
            if status != "ok":
                return Run.failed(status)
        return loading(allocator, profile, profile.with_suffix(f".{MODES[allocator.name]}.json"))
