"""Threads of one start routine that are alike get the maximum over all of these, as src/profile.c does at loading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from rtmalloc_tools.profile.combine import maximum
from rtmalloc_tools.profile.profile_format import Profile, Record
from rtmalloc_tools.profile.size_classes import GRANULE
from rtmalloc_tools.profile.weight import block_bytes

ALIKE, LITTLE, TELLS = 4, 16 << 10, 5  # src/profile.h


def needed(record: Record, runs: int, always: bool = False) -> int:
    """The bytes in blocks that another thread has at least, if this one is alike to it: an ALIKE-th of this one's, and
    where the runs tell, two thirds of what this one always had, or all of that."""
    had = (record.least - 1) * GRANULE if runs >= TELLS and record.least else 0
    return max((block_bytes(record) + LITTLE) // ALIKE - LITTLE, had if always else had * 2 // 3, 0)


def by_routine(threads: Iterable[Record]) -> dict[tuple[str, int], list[Record]]:
    routines: dict[tuple[str, int], list[Record]] = {}
    for record in threads:
        routines.setdefault((record.module, record.offset), []).append(record)
    return routines


def levelled(profile: Profile) -> list[Record]:
    """The threads, each with the maximum over those of its start routine that are alike (src/profile.h)."""
    threads = [record for record in profile.records if not record.process]
    level = {
        record.key: record
        for records in by_routine(threads).values()
        for record in level_routine(records, profile.runs)
    }
    return [level[record.key] for record in threads]


def level_routine(records: Sequence[Record], runs: int) -> Iterable[Record]:
    """Those that are alike to a thread are the first in the order of what they need: a merge for each thread."""
    order = sorted(records, key=lambda record: needed(record, runs))
    needs = np.array([needed(record, runs) for record in order], dtype=float)
    always = np.array([needed(record, runs, always=True) for record in order], dtype=float)
    weights = np.array([block_bytes(record) for record in order], dtype=float)
    least = np.array([record.granules_least for record in order])
    up_to = list(accumulate(order, maximum))
    together = max(record.together for record in records)
    for mine in records:
        bytes_ = block_bytes(mine)
        alike = int(np.searchsorted(needs, bytes_, side="right"))
        both_ways = least[(always <= bytes_) & (weights >= needed(mine, runs, always=True))]
        most = maximum(mine, up_to[alike - 1]) if alike else mine
        yield replace(most, granules_least=int(min([mine.granules_least, *both_ways])), together=together)
