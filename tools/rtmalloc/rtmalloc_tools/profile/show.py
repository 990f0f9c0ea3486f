"""Profiles and their differences as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rtmalloc_tools.printable import printable
from rtmalloc_tools.profile.combine import Change
from rtmalloc_tools.profile.extent import plan_extent
from rtmalloc_tools.profile.level import block_bytes
from rtmalloc_tools.profile.memory import huge_blocks, most_memory, page_bytes
from rtmalloc_tools.profile.profile_format import EIGHTS, Profile, Record
from rtmalloc_tools.profile.size_classes import (
    BLOCK_MAX,
    GRANULE,
    PAGE_KINDS,
    SEGMENT,
    block_size,
    in_words,
    kind_of,
    round_up,
)
from rtmalloc_tools.profile.stores import Store, eight_stores, large_stores, shares

TABLE_MOST = 1000  # rows of a table with a frame: each takes half a millisecond


def left_table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(title=escape(title), title_justify="left", min_width=len(title))
    for heading in left:
        table.add_column(heading, overflow="fold")
    for heading in right:
        table.add_column(heading, justify="right")
    return table


def threads_table(profile: Profile) -> Table:
    table = left_table(
        "Peaks of each thread", ["thread"], ["blocks", "bytes", "pages", "in pages", "spans", "largest", "threads"]
    )
    for record in profile.records:
        pages = "/".join(str(count) for count in record.pages)
        table.add_row(
            Text(record.name),
            f"{sum(record.blocks):,}",
            in_words(block_bytes(record)),
            pages,
            in_words(page_bytes(record)),
            in_words(record.span_granules * GRANULE),
            in_words(record.span_largest * GRANULE),
            str(record.threads_peak) if record.process else "",
        )
    table.caption = "Pages: small (4 KiB) / medium (32 KiB) / large (64 KiB)."
    return table


def blocks_table(record: Record) -> Table:
    """Equation 3: the number for each block size, here of blocks, which does not depend on where they lie."""
    table = left_table(f"{record.name}: blocks by size (equation 3)", ["in"], ["block size", "blocks", "bytes"])
    for number, count in enumerate(record.blocks):
        if count:
            size = block_size(number)
            table.add_row(kind_of(number), f"{size:,}", f"{count:,}", in_words(count * size))
    table.add_section()
    table.add_row("all", "", f"{sum(record.blocks):,}", in_words(block_bytes(record)))
    return table


def segment_rows(record: Record) -> Iterator[tuple[str, int, int]]:
    """Equation 2: pages of each kind at the peak and the segments of 4 MiB that they fill; then huge blocks."""
    for count, (name, size) in zip(record.pages, PAGE_KINDS, strict=True):
        yield f"{name} pages, {in_words(size)}", count, round_up(count * size, SEGMENT) // SEGMENT
    spans = record.span_granules
    yield "spans, in granules of 4 KiB", spans, round_up(spans * GRANULE, SEGMENT) // SEGMENT
    for size, count in huge_blocks(record):
        yield f"huge blocks to {in_words(size)}", count, count * round_up(size, SEGMENT) // SEGMENT


def segments_table(record: Record) -> Table:
    table = left_table(f"{record.name}: segments (equation 2)", ["of what"], ["peak", "segments"])
    for what, count, segments in segment_rows(record):
        table.add_row(what, f"{count:,}", f"{segments:,}")
    return table


def small_shared(record: Record) -> list[Store]:
    return [store for eight in range(EIGHTS) if shares(record, eight) for store in eight_stores(record, eight)]


def stores_table(record: Record) -> Table:
    title = f"{record.name}: stores for large sizes, and for small ones that share one"
    table = left_table(title, ["mode"], ["up to", "blocks", "bytes"])
    stores = {"pag": small_shared(record) + large_stores(record, BLOCK_MAX), "seg": plan_extent(record, False).stores}
    for mode in ("pag", "seg"):
        for blocks, size in stores[mode]:
            table.add_row(mode, f"{size:,}", f"{blocks:,}", in_words(blocks * size))
    table.caption = "Sizes that take turns share one. Threads that are alike get the most of them all."
    return table


def show(profile: Profile, name: str, console: Console) -> None:
    runs = f"{profile.runs} run{'s' if profile.runs != 1 else ''}"
    text = f"{name}: {runs}, {len(profile.records)} records, build {profile.build:#x}, {profile.bins} bins"
    console.print(text, markup=False, highlight=False)
    console.print(threads_table(profile))
    for record in profile.records:
        if any(record.blocks):
            console.print(blocks_table(record))
        console.print(segments_table(record))
        if not record.process and (small_shared(record) or large_stores(record, BLOCK_MAX)):
            console.print(stores_table(record))
    memory = most_memory(profile, name)
    for mode in ("pag", "seg"):
        figure = memory[mode]
        console.print(
            f"{mode}: {in_words(figure['bytes'])} ({figure['bytes']:,} bytes). {figure['meaning']}", markup=False
        )


def changes_table(changes: Sequence[Change], a: str, b: str) -> Table:
    table = left_table(f"From {a} to {b}", ["thread", "what"], ["before", "after", "change"])
    for row, change in zip(change_rows(changes), changes, strict=True):
        colour = "red" if change.after > change.before else "green"
        table.add_row(Text(row[0]), *row[1:-1], Text(row[-1], style=colour))
    return table


def change_rows(changes: Sequence[Change]) -> Iterator[tuple[str, ...]]:
    last = ""
    for change in changes:
        thread = change.thread if change.thread != last else ""
        last = change.thread
        yield thread, change.what, f"{change.before:,}", f"{change.after:,}", f"{change.after - change.before:+,}"


def show_changes(changes: Sequence[Change], a: str, b: str, console: Console) -> None:
    """Many of them without a frame, and with the thread in each line, to be searched."""
    if len(changes) <= TABLE_MOST:
        console.print(changes_table(changes, a, b))
        return
    named = ((change.thread, *row[1:]) for row, change in zip(change_rows(changes), changes, strict=True))
    rows = [("thread", "what", "before", "after", "change"), *named]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    console.file.write(f"From {printable(a)} to {printable(b)}\n")
    for row in rows:
        words = (f"{cell:{'<' if at < 2 else '>'}{widths[at]}}" for at, cell in enumerate(row))
        console.file.write("  ".join(words) + "\n")
