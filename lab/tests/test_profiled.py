"""What a benchmark records and loads for the real-time modes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtlab import profiled
from rtlab.allocators import Allocator
from rtlab.entries import Entry
from rtlab.measuring import Run


@pytest.fixture
def entry() -> Entry:
    return Entry("load", "load", ("/bin/true",))


def allocator(name: str) -> Allocator:
    return Allocator(name, Path("librtmalloc.so"), "this tree", "build")


def test_one_profile_serves_both_modes(tmp_path: Path, entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = []

    def run(native: object, entry: Entry, allocator: Allocator, limit_s: int) -> Run:
        profile = Path(allocator.environment["RTMALLOC_RECORD"])
        profile.write_text("stable")
        recorded.append(profile)
        return Run(1, 1, 0, 1, "ok", "")

    monkeypatch.setattr(profiled, "measure", run)
    profiles = profiled.Profiles(None, tmp_path / "profiles", 10)  # type: ignore[arg-type]
    seg, pag = (profiles.ready(entry, allocator(f"rtmalloc-{mode}")) for mode in ("seg", "pag"))
    assert isinstance(seg, Allocator) and isinstance(pag, Allocator)
    assert len(recorded) == 2  # until it stays as it is
    assert seg.environment["RTMALLOC_PROFILE"] == pag.environment["RTMALLOC_PROFILE"]
    assert (seg.environment["RTMALLOC_MODE"], pag.environment["RTMALLOC_MODE"]) == ("seg", "pag")
    assert seg.environment["RTMALLOC_REPORT"] != pag.environment["RTMALLOC_REPORT"]


def test_a_program_that_cannot_be_recorded_fails_in_the_modes(
    tmp_path: Path, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiled, "measure", lambda *given: Run(1, 1, 0, 1, "X exit 1", ""))
    profiles = profiled.Profiles(None, tmp_path / "profiles", 10)  # type: ignore[arg-type]
    run = profiles.ready(entry, allocator("rtmalloc-seg"))
    assert isinstance(run, Run) and run.status == "X exit 1 (recording)"


def test_what_is_recorded_each_time_starts_from_nothing(tmp_path: Path, entry: Entry) -> None:
    profiles = profiled.Profiles(None, tmp_path, 10)  # type: ignore[arg-type]
    (tmp_path / "load.again.rtp").write_text("of the run before")
    ready = profiles.ready(entry, allocator("rtmalloc-record"))
    assert isinstance(ready, Allocator) and not Path(ready.environment["RTMALLOC_RECORD"]).exists()
    assert profiles.ready(entry, allocator("rtmalloc")) == allocator("rtmalloc")
