"""Profiles for the tests, by hand. Imports little: the fake program of test_record.py uses it in every run."""

from __future__ import annotations

from rtmalloc_tools.profile.profile_format import DOUBLINGS, EIGHTS, PROCESS_MODULE, Profile, Record, build_here

BINS = 80


def record(module: str = "", offset: int = 0, index: int = 0, blocks: dict[int, int] | None = None, **others) -> Record:
    counts = tuple((blocks or {}).get(number, 0) for number in range(others.pop("bins", BINS)))
    fields = {
        "pages": (0, 0, 0),
        "granules": 0,
        "span_granules": 0,
        "span_largest": 0,
        "threads_peak": 0,
        "page_granules": 0,
        "least": 0,
        "granules_least": 0,
        "together": 0,
        "footprint": 0,
        "large_from": (0,) * DOUBLINGS,
        "small_at_once": (0,) * EIGHTS,
        "alignment": (0,) * DOUBLINGS,
        **others,
    }
    return Record(module, offset, index, module == PROCESS_MODULE, counts, **fields)


def profile(*records: Record, build: int | None = None, bins: int = BINS, runs: int = 1) -> Profile:
    return Profile(build_here() if build is None else build, bins, runs, tuple(sorted(records, key=lambda r: r.key)))
