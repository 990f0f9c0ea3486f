"""What loading a profile makes ready in each mode, as src/plan.c plans it, and what that figure is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from rtmalloc_tools.profile.combine import maximum
from rtmalloc_tools.profile.extent import EXTENT_GRANULES, extent_granules, plan_extent
from rtmalloc_tools.profile.profile_format import Profile, Record
from rtmalloc_tools.profile.size_classes import (
    EXTENT_MAX,
    GRANULE,
    PAGE_KINDS,
    SEGMENT,
    block_size,
    round_up,
)
from rtmalloc_tools.profile.stores import Store, stores_of

MEANINGS = {
    "pag": "Exact: all that the allocator makes ready for this profile, and all that its program can need, in whatever "
    "order it asks for what the profile counts. What it does not count is a miss, and comes on top.",
    "seg": "What the allocator makes ready: the recorded pages and spans, an eighth of the pages, a quarter of the "
    "spans, an eighth of the first 8 MiB of them and 256 KiB more, and where threads race, the least of each and what "
    "they share; for large spans stores, where those take less. Not a bound of what the program needs: another order "
    "of requests may fragment more, and is then a miss.",
}
ALIKE, LITTLE, TELLS = 4, 16 << 10, 5  # src/profile.h
TABLE_ENTRY = 4  # bytes of the table for each granule
WORD = 8
EXTENT_FIRST, EXTENT_LEAF = 2, 1024  # src/extent.h
CHUNK, STRIDE = 64, 65  # granules of a chunk of the shared reserve, without and with what sets it apart
SEGMENT_CHUNKS = EXTENT_GRANULES // STRIDE
SHARE_MOST = 1 << 21  # granules: half of what an extent may have
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
        alike = [its for its in routines[mine.module, mine.offset] if is_alike(mine, its)]
        both_ways = (its.granules_least for its in alike if is_alike(its, mine))
        return replace(reduce(maximum, alike, mine), granules_least=min(both_ways, default=mine.granules_least))

    return [level(record) for record in threads]


def tree_bytes(blocks: int) -> int:
    """A bit for each block, and the three levels of words above (src/store.c)."""
    zero = -(-blocks // 64)
    one = -(-zero // 64)
    two = -(-one // 64)
    return round_up((zero + one + two + 1) * WORD, 64)


@dataclass(frozen=True)
class Thread:
    """What a thread has for itself, and whether it may take chunks of the shared reserve."""

    record: Record
    shares: bool

    def plan(self, mode: str) -> tuple[int, list[Store]]:
        """Granules of the extent, and the stores."""
        if mode == "pag":
            return 0, stores_of(self.record)
        extent = plan_extent(self.record, self.shares)
        return extent.granules, extent.stores


@dataclass(frozen=True)
class Shared:
    """The threads, and the chunks of the reserve of mode `seg` (0: there is none)."""

    threads: tuple[Thread, ...]
    chunks: int


def shared(profile: Profile, mode: str) -> Shared:
    """Where it takes less memory, threads that race keep the least that each had in any run, and share what
    they had beyond that in the run where it was the most (plan_share in src/plan.c)."""
    threads = levelled(profile)
    without = Shared(tuple(Thread(record, False) for record in threads), 0)

    def may_share(record: Record) -> bool:
        return mode == "seg" and record.granules > record.granules_least and record.span_largest <= CHUNK

    def own(record: Record) -> Record:
        return replace(record, granules=record.granules_least or 1)

    sharing = [record for record in threads if may_share(record)]
    at_once = max((record.granules for record in profile.records if record.process), default=0)
    beyond = min(
        max(at_once - sum(record.granules_least for record in threads), 0),
        sum(record.granules - record.granules_least for record in sharing),
    )
    chunks = -(-(beyond + beyond // 8 + len(sharing) * (CHUNK // 2)) // CHUNK)
    before = sum(extent_granules(record) for record in sharing)
    after = sum(extent_granules(own(record)) for record in sharing) + chunks * CHUNK
    too_large = chunks * CHUNK > SHARE_MOST or any(extent_granules(own(record)) > SHARE_MOST for record in sharing)
    if not beyond or too_large or after >= before:
        return without
    return Shared(
        tuple(Thread(own(record), True) if may_share(record) else Thread(record, False) for record in threads), chunks
    )


def span_metadata(granules: int, segments: int, layout: Layout) -> int:
    """Table and descriptors of so many granules of blocks, in so many segments (src/extent_make.c)."""
    return (granules + segments * (EXTENT_FIRST + 1)) * TABLE_ENTRY + (
        granules + segments * (EXTENT_FIRST + 2)
    ) * layout.span


def extent_metadata(granules: int, shares: bool, chunks: int, layout: Layout) -> int:
    """Table and descriptors of the extent, its trees of hints, with places for the chunks, and what full segments have
    beside blocks (src/extent_make.c; make_extent in src/mode.c)."""
    beside = granules // EXTENT_GRANULES * (SEGMENT - EXTENT_GRANULES * GRANULE)
    leaves = -(-max(granules, 1) // FANOUT)
    groups = -(-leaves // FANOUT) + (-(-chunks // FANOUT) if shares else 0)
    trees = 2 * (leaves * EXTENT_LEAF + groups * layout.hint_group)
    return beside + span_metadata(granules, -(-granules // EXTENT_GRANULES), layout) + round_up(trees, GRANULE)


def chunk_metadata(chunks: int, layout: Layout) -> int:
    """The list of the chunks, their leaves, table and descriptors (src/extent_make.c)."""
    lists = round_up(chunks * WORD, GRANULE) + chunks * 2 * EXTENT_LEAF
    return lists + span_metadata(chunks * STRIDE, -(-chunks // SEGMENT_CHUNKS), layout)


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
    plan = shared(profile, mode)
    blocks = plan.chunks * CHUNK * GRANULE
    metadata = chunk_metadata(plan.chunks, layout) if layout and plan.chunks else 0
    for thread in plan.threads:
        granules, stores = thread.plan(mode)
        run = sum(round_up(count * size, GRANULE) for count, size in stores)
        blocks += run + granules * GRANULE
        if layout is None:
            continue
        metadata += layout.heap + layout.stores
        if stores:
            metadata += sum(tree_bytes(count) for count, _ in stores)
            metadata += run // GRANULE * TABLE_ENTRY + layout.span * len(thread.record.blocks)
        if mode == "seg":
            metadata += extent_metadata(granules, thread.shares, plan.chunks, layout)
    index = index_bytes((thread.record for thread in plan.threads), layout) if layout else 0
    return Memory(blocks, metadata + index)


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
