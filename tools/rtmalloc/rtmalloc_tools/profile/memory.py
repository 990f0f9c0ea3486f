"""The most memory that a profile's program can need, and what that figure is worth in each mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rtmalloc_tools.profile.profile_format import Profile, Record
from rtmalloc_tools.profile.size_classes import (
    BLOCK_MAX,
    GRANULE,
    MEDIUM_MAX,
    PAGE_KINDS,
    SEGMENT,
    block_size,
    round_up,
)

MEANINGS = {
    "pag": "Exact for the profile's peaks: each thread's blocks of each size, in granules of 4 KiB, whatever the order "
    "of requests. Without the allocator's metadata.",
    "seg": "As recorded, not a bound: each thread's pages and spans at their peaks, huge blocks in segments of 4 MiB. "
    "Another order of requests may fragment differently. Without the allocator's metadata.",
}


def thread_records(profile: Profile) -> list[Record]:
    """The threads; where only the whole process was recorded, that."""
    threads = [record for record in profile.records if not record.process]
    return threads or list(profile.records)


def small_bytes(record: Record) -> int:
    return sum(n * block_size(c) for c, n in enumerate(record.blocks) if block_size(c) <= BLOCK_MAX)


def block_bytes(record: Record) -> int:
    return sum(n * block_size(c) for c, n in enumerate(record.blocks))


def huge_blocks(record: Record) -> list[tuple[int, int]]:
    """(size, blocks) of the bins above the largest span."""
    return [(block_size(c), n) for c, n in enumerate(record.blocks) if n and block_size(c) > MEDIUM_MAX]


def pag_bytes(records: Sequence[Record]) -> int:
    return sum(round_up(n * block_size(c), GRANULE) for record in records for c, n in enumerate(record.blocks))


def page_bytes(record: Record) -> int:
    return sum(n * size for n, (_, size) in zip(record.pages, PAGE_KINDS, strict=False))


def seg_bytes(records: Sequence[Record]) -> int:
    huge = sum(n * round_up(size, SEGMENT) for record in records for size, n in huge_blocks(record))
    return huge + sum(page_bytes(record) + record.span_granules * GRANULE for record in records)


def most_memory(profile: Profile, name: str) -> dict[str, Any]:
    records = thread_records(profile)
    return {
        "profile": name,
        "pag": {"bytes": pag_bytes(records), "meaning": MEANINGS["pag"]},
        "seg": {"bytes": seg_bytes(records), "meaning": MEANINGS["seg"]},
    }
