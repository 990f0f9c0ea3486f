"""What is compared of threads: how much all their blocks are, at their peaks."""

from __future__ import annotations

from rtmalloc_tools.profile.profile_format import Record
from rtmalloc_tools.profile.size_classes import GRANULE, block_size


def block_bytes(record: Record) -> int:
    return sum(n * block_size(c) for c, n in enumerate(record.blocks) if n)


def weight(record: Record) -> int:
    """What `least` has of one run (src/profile.c)."""
    return block_bytes(record) // GRANULE + 1
