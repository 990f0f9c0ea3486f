"""Allocators that a recorded profile prepares: the environments that record one and that load it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rtlab.catalogue import RTMALLOC


@dataclass(frozen=True)
class Profiled:
    """What a recorded profile prepares: the environments that record and load it; {profile} and {report} are files."""

    record: Mapping[str, str]
    load: Mapping[str, str]


def sealed(mode: str) -> Profiled:
    load = {"PROFILE": "{profile}", "MODE": mode, "SEAL": "1", "REPORT": "{report}"}
    return Profiled({"RTMALLOC_RECORD": "{profile}"}, {f"RTMALLOC_{key}": value for key, value in load.items()})


MODES = {f"{RTMALLOC}-{mode}": sealed(mode) for mode in ("seg", "pag")}
PROFILED = MODES | {
    f"rt-mimalloc-{setting}": Profiled({"RT_MIMALLOC_SAVE": "{profile}"}, {"RT_MIMALLOC_LOAD": "{profile}"})
    for setting in ("seg", "pag")
}


def recording(name: str, profile: Path) -> Mapping[str, str]:
    return {key: value.format(profile=profile) for key, value in PROFILED[name].record.items()}


def loading(name: str, profile: Path, report: Path) -> Mapping[str, str]:
    return {key: value.format(profile=profile, report=report) for key, value in PROFILED[name].load.items()}
