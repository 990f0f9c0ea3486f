"""What loading a profile makes ready in each mode, as src/plan.c plans it, and what that figure is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rtmalloc_tools.profile.common import common
from rtmalloc_tools.profile.extent import EXTENT_GRANULES, extent_granules, leaves_much_free, plan_extent
from rtmalloc_tools.profile.level import by_routine, levelled
from rtmalloc_tools.profile.profile_format import Profile, Record
from rtmalloc_tools.profile.size_classes import (
    BLOCK_MAX,
    EXTENT_MAX,
    EXTENT_PAGES_PART,
    EXTENT_SPANS_PART,
    GRANULE,
    PAGE_KINDS,
    SEGMENT,
    STORE_BLOCKS_MAX,
    block_size,
    in_words,
    round_up,
)
from rtmalloc_tools.profile.stores import Store, eights_that_share, room_before, stores_of

MEANINGS = {
    "pag": "Exact: all that the allocator makes ready for this profile, and all that its program can need, in whatever "
    "order it asks for what the profile counts; where the recorded runs differ, also what all threads have in common. "
    "What the profile does not count is a miss, and comes on top.",
    "seg": "What the allocator makes ready: the recorded pages and spans, a twelfth of the pages, a quarter of the "
    "spans, an eighth of the first 8 MiB of them, 256 KiB and the longest span more, and where threads race, the least "
    "of each and what they share; or what the recorded heap had in use and free together; for large spans stores, "
    "where those take less. Not a bound of what the program needs: another order of requests may fragment more, and is "
    "then a miss.",
}
TABLE_ENTRY = 4  # bytes of the table for each granule
WORD = 8
LINE = 64
SEGMENT_GRANULES = SEGMENT // GRANULE
FIRST_SPAN_SLOT = 2  # src/span.h
EXTENT_FIRST, EXTENT_END, EXTENT_LEAF, EXTENT_ALIGNMENT = 2, SEGMENT_GRANULES - 2, 1024, 2048  # src/extent.h
HUGE_PAGE, ALMOST, LITTLE_GAP = 512, 480, 16  # granules: src/prepare.c
CHUNK = 64  # granules of a chunk of the shared reserve
EXTENT_MOST = 1 << 22  # granules: 16 GiB (src/extent.h)
SHARE_MOST = EXTENT_MOST // 2
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


def huge_blocks(record: Record) -> list[tuple[int, int]]:
    """(size, blocks) of the bins that have stores in mode `seg`, too."""
    return [(block_size(c), n) for c, n in enumerate(record.blocks) if n and block_size(c) > EXTENT_MAX]


def page_bytes(record: Record) -> int:
    return sum(n * size for n, (_, size) in zip(record.pages, PAGE_KINDS, strict=True))


def tree_bytes(blocks: int) -> int:
    """A bit for each block, and the three levels of words above (src/store.c)."""
    zero = -(-blocks // 64)
    one = -(-zero // 64)
    two = -(-one // 64)
    return round_up((zero + one + two + 1) * WORD, 64)


class Plan(NamedTuple):
    granules: int  # of the extent
    stores: list[Store]
    room: int  # bytes before stores, so that they are aligned

    @property
    def store_bytes(self) -> int:
        return sum(round_up(count * size, GRANULE) for count, size in self.stores) + self.room


@dataclass(frozen=True)
class Thread:
    """What a thread has for itself, and if it may take chunks of the shared reserve. Or what all have in common, and
    which eights of sizes have one store there in any case."""

    record: Record
    shares: bool = False
    eights: frozenset[int] = frozenset()

    def plan(self, mode: str) -> Plan:
        if mode == "pag":
            return Plan(0, stores_of(self.record, self.eights), room_before(self.record, BLOCK_MAX))
        extent = plan_extent(self.record, self.shares)
        return Plan(extent.granules, extent.stores, extent.room)


@dataclass(frozen=True)
class Shared:
    """The threads, the chunks of the reserve of mode `seg` (0: there is none), and in mode `pag` what they have in
    common, as if that were one more."""

    threads: tuple[Thread, ...]
    chunks: int = 0
    common: Thread | None = None

    @property
    def heaps(self) -> tuple[Thread, ...]:
        return (*self.threads, self.common) if self.common else self.threads


class Planned(NamedTuple):
    """All that loading a profile in a mode plans."""

    shared: Shared
    plans: list[Plan]  # of shared.heaps

    @staticmethod
    def of(profile: Profile, mode: str) -> Planned:
        plan = shared(profile, mode)
        return Planned(plan, [thread.plan(mode) for thread in plan.heaps])


def at_once(profile: Profile) -> int:
    """Granules in pages and spans of all threads, each at its peak, in the run where that was the most."""
    return max((record.granules for record in profile.records if record.process), default=0)


def shared(profile: Profile, mode: str) -> Shared:
    """Where it takes less memory, threads that race keep the least that each had in any run, and share what
    they had beyond that in the run where it was the most (plan_share in src/plan.c). In `pag`, plan_common."""
    threads = levelled(profile)
    without = Shared(tuple(Thread(record) for record in threads))
    if mode == "pag":
        most = common(profile)
        eights = frozenset[int]().union(*(eights_that_share(record) for record in threads))
        return replace(without, common=Thread(most, eights=eights) if most else None)

    def may_share(record: Record) -> bool:
        if record.span_largest > CHUNK:
            return False
        return not record.granules or (record.granules > record.granules_least and not leaves_much_free(record))

    def own(record: Record) -> Record:
        return replace(record, granules=record.granules_least or min(record.granules, 1), footprint=0)

    def beyond_least(together: int, of: Sequence[Record]) -> int:
        return min(
            max(together - sum(record.granules_least for record in of), 0),
            sum(record.granules - record.granules_least for record in of if may_share(record)),
        )

    sharing = [record for record in threads if may_share(record)]
    beyond = min(
        beyond_least(at_once(profile), threads),
        sum(beyond_least(of[0].together, of) for of in by_routine(threads).values()),
    )
    granules = sum(record.granules for record in sharing)
    spans = sum(min(record.span_granules, record.granules) for record in sharing)
    in_spans = beyond * spans // granules if granules else 0
    more = (beyond - in_spans) // EXTENT_PAGES_PART + in_spans // EXTENT_SPANS_PART
    chunks = -(-(beyond + more + sum(record.granules > 0 for record in sharing) * (CHUNK // 2)) // CHUNK)
    before = sum(extent_granules(record, shares=False) for record in sharing)
    extents = [extent_granules(own(record), shares=True) for record in sharing]
    after = sum(extents) + chunks * CHUNK
    too_large = chunks * CHUNK > SHARE_MOST or any(extent > SHARE_MOST for extent in extents)
    if not beyond or too_large or after + spans // EXTENT_SPANS_PART >= before:
        return without
    return Shared(
        tuple(Thread(own(record), True) if may_share(record) else Thread(record) for record in threads), chunks
    )


class Run:
    """The run of segments in which all lies (src/prepare.c, whose names these are); bytes of what is locked."""

    def __init__(self) -> None:
        self.at = self.since = self.extents = self.bytes = 0

    def leave(self, following: int, layout: Layout) -> None:
        end = round_up(self.at, HUGE_PAGE) if self.at % HUGE_PAGE >= ALMOST else self.at
        self.bytes += (end - self.since) * GRANULE + (self.at - self.since) * TABLE_ENTRY
        described = max(self.since, self.extents)
        if self.at > described:
            self.bytes += (self.at - described + 1) * layout.span
        self.since = self.at = max(following, end)

    def place(self, granules: int, layout: Layout) -> None:
        offset = max(self.at % SEGMENT_GRANULES + 1, EXTENT_FIRST)
        segment = self.at - self.at % SEGMENT_GRANULES
        if offset + granules > EXTENT_END:
            segment, offset = segment + SEGMENT_GRANULES, EXTENT_FIRST
            if segment - self.at > LITTLE_GAP:
                self.leave(segment, layout)
        self.at = segment + offset + granules


def extent_bytes(granules: int, chunks: int, layout: Layout) -> int:
    """The trees of hints of an extent, with places for so many chunks (src/extent_make.c)."""
    leaves = -(-max(granules, 1) // FANOUT)
    groups = -(-leaves // FANOUT) + -(-chunks // FANOUT)
    return 2 * (leaves * EXTENT_LEAF + groups * layout.hint_group)


def run_bytes(planned: Planned, mode: str, layout: Layout, records: int) -> int:
    """All that is locked but the index: in the order of src/prepare.c."""
    plan = planned.shared
    threads = list(zip(plan.heaps, planned.plans, strict=True))
    hints = round_up(round_up(plan.chunks * WORD, EXTENT_ALIGNMENT) + plan.chunks * 2 * EXTENT_LEAF, EXTENT_ALIGNMENT)
    heaps, blocks = round_up((records + bool(plan.common)) * WORD, LINE), 0
    for thread, its in threads:
        heaps += round_up(layout.heap, LINE) + round_up(layout.stores, LINE)
        heaps += sum(tree_bytes(count) for count, _ in its.stores)
        blocks += its.store_bytes
        if mode == "seg":
            hints += round_up(extent_bytes(its.granules, plan.chunks if thread.shares else 0, layout), EXTENT_ALIGNMENT)
    run = Run()
    run.at = run.extents = (round_up(hints + heaps, GRANULE) + blocks) // GRANULE
    for part in sorted(its.granules % EXTENT_GRANULES for _, its in threads):
        if part:
            run.place(part, layout)
    for _ in range(plan.chunks):
        run.place(CHUNK, layout)
    for _ in range(sum(its.granules // EXTENT_GRANULES for _, its in threads)):
        run.place(EXTENT_GRANULES, layout)
    run.leave(run.at, layout)
    return run.bytes + slot_bytes(sum(len(its.stores) for _, its in threads), layout)


def slot_bytes(stores: int, layout: Layout) -> int:
    """Descriptors of the stores, and what is between them where another segment begins."""
    slots = SEGMENT_GRANULES - FIRST_SPAN_SLOT
    return (stores + stores // slots * FIRST_SPAN_SLOT) * layout.span


def index_bytes(records: Iterable[Record], layout: Layout) -> int:
    """The table from start routine to prepared heaps (src/prepared.c)."""
    heaps = list(records)
    if not heaps:
        return 0
    routines = len({(record.module, record.offset) for record in heaps})
    buckets = 1 << max(1, (routines - 1).bit_length())
    each = layout.group + WORD + LEVELS * WORD
    return round_up(len(heaps) * each, GRANULE) + round_up(buckets * layout.bucket, GRANULE)


def memory_of(planned: Planned, mode: str, layout: Layout | None, records: int) -> Memory:
    plan = planned.shared
    blocks = plan.chunks * CHUNK * GRANULE + sum(its.store_bytes + its.granules * GRANULE for its in planned.plans)
    if layout is None:
        return Memory(blocks, 0)
    locked = run_bytes(planned, mode, layout, records)
    return Memory(blocks, locked - blocks + index_bytes((thread.record for thread in plan.threads), layout))


def refused(profile: Profile, planned: Planned) -> str | None:
    """Why no machine would load it in that mode (check_size in src/prepare.c)."""
    if all(record.process for record in profile.records):
        return "it holds no thread"
    if any(blocks > STORE_BLOCKS_MAX for plan in planned.plans for blocks, _ in plan.stores):
        return "it has more blocks of one size than a store can hold"
    if any(plan.granules > EXTENT_MOST for plan in planned.plans):
        return "one of its threads needs more than 16 GiB: mode pag has no such limit"
    return None


def refused_here(profile: Profile, mode: str, available: int) -> str | None:
    """Why this machine would not, with so many bytes to have."""
    planned = Planned.of(profile, mode)
    if wrong := refused(profile, planned):
        return wrong
    needed = memory_of(planned, mode, None, len(profile.records)).blocks
    if needed <= available:
        return None
    has = f"this machine, or its control group, has {in_words(available)} at the moment"
    return f"it needs {in_words(needed)}, and {has}"


def most_memory(profile: Profile, name: str, layout: Layout | None = None) -> dict[str, Any]:
    figures: dict[str, Any] = {"profile": name}
    for mode, meaning in MEANINGS.items():
        planned = Planned.of(profile, mode)
        memory = memory_of(planned, mode, layout, len(profile.records))
        without = "" if layout else " Without the allocator's metadata."
        if wrong := refused(profile, planned):
            meaning, without = f"Loading refuses this profile in this mode: {wrong}.", ""
        figures[mode] = {
            "bytes": memory.bytes,
            "blocks_bytes": memory.blocks,
            "metadata_bytes": memory.metadata,
            "meaning": meaning + without,
        }
    return figures
