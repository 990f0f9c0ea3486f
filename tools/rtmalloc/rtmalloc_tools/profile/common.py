"""What all threads have in common in mode `pag`, where the recorded runs differ (plan_common in src/plan.c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from rtmalloc_tools.profile.combine import WORD_MOST, large_bins_from, maximum
from rtmalloc_tools.profile.level import by_routine, levelled
from rtmalloc_tools.profile.profile_format import DOUBLINGS, EIGHTS, Profile, Record
from rtmalloc_tools.profile.size_classes import CLASSES
from rtmalloc_tools.profile.stores import eight_bins
from rtmalloc_tools.profile.weight import weight

SPREAD_MOST = 64
RACES_ABOVE = SPREAD_MOST // 32
PART_MOST = SPREAD_MOST // 8


def spread(record: Record) -> int:
    """How many 64ths less one run had of it than another."""
    most = weight(record)
    return -(-(most - min(record.least, most)) * SPREAD_MOST // most)


def more_of(record: Record, part: int) -> list[int]:
    """By as much as it differed it may differ once more, to an eighth of it. Of large blocks whole ones only."""
    part = min(part, PART_MOST)
    return [
        (count * part + (SPREAD_MOST - 1 if number <= CLASSES else 0)) // SPREAD_MOST if number else 0
        for number, count in enumerate(record.blocks)
    ]


def with_blocks(record: Record, blocks: Sequence[int]) -> Record:
    def at_most(count: int) -> int:
        return min(count, WORD_MOST)

    more = replace(
        record,
        blocks=tuple(at_most(a + b) for a, b in zip(record.blocks, blocks, strict=True)),
        small_at_once=tuple(
            at_most(record.small_at_once[eight] + sum(blocks[number] for number in eight_bins(eight)))
            for eight in range(EIGHTS)
        ),
        large_from=tuple(
            at_most(record.large_from[doubling] + sum(blocks[large_bins_from(doubling)]))
            for doubling in range(DOUBLINGS)
        ),
    )
    return maximum(record, more)  # what is not known of the record stays so


def common(profile: Profile) -> Record | None:
    """Of routines with several threads that race, the most that any of these has; of each other thread, as much as it
    differed by."""
    threads = [record for record in profile.records if not record.process]
    if not threads:
        return None
    levels = {record.key: record for record in levelled(profile)}
    racing: list[Record] = []
    more = [0] * profile.bins
    for recorded in by_routine(threads).values():
        parts = {record.key: spread(record) for record in recorded}
        if len(recorded) > 1 and max(parts.values()) > RACES_ABOVE:
            racing += [levels[record.key] for record in recorded]
            continue
        for record in recorded:
            more = [a + b for a, b in zip(more, more_of(levels[record.key], parts[record.key]), strict=True)]
    start = replace(
        threads[0],
        blocks=(0,) * profile.bins,
        small_at_once=(0,) * EIGHTS,
        large_from=(0,) * DOUBLINGS,
        alignment=tuple(max(of) for of in zip(*(record.alignment for record in levels.values()), strict=True)),
    )
    most = with_blocks(reduce(maximum, racing, start), more)
    return most if any(most.blocks) else None
