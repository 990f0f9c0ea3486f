"""The stores that loading a profile makes for one thread, as src/plan.c plans them: blocks of one size, for one or more
sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rtmalloc_tools.profile.profile_format import DOUBLINGS, EIGHTS, Record
from rtmalloc_tools.profile.size_classes import (
    BLOCK_MAX,
    BLOCKS_MORE,
    CLASSES,
    GRANULE,
    PER_DOUBLING,
    STORE_BLOCKS_MAX,
    block_size,
    round_up,
)

Store = tuple[int, int]  # blocks, size


@dataclass(frozen=True)
class Shared:
    """The stores for the large sizes up to some doubling that take the least memory: (blocks, size) of each."""

    bytes: int
    stores: tuple[Store, ...]


def of_doubling(record: Record, doubling: int, above: int) -> list[Store]:
    """Of its sizes that are above that many bytes each its own store."""
    first = CLASSES + 1 + doubling * PER_DOUBLING
    return [
        (count, block_size(number))
        for number, count in enumerate(record.blocks[first : first + PER_DOUBLING], first)
        if count and block_size(number) > above
    ]


def aligned_stores(record: Record, above: int) -> Iterator[tuple[Store, int]]:
    """Of doublings some of whose blocks have to be aligned to more than a granule; and the bytes that a store may begin
    later by, as it is aligned to that, or else to as much as its size is a multiple of."""
    for doubling, alignment in enumerate(record.alignment):
        for blocks, size in of_doubling(record, doubling, above) if alignment else ():
            yield (blocks, size), min(alignment, size & -size) - GRANULE


def room_before(record: Record, above: int) -> int:
    return sum(room for _, room in aligned_stores(record, above))


def large_stores(record: Record, above: int) -> list[Store]:
    """Of sizes above that many bytes each its own store, or some doublings of the size one for all (src/plan.c)."""
    doublings = [
        [] if record.alignment[doubling] else of_doubling(record, doubling, above) for doubling in range(DOUBLINGS)
    ]
    least = [Shared(0, ())]
    for last, own in enumerate(doublings):
        best = Shared(least[last].bytes + sum(n * size for n, size in own), least[last].stores + tuple(own))
        for start in reversed(range(last + 1) if own else ()):
            together = sum(n for one in doublings[start : last + 1] for n, _ in one)
            blocks = min(record.large_from[start] or together, together)
            made = least[start].bytes + blocks * own[-1][1]
            if made < best.bytes:
                best = Shared(made, (*least[start].stores, (blocks, own[-1][1])))
        least.append(best)
    return [*least[-1].stores, *(store for store, _ in aligned_stores(record, above))]


def eight_bins(eight: int) -> range:
    return range(eight * PER_DOUBLING + 1, (eight + 1) * PER_DOUBLING + 1)


def one_for_eight(record: Record, eight: int) -> tuple[Store, bool]:
    """The store that would do for eight bins in pages, of the last one's blocks; and whether it takes a quarter less
    memory than a store for each, as they were not at their peaks at the same time."""
    bins = [number for number in eight_bins(eight) if record.blocks[number]]
    together = sum(record.blocks[number] for number in bins)
    blocks = min(record.small_at_once[eight] or together, together) + BLOCKS_MORE * len(bins)
    top = block_size(eight_bins(eight)[-1])
    apart = sum(round_up((record.blocks[number] + BLOCKS_MORE) * block_size(number), GRANULE) for number in bins)
    return (blocks, top), bool(bins) and round_up(blocks * top, GRANULE) <= apart // 4 * 3


def shares(record: Record, eight: int) -> bool:
    (blocks, _), less = one_for_eight(record, eight)
    return less and blocks <= STORE_BLOCKS_MAX


def eight_stores(record: Record, eight: int, *, share: bool = False) -> list[Store]:
    """Of eight bins in pages each its own store; or one for all, where that is less or they have to `share`."""
    store, less = one_for_eight(record, eight)
    bins = [number for number in eight_bins(eight) if record.blocks[number]]
    if bins and (share or less) and store[0] <= STORE_BLOCKS_MAX:
        return [store]
    return [(record.blocks[number] + BLOCKS_MORE, block_size(number)) for number in bins]


def eights_that_share(record: Record) -> frozenset[int]:
    return frozenset(eight for eight in range(EIGHTS) if shares(record, eight))


def stores_of(record: Record, share: frozenset[int] = frozenset()) -> list[Store]:
    """Each store of a thread's heap in mode `pag`, or of what all have in common, where some eights `share`."""
    small = [store for eight in range(EIGHTS) for store in eight_stores(record, eight, share=eight in share)]
    return small + large_stores(record, BLOCK_MAX)
