"""Threads of one start routine that are alike get the maximum over all of these, as src/profile.c does at loading."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate

from rtmalloc_tools.profile.combine import maximum
from rtmalloc_tools.profile.profile_format import Profile, Record
from rtmalloc_tools.profile.size_classes import GRANULE, block_size

ALIKE, LITTLE, TELLS = 4, 16 << 10, 5  # src/profile.h


def block_bytes(record: Record) -> int:
    return sum(n * block_size(c) for c, n in enumerate(record.blocks) if n)


def weight(record: Record) -> int:
    """What `least` has of one run (src/profile.c)."""
    return block_bytes(record) // GRANULE + 1


def levelled(profile: Profile) -> list[Record]:
    """The threads, each with the maximum over those of its start routine that are alike (src/profile.h)."""
    threads = [record for record in profile.records if not record.process]
    routines: dict[tuple[str, int], list[Record]] = {}
    for record in threads:
        routines.setdefault((record.module, record.offset), []).append(record)
    level = {}
    for records in routines.values():
        weights = [weight(record) for record in records]
        told_apart = profile.runs >= TELLS and min(weights) < max(record.least for record in records)
        way = one_by_one if told_apart else side_by_side
        level.update((record.key, made) for record, made in zip(records, way(records), strict=True))
    return [level[record.key] for record in threads]


def one_by_one(records: Sequence[Record]) -> Iterable[Record]:
    """Where some that are alike are told apart, as one always needed more than the other ever did."""
    sizes = {record.key: (block_bytes(record), weight(record)) for record in records}

    def is_alike(mine: Record, its: Record) -> bool:
        (bytes_, weight_), (its_bytes, _) = sizes[mine.key], sizes[its.key]
        return weight_ >= its.least and (its_bytes + LITTLE) // ALIKE <= bytes_ + LITTLE

    for mine in records:
        alike = [its for its in records if is_alike(mine, its)]
        both_ways = (its.granules_least for its in alike if is_alike(its, mine))
        yield replace(reduce(maximum, alike, mine), granules_least=min(both_ways, default=mine.granules_least))


def side_by_side(records: Sequence[Record]) -> Iterable[Record]:
    """The same where none are: in the order of their bytes, those that are alike one way are all up to some place, and
    those both ways from some place on. So thousands of threads need no more than a merge each."""
    order = sorted(records, key=block_bytes)
    sizes = [block_bytes(record) + LITTLE for record in order]
    up_to = list(accumulate(order, maximum))
    for mine in records:
        bytes_ = block_bytes(mine) + LITTLE
        last = bisect_right(sizes, bytes_, key=lambda its: its // ALIKE)
        first = bisect_left(sizes, bytes_ // ALIKE)
        least = min(record.granules_least for record in order[first:last])
        yield replace(maximum(mine, up_to[last - 1]), granules_least=least)
