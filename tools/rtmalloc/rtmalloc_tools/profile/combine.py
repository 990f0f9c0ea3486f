"""Profiles beside each other: merged by maximum, and compared field by field."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rtmalloc_tools.mistakes import Mistake
from rtmalloc_tools.profile.extent import extent_granules
from rtmalloc_tools.profile.profile_format import Profile, Record
from rtmalloc_tools.profile.size_classes import (
    BLOCK_MAX,
    BLOCKS_MORE,
    CLASSES,
    PAGE_KINDS,
    PER_DOUBLING,
    block_size,
    extent_room,
    in_words,
)
from rtmalloc_tools.profile.stores import eight_bins, shares
from rtmalloc_tools.profile.weight import weight

WORD_MOST = 0xFFFFFFFF


def same_build(profiles: Sequence[Profile], names: Sequence[str]) -> None:
    """Profiles of allocators with another geometry do not count the same things."""
    for profile, name in zip(profiles[1:], names[1:], strict=True):
        if profile.build != profiles[0].build:
            raise Mistake(
                f"{name}: was recorded by another build of the allocator ({profile.build:#x}) than {names[0]} "
                f"({profiles[0].build:#x}). Record both with one library."
            )
        if profile.bins != profiles[0].bins:
            raise Mistake(f"{name}: has {profile.bins} bins, and {names[0]} has {profiles[0].bins}.")


def merge(profiles: Sequence[Profile], names: Sequence[str]) -> Profile:
    """The maximum of each thread's each field but those that say what was there at least, which are the minimum; also
    the maximum of `runs`, so that merging a file with itself changes nothing."""
    same_build(profiles, names)
    found: dict[object, Record] = {}
    for profile in profiles:
        for record in profile.records:
            known = found.get(record.key)
            found[record.key] = merged(known, record) if known else record
    in_how_many = Counter(record.key for profile in profiles for record in profile.records)
    for key in found:
        if in_how_many[key] < len(profiles):
            found[key] = replace(found[key], least=0, granules_least=0)
    records = sorted(found.values(), key=lambda record: record.key)
    return Profile(profiles[0].build, profiles[0].bins, max(p.runs for p in profiles), tuple(records))


def merged(a: Record, b: Record) -> Record:
    return replace(
        maximum(a, b),
        least=min(a.least, b.least),
        granules_least=min(a.granules_least, b.granules_least),
    )


def at_once(a: Record, b: Record, counts: Callable[[Record], Sequence[int]], bins: Callable[[int], slice]) -> tuple:
    """The most blocks at one time, of some bins. 0 where there are such blocks: that is not known, as each size is to
    have its own store (most_at_once in src/profile.c)."""

    def unknown(record: Record, number: int) -> bool:
        return not counts(record)[number] and any(record.blocks[bins(number)])

    pairs = zip(counts(a), counts(b), strict=True)
    return tuple(0 if unknown(a, i) or unknown(b, i) else max(pair) for i, pair in enumerate(pairs))


def maximum(a: Record, b: Record) -> Record:
    pages = [max(pair) for pair in zip(a.pages, b.pages, strict=True)]
    return replace(
        a,
        blocks=tuple(max(pair) for pair in zip(a.blocks, b.blocks, strict=True)),
        pages=(pages[0], pages[1], pages[2]),
        granules=max(a.granules, b.granules),
        span_granules=max(a.span_granules, b.span_granules),
        span_largest=max(a.span_largest, b.span_largest),
        threads_peak=max(a.threads_peak, b.threads_peak),
        page_granules=max(a.page_granules, b.page_granules),
        together=max(a.together, b.together),
        footprint=max(a.footprint, b.footprint),
        large_from=at_once(a, b, lambda one: one.large_from, large_bins_from),
        small_at_once=at_once(a, b, lambda one: one.small_at_once, lambda eight: range_slice(eight_bins(eight))),
        alignment=tuple(max(pair) for pair in zip(a.alignment, b.alignment, strict=True)),
    )


def large_bins_from(doubling: int) -> slice:
    return slice(CLASSES + 1 + doubling * PER_DOUBLING, None)


def range_slice(bins: range) -> slice:
    return slice(bins.start, bins.stop)


@dataclass(frozen=True)
class Change:
    thread: str
    what: str
    before: int
    after: int


def large_name(doubling: int) -> str:
    return f"blocks larger than {in_words(BLOCK_MAX << doubling)}"


def eight_name(eight: int) -> str:
    bins = eight_bins(eight)
    return f"blocks of {block_size(bins[0])} to {block_size(bins[-1])} at one time"


def alignment_name(doubling: int) -> str:
    return f"alignment of blocks above {in_words(BLOCK_MAX << doubling)}"


def fields(record: Record) -> Iterator[tuple[str, int]]:
    for number, count in enumerate(record.blocks):
        yield f"blocks of {block_size(number)}", count
    for (name, _), count in zip(PAGE_KINDS, record.pages, strict=True):
        yield f"{name} pages", count
    yield "granules in pages and spans", record.granules
    yield "granules in spans", record.span_granules
    yield "largest span, granules", record.span_largest
    yield "threads alive", record.threads_peak
    yield "granules in pages", record.page_granules
    yield "granules with what is free between", record.footprint
    yield "granules of its routine's threads together", record.together
    for number, count in enumerate(record.large_from):
        yield large_name(number), count
    for number, count in enumerate(record.small_at_once):
        yield eight_name(number), count
    for number, alignment in enumerate(record.alignment):
        yield alignment_name(number), alignment


def compare(a: Profile, b: Profile, names: Sequence[str]) -> list[Change]:
    """What differs between two profiles; a thread that one of them lacks counts as zeros there."""
    same_build((a, b), names)
    before, after = {r.key: r for r in a.records}, {r.key: r for r in b.records}
    changes: list[Change] = []
    for key in sorted({*before, *after}):
        record = before.get(key) or after[key]
        old = dict(fields(before[key])) if key in before else {}
        new = dict(fields(after[key])) if key in after else {}
        for what in old or new:
            if old.get(what, 0) != new.get(what, 0):
                changes.append(Change(record.name, what, old.get(what, 0), new.get(what, 0)))
        if (key in before) != (key in after) and not any(old.values()) and not any(new.values()):
            changes.append(Change(record.name, "thread", int(key in before), int(key in after)))
    return changes


def room(blocks: int, number: int, headroom: float) -> int:
    """The blocks of a bin that a profile with so many has room for: loading makes two more of those in pages."""
    return max(int(blocks * (1 + headroom)), blocks + BLOCKS_MORE if blocks and number <= CLASSES else blocks)


def grows_beyond(known: Profile, grown: Profile, headroom: float) -> list[Change]:
    """Where a thread of `grown` needs more than loading `known` gives, the headroom (0.05: 5 %) on top."""
    same_build((known, grown), ("before", "after"))
    before = {record.key: record for record in known.records}
    changes: list[Change] = []
    for record in grown.records:
        had = before.get(record.key)
        if record.process:
            continue  # the sums of the threads, which nothing is made from
        if had is None:
            changes.append(Change(record.name, "thread", 0, 1))
            continue
        for number, (old, new) in enumerate(zip(had.blocks, record.blocks, strict=True)):
            if new > room(old, number, headroom):
                changes.append(Change(record.name, f"blocks of {block_size(number)}", old, new))
        old, new = had.granules, record.granules
        if new > max(old * (1 + headroom), old + extent_room(old)):
            changes.append(Change(record.name, "granules in pages and spans", old, new))
        if record.footprint > max(had.footprint * (1 + headroom), extent_granules(had, shares=False)):
            changes.append(Change(record.name, "granules with what is free between", had.footprint, record.footprint))
        for number, (old, new) in enumerate(zip(had.large_from, record.large_from, strict=True)):
            unknown = not old and any(had.blocks[large_bins_from(number)])
            if new > int(old * (1 + headroom)) and not unknown:
                changes.append(Change(record.name, large_name(number), old, new))
        for eight, (old, new) in enumerate(zip(had.small_at_once, record.small_at_once, strict=True)):
            if new > int(old * (1 + headroom)) and shares(had, eight):
                changes.append(Change(record.name, eight_name(eight), old, new))
        for number, (old, new) in enumerate(zip(had.alignment, record.alignment, strict=True)):
            if new > old:
                changes.append(Change(record.name, alignment_name(number), old, new))
    return changes


def with_headroom(profile: Profile, headroom: float) -> Profile:
    """Each peak raised by the headroom, to the next whole number; by how much the runs differed stays as it was."""

    def more(count: int) -> int:
        return min(math.ceil(count * (1 + headroom)), WORD_MOST)

    def raised(record: Record) -> Record:
        pages = [more(count) for count in record.pages]
        high = replace(
            record,
            blocks=tuple(more(count) for count in record.blocks),
            pages=(pages[0], pages[1], pages[2]),
            granules=more(record.granules),
            span_granules=more(record.span_granules),
            page_granules=more(record.page_granules),
            together=more(record.together),
            footprint=more(record.footprint),
            large_from=tuple(more(count) for count in record.large_from),
            small_at_once=tuple(more(count) for count in record.small_at_once),
        )
        return replace(high, least=record.least * weight(high) // weight(record))

    return replace(profile, records=tuple(raised(record) for record in profile.records))


def each_apart(profile: Profile) -> Profile:
    """Without what says that sizes take turns: each size gets its own store."""
    records = (
        replace(one, large_from=(0,) * len(one.large_from), small_at_once=(0,) * len(one.small_at_once))
        for one in profile.records
    )
    return replace(profile, records=tuple(records))
