"""Plays a plan on one allocator, several times, and votes. What was done is kept, so an interrupted run goes on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtlab.allocators import Allocator
from rtlab.catalogue import GLIBC
from rtlab.entries import Entry
from rtlab.environment import sha256
from rtlab.measuring import measure, preload
from rtlab.native import Native
from rtlab.profiled import PROFILED, loading, recording

RECORDINGS = 2  # of a profile: racing threads give varying peaks


@dataclass(frozen=True)
class Replayed:
    """All runs on one allocator. Without runs where it failed."""

    allocator: str
    version: str
    status: str  # ok, or X and the reason
    wall_s: list[float]
    peak_mib: list[float]  # above the runner's own memory
    minor_faults: list[int]
    major_faults: list[int]
    failures: int  # requests that got no memory, at most
    overhead: int  # ticks of one reading of the counter
    ticks_per_second: float
    calls: dict[str, int] | None  # system calls for memory; None: could not be counted
    misses: int | None  # of rtmalloc's profile
    pinned: bool


@dataclass(frozen=True)
class Bench:
    """Where and how to replay."""

    native: Native
    plan: Path
    folder: Path
    runs: int
    limit_s: int


def entry_of(bench: Bench, result: Path, cycles: Path) -> Entry:
    return Entry("replay", "load", (str(bench.native.replay), str(bench.plan), str(result), str(cycles)))


def play(bench: Bench, allocator: Allocator) -> tuple[str, dict[str, float], NDArray[np.uint32]]:
    """One run: its status, the runner's report, the cycles of each operation."""
    result, cycles = bench.folder / "run.json", bench.folder / "run.cycles"
    result.unlink(missing_ok=True)
    run = measure(bench.native, entry_of(bench, result, cycles), allocator, bench.limit_s)
    if run.status != "ok" or not result.is_file():
        cycles.unlink(missing_ok=True)
        return run.status if run.status != "ok" else "X no result", {}, np.empty(0, np.uint32)
    voted = np.fromfile(cycles, np.uint32)
    cycles.unlink()
    return "ok", json.loads(result.read_text()), voted


def count_calls(bench: Bench, allocator: Allocator) -> dict[str, int] | None:
    """System calls for memory during the replay; None where ptrace or seccomp is not permitted."""
    result, cycles, counts = (bench.folder / name for name in ("run.json", "run.cycles", "calls.json"))
    counts.unlink(missing_ok=True)
    entry = entry_of(bench, result, cycles)
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    environment |= {"RTLAB_PRELOAD": preload(entry, allocator), **allocator.environment}
    try:
        done = subprocess.run(
            [bench.native.count_calls, counts, *entry.command],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=bench.limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    finally:
        cycles.unlink(missing_ok=True)
    return json.loads(counts.read_text()) if done.returncode == 0 and counts.is_file() else None


def prepared(bench: Bench, allocator: Allocator) -> tuple[str, Allocator, Path | None]:
    """For what a profile prepares: one recorded by playing the plan, and the settings that load it."""
    if allocator.name not in PROFILED:
        return "ok", allocator, None
    profile, report = bench.folder / f"{allocator.name}.rtp", bench.folder / "report.json"
    profile.unlink(missing_ok=True)
    recorder = recording(allocator, profile)
    for _ in range(RECORDINGS):
        status, _, _ = play(bench, recorder)
        if status != "ok":
            return f"{status} (recording)", allocator, None
    if not profile.is_file():
        return "X no profile", allocator, None
    report.unlink(missing_ok=True)  # not every one of them writes it
    return "ok", sealed_by_the_runner(loading(allocator, profile, report)), report


def sealed_by_the_runner(allocator: Allocator) -> Allocator:
    """The same, but that replay seals it once it has its own memory, as a program does that sets itself up first."""
    environment = dict(allocator.environment)
    if environment.pop("RTMALLOC_SEAL", None):
        environment["RTLAB_SEAL"] = "1"
    return replace(allocator, environment=environment)


def own_kib(bench: Bench) -> float:
    """Resident memory of the runner itself before it begins, on the system's allocator."""
    _, report, _ = play(bench, Allocator(GLIBC, None, "", ""))
    return report.get("start_kib", 0)


def key_of(bench: Bench, allocator: Allocator) -> str:
    """Changes when a result kept from before is of something else."""
    parts = [sha256(bench.plan), sha256(allocator.library) if allocator.library else allocator.version]
    parts += [sha256(bench.native.replay), str(bench.runs), str(bench.limit_s), *sorted(allocator.environment.values())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def kept(bench: Bench, allocator: Allocator) -> tuple[Replayed, NDArray[np.uint32]] | None:
    files = [bench.folder / f"{allocator.name}.{suffix}" for suffix in ("json", "npy")]
    try:
        document = json.loads(files[0].read_text())
        if document.pop("key") != key_of(bench, allocator):
            return None
        return Replayed(**document), np.load(files[1])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(bench: Bench, allocator: Allocator, replayed: Replayed, cycles: NDArray[np.uint32]) -> None:
    np.save(bench.folder / f"{allocator.name}.npy", cycles)
    document = {"key": key_of(bench, allocator), **asdict(replayed)}
    (bench.folder / f"{allocator.name}.json").write_text(json.dumps(document) + "\n")


def failed(allocator: Allocator, status: str) -> Replayed:
    return Replayed(allocator.name, allocator.version, status, [], [], [], [], 0, 0, 0.0, None, None, False)


def replay_on(
    bench: Bench, allocator: Allocator, own: float, progress: Callable[[int], None]
) -> tuple[Replayed, NDArray[np.uint32]]:
    """The runs, and of each operation the fewest cycles that any of them took, less the counter's own."""
    nothing = np.empty(0, np.uint32)
    status, ready, report_file = prepared(bench, allocator)
    reports = []
    voted: NDArray[np.uint32] | None = None
    for number in range(bench.runs):
        progress(number)
        if status == "ok":
            status, report, cycles = play(bench, ready)
        if status != "ok":
            return failed(allocator, status), nothing
        reports.append(report)
        voted = cycles if voted is None else np.minimum(voted, cycles)
    assert voted is not None
    overhead = int(min(report["overhead"] for report in reports))
    voted -= np.minimum(voted, overhead).astype(np.uint32)
    misses = json.loads(report_file.read_text())["misses"] if report_file and report_file.is_file() else None
    return Replayed(
        allocator=allocator.name,
        version=allocator.version,
        status="ok",
        wall_s=[report["wall_ns"] / 1e9 for report in reports],
        peak_mib=[max(0.0, report["peak_kib"] - own) / 1024 for report in reports],
        minor_faults=[int(report["minor_faults"]) for report in reports],
        major_faults=[int(report["major_faults"]) for report in reports],
        failures=int(max(report["failures"] for report in reports)),
        overhead=overhead,
        ticks_per_second=reports[0]["wall_ticks"] / max(1, reports[0]["wall_ns"]) * 1e9,
        calls=count_calls(bench, ready),
        misses=misses,
        pinned=bool(reports[0]["pinned"]),
    ), voted


def forget(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
