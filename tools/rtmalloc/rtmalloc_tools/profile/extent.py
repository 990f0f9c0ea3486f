"""The extent of a thread's heap in mode `seg`, and which spans have stores beside it, as src/plan.c plans them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rtmalloc_tools.profile.profile_format import Record
from rtmalloc_tools.profile.size_classes import (
    BLOCK_MAX,
    CLASSES,
    EXTENT_FEW,
    EXTENT_FOOTPRINT_PART,
    EXTENT_MAX,
    EXTENT_MORE,
    EXTENT_PAGES_PART,
    GRANULE,
    MEDIUM_MAX,
    SEGMENT,
    block_size,
)
from rtmalloc_tools.profile.stores import Store, large_stores, room_before

EXTENT_GRANULES = 1020  # of a segment (src/extent.h)


def apart(record: Record, length: int, longer: int) -> int:
    """Granules where a segment may have less than `length` left in one piece; `longer` spans have half a one each."""
    granules, spans = record.granules, record.span_granules
    return (
        granules
        + spans * EXTENT_GRANULES // (EXTENT_GRANULES + 1 - length)
        - spans
        + longer * (SEGMENT // GRANULE // 2)
    )


def usual_granules(record: Record, shares: bool) -> int:
    """Granules for what was in pages and spans at one time, a twelfth of the pages, a quarter of the spans and an
    eighth of the first 8 MiB of them, or what large spans need apart; EXTENT_MORE and the longest span. Who shares has
    chunks: one that needs little has as much more."""
    granules = record.granules
    if not granules:
        return 0
    largest = min(record.span_largest, EXTENT_MAX // GRANULE)
    parts, longer = apart(record, max(largest, 1), 0), 0
    for number in reversed(range(CLASSES + 1, len(record.blocks))):
        length = block_size(number) // GRANULE
        if not record.blocks[number] or block_size(number) > EXTENT_MAX:
            continue
        if length < largest:
            parts = min(parts, apart(record, length, longer))
        longer += record.blocks[number]
    spans = min(record.span_granules, granules)
    more = (granules - spans) // EXTENT_PAGES_PART + (2 * spans + min(spans, EXTENT_FEW)) // 8
    rest = min(EXTENT_MORE, granules) if shares else EXTENT_MORE + largest
    return max(parts, granules + more) + rest


def footprint_granules(record: Record) -> int:
    """What the recorded heap had in use and free together, and a little more."""
    return record.footprint + record.footprint // EXTENT_FOOTPRINT_PART + EXTENT_MORE


def extent_granules(record: Record, shares: bool) -> int:
    usual = usual_granules(record, shares)
    return max(usual, footprint_granules(record)) if record.granules else usual


def leaves_much_free(record: Record) -> bool:
    usual = usual_granules(record, shares=False)
    return footprint_granules(record) > usual + usual // 8


@dataclass(frozen=True)
class Extent:
    """What a thread's heap has in mode `seg`."""

    granules: int
    stores: list[Store]  # of the spans that have one, and of all larger blocks
    room: int  # bytes before stores, so that they are aligned

    @property
    def bytes(self) -> int:
        return self.granules * GRANULE + sum(blocks * size for blocks, size in self.stores)


def without_larger(record: Record, spans_most: int) -> Record:
    """What is left for the extent, if larger spans have stores: at most what its sizes need that are not larger."""
    blocks = tuple(0 if block_size(number) > spans_most else count for number, count in enumerate(record.blocks))
    needed = sum(count * (block_size(number) // GRANULE) for number, count in enumerate(blocks) if number > CLASSES)
    spans = min(record.span_granules, needed)
    return replace(
        record,
        blocks=blocks,
        span_granules=spans,
        granules=min(record.granules, record.page_granules + spans),
        span_largest=min(record.span_largest, spans_most // GRANULE),
    )


def footprint_without(record: Record, spans_most: int) -> int:
    """What larger medium blocks have in stores is not in the extent."""
    larger = sum(
        count * (block_size(number) // GRANULE)
        for number, count in enumerate(record.blocks)
        if number > CLASSES and spans_most < block_size(number) <= MEDIUM_MAX
    )
    return max(record.footprint - larger, 0)


def with_stores_above(record: Record, spans_most: int, shares: bool) -> Extent:
    """The stores of blocks that could be spans have an eighth and one more of them."""
    stores = [
        (blocks + (blocks // 8 + 1 if size <= EXTENT_MAX else 0), size)
        for blocks, size in large_stores(record, spans_most)
    ]
    left = without_larger(record, spans_most) if spans_most < EXTENT_MAX else record
    left = replace(left, footprint=footprint_without(record, spans_most))
    return Extent(extent_granules(left, shares), stores, room_before(record, spans_most))


def doublings() -> Iterator[int]:
    most = 2 * BLOCK_MAX
    while most < EXTENT_MAX:
        yield most
        most *= 2


def plan_extent(record: Record, shares: bool) -> Extent:
    """Where an eighth of the memory is saved, spans from some doubling of the size on have stores. `shares`: the thread
    has the least that it needed, and what it needs beyond is in chunks."""
    best = with_stores_above(record, EXTENT_MAX, shares)
    least = best.bytes - best.bytes // 8
    for spans_most in doublings() if not shares else ():
        other = with_stores_above(record, spans_most, shares)
        if other.bytes < least:
            best, least = other, other.bytes
    return best
