"""What loading a profile makes ready in each mode, as src/plan.c plans it, and what that figure is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from rtmalloc_tools.profile.combine import maximum
from rtmalloc_tools.profile.profile_format import Profile, Record
from rtmalloc_tools.profile.size_classes import (
    CLASSES,
    EXTENT_MAX,
    EXTENT_MORE,
    GRANULE,
    PAGE_KINDS,
    SEGMENT,
    block_size,
    round_up,
)
from rtmalloc_tools.profile.stores import stores_of

MEANINGS = {
    "pag": "Exact: all that the allocator makes ready for this profile, and all that its program can need, in whatever "
    "order it asks for what the profile counts. What it does not count is a miss, and comes on top.",
    "seg": "What the allocator makes ready: the recorded pages and spans, an eighth and 256 KiB more. Not a "
    "bound of what the program needs: another order of requests may fragment more, and is "
    "then a miss.",
}
ALIKE, LITTLE, TELLS = 4, 16 << 10, 5  # src/profile.h
TABLE_ENTRY = 4  # bytes of the table for each granule
WORD = 8
EXTENT_FIRST, EXTENT_GRANULES, EXTENT_LEAF = 2, 1020, 1024  # src/extent.h
FANOUT = 64  # of the hint trees
LEVELS = 3  # words of the index for each heap, at most one of each level (src/prepared.c)


@dataclass(frozen=True)
class Layout:
    """Bytes of the library's structures."""

    heap: int
    stores: int
    group: int
    bucket: int
    span: int
    hint_group: int

    @staticmethod
    def read(sizes: Mapping[str, int]) -> Layout:
        return Layout(**{name: sizes[name] for name in STRUCTURES})


STRUCTURES = ("heap", "stores", "group", "bucket", "span", "hint_group")


@dataclass(frozen=True)
class Memory:
    """Bytes that hold blocks, and all others; these only where the library's layout is known."""

    blocks: int
    metadata: int

    @property
    def bytes(self) -> int:
        return self.blocks + self.metadata


def block_bytes(record: Record) -> int:
    return sum(n * block_size(c) for c, n in enumerate(record.blocks))


def huge_blocks(record: Record) -> list[tuple[int, int]]:
    """(size, blocks) of the bins that have stores in mode `seg`, too."""
    return [(block_size(c), n) for c, n in enumerate(record.blocks) if n and block_size(c) > EXTENT_MAX]


def page_bytes(record: Record) -> int:
    return sum(n * size for n, (_, size) in zip(record.pages, PAGE_KINDS, strict=True))


def weight(record: Record) -> int:
    """What `least` has of one run (src/profile.c)."""
    return block_bytes(record) // GRANULE + 1


def levelled(profile: Profile) -> list[Record]:
    """The threads, each with the maximum over those of its start routine that are alike (src/profile.h)."""
    threads = [record for record in profile.records if not record.process]
    routines: dict[tuple[str, int], list[Record]] = {}
    for record in threads:
        routines.setdefault((record.module, record.offset), []).append(record)

    def is_alike(mine: Record, its: Record) -> bool:
        told_apart = profile.runs >= TELLS and weight(mine) < its.least
        return not told_apart and (block_bytes(its) + LITTLE) // ALIKE <= block_bytes(mine) + LITTLE

    def level(mine: Record) -> Record:
        return reduce(maximum, [its for its in routines[mine.module, mine.offset] if is_alike(mine, its)], mine)

    return [level(record) for record in threads]


def tree_bytes(blocks: int) -> int:
    """A bit for each block, and the three levels of words above (src/store.c)."""
    zero = -(-blocks // 64)
    one = -(-zero // 64)
    two = -(-one // 64)
    return round_up((zero + one + two + 1) * WORD, 64)


def apart(record: Record, length: int, longer: int) -> int:
    """Granules where a segment may have less than `length` left in one piece; `longer` spans have half a one each."""
    granules, spans = record.granules, record.span_granules
    return (
        granules
        + spans * EXTENT_GRANULES // (EXTENT_GRANULES + 1 - length)
        - spans
        + longer * (SEGMENT // GRANULE // 2)
    )


def extent_of(record: Record) -> int:
    """Granules for what was in pages and spans at one time and an eighth, or what large spans need apart; EXTENT_MORE
    or the longest span. (src/plan.c)"""
    granules = record.granules
    if not granules:
        return 0
    largest = min(record.span_largest, EXTENT_MAX // GRANULE)
    parts, longer = apart(record, largest, 0), 0
    for number in reversed(range(CLASSES + 1, len(record.blocks))):
        length = block_size(number) // GRANULE
        if not record.blocks[number] or block_size(number) > EXTENT_MAX:
            continue
        if length < largest:
            parts = min(parts, apart(record, length, longer))
        longer += record.blocks[number]
    return max(parts, granules + granules // 8) + max(EXTENT_MORE, largest)


def extent_metadata(record: Record, layout: Layout) -> int:
    """Table and descriptors of the extent, and its trees of hints (src/extent.c)."""
    granules = extent_of(record)
    segments = -(-granules // EXTENT_GRANULES)
    table = granules + segments * (EXTENT_FIRST + 1)
    spans = granules + segments * (EXTENT_FIRST + 2)
    leaves = -(-max(granules, 1) // FANOUT)
    trees = 2 * (leaves * EXTENT_LEAF + -(-leaves // FANOUT) * layout.hint_group)
    return table * TABLE_ENTRY + spans * layout.span + round_up(trees, GRANULE)


def index_bytes(records: Iterable[Record], layout: Layout) -> int:
    """The table from start routine to prepared heaps (src/prepared.c)."""
    heaps = list(records)
    if not heaps:
        return 0
    routines = len({(record.module, record.offset) for record in heaps})
    buckets = 1 << max(1, (routines - 1).bit_length())
    each = layout.group + WORD + LEVELS * WORD
    return round_up(len(heaps) * each, GRANULE) + round_up(buckets * layout.bucket, GRANULE)


def prepared(profile: Profile, mode: str, layout: Layout | None) -> Memory:
    heaps = levelled(profile)
    blocks = metadata = 0
    for record in heaps:
        stores = stores_of(record, mode)
        run = sum(round_up(count * size, GRANULE) for count, size in stores)
        blocks += run + (extent_of(record) * GRANULE if mode == "seg" else 0)
        if layout is None:
            continue
        metadata += layout.heap + layout.stores
        if stores:
            metadata += sum(tree_bytes(count) for count, _ in stores)
            metadata += run // GRANULE * TABLE_ENTRY + layout.span * len(record.blocks)
        if mode == "seg":
            metadata += extent_metadata(record, layout)
    return Memory(blocks, metadata + (index_bytes(heaps, layout) if layout else 0))


def most_memory(profile: Profile, name: str, layout: Layout | None = None) -> dict[str, Any]:
    figures: dict[str, Any] = {"profile": name}
    for mode, meaning in MEANINGS.items():
        memory = prepared(profile, mode, layout)
        without = "" if layout else " Without the allocator's metadata."
        figures[mode] = {
            "bytes": memory.bytes,
            "blocks_bytes": memory.blocks,
            "metadata_bytes": memory.metadata,
            "meaning": meaning + without,
        }
    return figures
