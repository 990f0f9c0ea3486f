"""The binary profile: layout, reader, writer. docs of the project describe the same layout for the C side.

Little endian. A header of 64 bytes, then one record for each thread, and one with `*` as module for the whole process.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rtmalloc_tools.files import read_bytes, write_whole
from rtmalloc_tools.mistakes import Mistake, reason_of
from rtmalloc_tools.printable import printable
from rtmalloc_tools.profile.size_classes import (
    BINS,
    BLOCK_MAX,
    CLASSES,
    GRANULE,
    LIBRARY_VERSION,
    PAGE_BLOCKS_MAX,
    PAGE_GRANULES_MAX,
)

MAGIC = b"RTMPROF\n"
VERSION = 8
HEADER = struct.Struct(
    "<8sIIQIIIIQQQ"
)  # magic version header_bytes build threads record_bytes bins runs bytes 0 checksum
HEADER_BYTES = 64
CHECKSUM_AT = 56
FIXED = struct.Struct("<56sQII")  # module, offset, index, flags
DOUBLINGS = 25  # of the sizes above 32 KiB
EIGHTS = 9  # of the bins of blocks in pages
# pages[3], granules, span_granules, span_largest, threads_peak, page_granules, least, granules_least, together,
# footprint, the two above, and for each doubling an alignment
TAIL_WORDS = 12 + DOUBLINGS + EIGHTS + DOUBLINGS
ALIGNMENTS = tuple(1 << shift for shift in range(13, 23))  # bytes: above a granule, and what a store can have
MODULE_BYTES = 56
ANY_BYTES = "surrogateescape"  # a file's name need not be UTF-8, and may be cut within a character
BINS_LEAST, BINS_MOST = 73, 4096
WHOLE_PROCESS = 1
PROCESS_MODULE = "*"
assert HEADER.size == HEADER_BYTES and FIXED.size == 72

Key = tuple[bool, str, int, int]


@dataclass(frozen=True)
class Record:
    """Peaks of one thread, known by its start routine and its index among the live threads of that routine."""

    module: str  # basename of the ELF file that has the start routine; "": the main thread; "*": the whole process
    offset: int
    index: int
    process: bool
    blocks: tuple[int, ...]  # per bin
    pages: tuple[int, int, int]  # per page kind
    granules: int  # in pages and spans together, at one time
    span_granules: int
    span_largest: int
    threads_peak: int
    page_granules: int
    least: int  # granules of all blocks, in the run where these were the fewest; 0: one run had no such thread
    granules_least: int  # `granules`, in the run where it was the fewest; 0: one run had no such thread
    together: int  # `granules` of all threads of its routine, in the run where they were the most
    footprint: int  # granules of pages and medium blocks, and of what was free between them
    large_from: tuple[int, ...]  # per doubling: blocks larger than 32 KiB << i at one time
    small_at_once: tuple[int, ...]  # per eight bins: blocks of the bins 8i + 1 to 8i + 8 at one time
    alignment: tuple[int, ...]  # per doubling: the largest above a granule that was asked for, bytes; 0: none

    @property
    def key(self) -> Key:
        return not self.process, self.module, self.offset, self.index

    @property
    def routine(self) -> str:
        return f"{printable(self.module)}+{self.offset:#x}" if self.module else "main thread"

    @property
    def name(self) -> str:
        return "whole process" if self.process else f"{self.routine} #{self.index}"


@dataclass(frozen=True)
class Profile:
    build: int
    bins: int
    runs: int
    records: tuple[Record, ...]  # sorted by key; no key twice


class BadProfile(Mistake):
    """A file that is not a whole, undamaged profile of this version."""


def fnv_1a(contents: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in contents:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def checksum(contents: bytes) -> int:
    """FNV-1a, 64 bits, with the checksum's own bytes taken as zero."""
    return fnv_1a(contents[:CHECKSUM_AT] + bytes(8) + contents[CHECKSUM_AT + 8 :])


def build_here() -> int:
    """The build of the library of this version, as src/profile.c makes it."""
    shape = *LIBRARY_VERSION, BINS, CLASSES, BLOCK_MAX, PAGE_BLOCKS_MAX, PAGE_GRANULES_MAX, GRANULE
    return fnv_1a(struct.pack("<8I", *shape))


def refusal(profile: Profile) -> str | None:
    """Why that library would not load it."""
    if profile.build == build_here():
        return None
    return f"was recorded with another build of rtmalloc ({profile.build:#x}; here {build_here():#x}). Record it again."


def record_bytes(bins: int) -> int:
    return FIXED.size + 4 * bins + 4 * TAIL_WORDS


def encode(profile: Profile) -> bytes:
    size = record_bytes(profile.bins)
    total = HEADER_BYTES + size * len(profile.records)
    fields = (
        MAGIC,
        VERSION,
        HEADER_BYTES,
        profile.build,
        len(profile.records),
        size,
        profile.bins,
        profile.runs,
        total,
        0,
    )
    body = b"".join(encode_record(record, profile.bins) for record in sorted(profile.records, key=lambda r: r.key))
    contents = HEADER.pack(*fields, 0) + body
    return HEADER.pack(*fields, checksum(contents)) + body


