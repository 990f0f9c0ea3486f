"""Profiles and their differences as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

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

Row = tuple[str, ...]
TABLE_MOST = 1000  # rows of a table with a frame: each takes half a millisecond


def left_table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(title=escape(title), title_justify="left", min_width=len(title))
    for heading in left:
        table.add_column(heading, overflow="fold")
    for heading in right:
        table.add_column(heading, justify="right")
    return table


def threads_rows(profile: Profile) -> Iterator[Row]:
    for record in profile.records:
        pages = "/".join(str(count) for count in record.pages)
        yield (
            record.name,
            f"{sum(record.blocks):,}",
            in_words(block_bytes(record)),
            pages,
            in_words(page_bytes(record)),
            in_words(record.span_granules * GRANULE),
            in_words(record.span_largest * GRANULE),
            str(record.threads_peak) if record.process else "",
        )


def blocks_rows(record: Record) -> Iterator[Row]:
    """Equation 3: the number for each block size, here of blocks, which does not depend on where they lie."""
    for number, count in enumerate(record.blocks):
        if count:
            size = block_size(number)
            yield kind_of(number), f"{size:,}", f"{count:,}", in_words(count * size)


def blocks_total(record: Record) -> Row:
    return "all", "", f"{sum(record.blocks):,}", in_words(block_bytes(record))


def segments(record: Record) -> Iterator[tuple[str, int, int]]:
    """Equation 2: pages of each kind at the peak and the segments of 4 MiB that they fill; then huge blocks."""
    for count, (name, size) in zip(record.pages, PAGE_KINDS, strict=True):
        yield f"{name} pages, {in_words(size)}", count, round_up(count * size, SEGMENT) // SEGMENT
    spans = record.span_granules
    yield "spans, in granules of 4 KiB", spans, round_up(spans * GRANULE, SEGMENT) // SEGMENT
    for size, count in huge_blocks(record):
        yield f"huge blocks to {in_words(size)}", count, count * round_up(size, SEGMENT) // SEGMENT


def segments_rows(record: Record) -> Iterator[Row]:
    for what, count, many in segments(record):
        yield what, f"{count:,}", f"{many:,}"


def small_shared(record: Record) -> list[Store]:
    return [store for eight in range(EIGHTS) if shares(record, eight) for store in eight_stores(record, eight)]


def stores_rows(record: Record) -> Iterator[Row]:
    """None where no sizes share a store."""
    in_pag = small_shared(record) + large_stores(record, BLOCK_MAX)
    if record.process or not in_pag:
        return
    stores = {"pag": in_pag, "seg": plan_extent(record, False).stores}
    for mode in ("pag", "seg"):
        for blocks, size in stores[mode]:
            yield mode, f"{size:,}", f"{blocks:,}", in_words(blocks * size)


@dataclass(frozen=True)
class Part:
    """What is told of each thread: a table, or in a large profile the lines of one for all."""

    title: str
    left: Sequence[str]
    right: Sequence[str]
    rows: Callable[[Record], Iterable[Row]]
    total: Callable[[Record], Row] | None = None  # a last row of the table
    caption: str = ""


PARTS = (
    Part("blocks by size (equation 3)", ["in"], ["block size", "blocks", "bytes"], blocks_rows, blocks_total),
    Part("segments (equation 2)", ["of what"], ["peak", "segments"], segments_rows),
    Part(
        "stores for large sizes, and for small ones that share one",
        ["mode"],
        ["up to", "blocks", "bytes"],
        stores_rows,
        caption="Sizes that take turns share one. Threads that are alike get the most of them all.",
    ),
)
THREADS = ["thread"], ["blocks", "bytes", "pages", "in pages", "spans", "largest", "threads"]
THREADS_TITLE, THREADS_CAPTION = "Peaks of each thread", "Pages: small (4 KiB) / medium (32 KiB) / large (64 KiB)."


def part_table(part: Part, record: Record) -> Table | None:
    rows = list(part.rows(record))
    if not rows:
        return None
    table = left_table(f"{record.name}: {part.title}", part.left, part.right)
    for row in rows:
        table.add_row(*row)
    if part.total:
        table.add_section()
        table.add_row(*part.total(record))
    table.caption = part.caption or None
    return table


def show_tables(profile: Profile, console: Console) -> None:
    threads = left_table(THREADS_TITLE, *THREADS)
    for name, *row in threads_rows(profile):
        threads.add_row(Text(name), *row)
    threads.caption = THREADS_CAPTION
    console.print(threads)
    for record in profile.records:
        for part in PARTS:
            table = part_table(part, record)
            if table:
                console.print(table)


def show_lines(profile: Profile, console: Console) -> None:
    """Many threads without frames, and with the thread in each line, to be searched."""
    write_lines(f"{THREADS_TITLE}. {THREADS_CAPTION}", *THREADS, list(threads_rows(profile)), console)
    for part in PARTS:
        rows = [(record.name, *row) for record in profile.records for row in part.rows(record)]
        title = f"{part.title.capitalize()}. {part.caption}" if part.caption else part.title.capitalize()
        write_lines(title, ["thread", *part.left], part.right, rows, console)


def write_lines(title: str, left: Sequence[str], right: Sequence[str], rows: Sequence[Row], console: Console) -> None:
    lines = [(*left, *right), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    console.file.write(f"{printable(title)}\n")
    for line in lines:
        words = (f"{cell:{'<' if at < len(left) else '>'}{widths[at]}}" for at, cell in enumerate(line))
        console.file.write("  ".join(words).rstrip() + "\n")


def show(profile: Profile, name: str, console: Console) -> None:
    runs = f"{profile.runs} run{'s' if profile.runs != 1 else ''}"
    text = f"{name}: {runs}, {len(profile.records)} records, build {profile.build:#x}, {profile.bins} bins"
    console.print(text, markup=False, highlight=False)
    many = sum(sum(map(bool, record.blocks)) for record in profile.records) > TABLE_MOST
    (show_lines if many else show_tables)(profile, console)
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
    named = [(change.thread, *row[1:]) for row, change in zip(change_rows(changes), changes, strict=True)]
    write_lines(f"From {a} to {b}", ["thread", "what"], ["before", "after", "change"], named, console)