def encode_record(record: Record, bins: int) -> bytes:
    flags = WHOLE_PROCESS if record.process else 0
    fixed = FIXED.pack(record.module.encode(errors=ANY_BYTES), record.offset, record.index, flags)
    tail = record.granules, record.span_granules, record.span_largest, record.threads_peak, record.page_granules
    least = record.least, record.granules_least, record.together, record.footprint
    words = (*record.blocks, *record.pages, *tail, *least, *record.large_from, *record.small_at_once, *record.alignment)
    return fixed + struct.pack(f"<{bins + TAIL_WORDS}I", *words)


def decode(contents: bytes, name: str) -> Profile:
    """The profile in `contents`, or BadProfile with `name` and the reason."""

    def bad(reason: str) -> BadProfile:
        return BadProfile(f"{name}: {reason}")

    if not contents:
        raise bad("the file is empty.")
    if contents[: len(MAGIC)] != MAGIC[: len(contents)]:
        raise bad(f"is not a profile: it begins with {contents[:8]!r}, not {MAGIC!r}.")
    if len(contents) < HEADER_BYTES:
        raise bad(f"is truncated: {len(contents)} bytes, less than the header's {HEADER_BYTES}.")
    _, number, header, build, threads, size, bins, runs, total, reserved, stated = HEADER.unpack_from(contents)
    if number != VERSION:
        raise bad(f"has format version {number}; this rtmalloc reads version {VERSION}. Record it again.")
    if len(contents) != total:
        what = "is truncated" if len(contents) < total else "has bytes behind its end"
        raise bad(f"{what}: {len(contents)} bytes, and its header says {total}.")
    if checksum(contents) != stated:
        raise bad("is damaged: its checksum does not fit its contents.")
    # The sum fits: what is wrong from here on was written wrong.
    if header != HEADER_BYTES or reserved:
        raise bad(
            f"has a header of {header} bytes and {reserved} in its reserved field; expected {HEADER_BYTES} and 0."
        )
    if not BINS_LEAST <= bins <= BINS_MOST or size != record_bytes(bins):
        raise bad(f"has {bins} bins in records of {size} bytes; expected {BINS_LEAST} to {BINS_MOST} bins.")
    if HEADER_BYTES + threads * size != total:
        raise bad(f"has {threads} records of {size} bytes, which do not make its {total} bytes.")
    records = [decode_record(contents, HEADER_BYTES + at * size, bins, Complaint(name, at)) for at in range(threads)]
    return Profile(build, bins, runs, unique(records, name))


class Complaint:
    """Says which record of which file is wrong."""

    def __init__(self, name: str, at: int) -> None:
        self.name, self.at = name, at

    def __call__(self, reason: str) -> BadProfile:
        return BadProfile(f"{self.name}: record {self.at}: {reason}")


def decode_record(contents: bytes, at: int, bins: int, bad: Complaint) -> Record:
    raw, offset, index, flags = FIXED.unpack_from(contents, at)
    words = struct.unpack_from(f"<{bins + TAIL_WORDS}I", contents, at + FIXED.size)
    text = raw.rstrip(b"\0")
    if b"\0" in text or len(text) == MODULE_BYTES:
        raise bad("the module's name is not padded with zeros.")
    module = text.decode(errors=ANY_BYTES)
    if flags & ~WHOLE_PROCESS or bool(flags & WHOLE_PROCESS) != (module == PROCESS_MODULE):
        raise bad(f"has flags {flags:#x} and module '{printable(module)}'; bit 0 goes with '*', no other bit is known.")
    if words[0]:
        raise bad("has a count in bin 0.")
    blocks, tail = words[:bins], words[bins:]
    large, small, alignment = tail[12 : -EIGHTS - DOUBLINGS], tail[-EIGHTS - DOUBLINGS : -DOUBLINGS], tail[-DOUBLINGS:]
    if not {*alignment} <= {0, *ALIGNMENTS}:
        raise bad(f"has alignments that cannot be: {', '.join(map(str, sorted({*alignment} - {0, *ALIGNMENTS})))}.")
    pages = tail[0], tail[1], tail[2]
    return Record(module, offset, index, bool(flags), blocks, pages, *tail[3:12], large, small, alignment)


def unique(records: Iterable[Record], name: str) -> tuple[Record, ...]:
    found: dict[Key, Record] = {}
    for record in records:
        if record.key in found:
            raise BadProfile(f"{name}: has two records for {record.name}.")
        found[record.key] = record
    return tuple(found[key] for key in sorted(found))


def read_profile(path: Path) -> Profile:
    return decode(read_bytes(path, "profile"), str(path))


def write_profile(path: Path, profile: Profile) -> None:
    """In place of a profile, whole or damaged, or where nothing is."""
    check_replaced(path)
    write_whole(path, encode(profile), "profile")


def check_replaced(path: Path) -> None:
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            begin = file.read(len(MAGIC))
    except OSError as error:
        raise Mistake(f"{path}: the profile that is there cannot be read: {reason_of(error)}.") from None
    if begin != MAGIC:
        raise Mistake(f"{path}: is there, and is not a profile: it would be lost. Give another file name.")
