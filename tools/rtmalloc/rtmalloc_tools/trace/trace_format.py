"""The trace file: layout, reader, and the recorder's last touch. lab/native/trace_format.h says the same in C.

Little endian. A header of 4096 bytes, then chunks; a chunk is 24-byte records and, behind the last one, zeros.
"""

from __future__ import annotations

import os
import signal
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtmalloc_tools.mistakes import Mistake, reason_of

MAGIC = b"RTMTRACE"
VERSION = 1
HEADER = struct.Struct("<8s 10I 8Q IiII")
HEADER_BYTES, HEADER_USED = 4096, 128
COMMAND_AT = 1024
BYTE_ORDER = 0x01020304
MACHINES = {62: "x86-64", 183: "aarch64"}
RECORD = np.dtype([("stamp", "<u8"), ("address", "<u8"), ("size", "<u8")])
TICKS_SHIFT, ALIGNMENT_SHIFT, MASK = 12, 6, 63
CHUNK, THREAD, MALLOC, CALLOC, ALIGNED, FREE, RESIZE_FROM, RESIZE_TO = range(1, 9)
NAMES = {MALLOC: "malloc", CALLOC: "calloc", ALIGNED: "aligned", FREE: "free", RESIZE_TO: "realloc"}
READ_AT_ONCE = 1 << 24
STATUS_UNKNOWN = -(1 << 31)  # of a child of the recorded program
assert HEADER.size == HEADER_USED and RECORD.itemsize == 24


@dataclass(frozen=True)
class Header:
    process: int
    parent: int
    machine: str
    exited: bool  # its exit handlers ran
    stopped: int  # errno that ended the recording early; 0: none
    forked: bool
    ticks_per_second: int
    end_ticks: int  # since the start; 0: not known
    date: int
    used: int
    dropped: int
    finished: bool  # length and checksums hold
    status: int
    chunks_crc: int
    command: tuple[str, ...]

    @property
    def ending(self) -> str:
        """How the process ended, in words."""
        if not self.finished or self.status == STATUS_UNKNOWN:
            return "ended normally" if self.exited else "was cut off (killed, or still running)"
        if self.status < 0:
            number = -self.status
            name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
            return f"was ended by {name}"
        return f"ended with status {self.status}"


@dataclass(frozen=True)
class Events:
    """One row for each record, in the order of time; the order within a thread is the thread's own."""

    operation: NDArray[np.uint8]
    alignment: NDArray[np.uint8]  # log2; 0: none asked for
    thread: NDArray[np.int32]  # from 1
    ticks: NDArray[np.int64]  # since the start
    address: NDArray[np.uint64]
    size: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.operation)


@dataclass(frozen=True)
class Trace:
    name: str
    header: Header
    events: Events


class BadTrace(Mistake):
    """A file that is not a whole, undamaged trace of this version."""


def bad(name: str, reason: str) -> BadTrace:
    return BadTrace(f"{name}: {reason}")


def decode_header(contents: bytes, name: str) -> Header:
    """The header, or BadTrace with `name` and the reason. What is behind the header is not looked at."""
    if not contents:
        raise bad(name, "the file is empty. Record it again.")
    if contents[: len(MAGIC)] != MAGIC:
        raise bad(name, f"is not a trace: it begins with {contents[:8]!r}, not {MAGIC!r}.")
    if len(contents) < HEADER_BYTES:
        raise bad(name, f"is cut off: {len(contents)} bytes, and the header alone has {HEADER_BYTES}. Record it again.")
    fields = HEADER.unpack_from(contents)
    _, version, header_bytes, record_bytes, machine, order, process, parent, exited, stopped, forked = fields[:11]
    per_second, start_ticks, _, end_ticks, _, date, used, dropped = fields[11:19]
    finished, status, chunks_crc, header_crc = fields[19:]
    if order != BYTE_ORDER:
        raise bad(name, f"was made with another byte order (mark {order:#010x}, expected {BYTE_ORDER:#010x}).")
    if version != VERSION:
        raise bad(name, f"has version {version}; this command reads version {VERSION}. Use the one that recorded it.")
    if (header_bytes, record_bytes) != (HEADER_BYTES, RECORD.itemsize):
        raise bad(name, f"is damaged: header and record of {header_bytes} and {record_bytes} bytes.")
    if machine not in MACHINES:
        raise bad(name, f"was made on an unknown machine ({machine}); known are {', '.join(MACHINES.values())}.")
    if finished not in (0, 1) or (finished and crc_of_header(contents[:HEADER_BYTES]) != header_crc):
        raise bad(name, "is damaged: the header's checksum is wrong. Record it again.")
    if used < HEADER_BYTES or per_second == 0:
        raise bad(name, "is damaged: the header holds impossible figures. Record it again.")
    words = contents[COMMAND_AT:HEADER_BYTES].rstrip(b"\0").split(b"\0")
    return Header(
        process=process,
        parent=parent,
        machine=MACHINES[machine],
        exited=bool(exited),
        stopped=stopped,
        forked=bool(forked),
        ticks_per_second=per_second,
        end_ticks=max(0, end_ticks - start_ticks) if end_ticks else 0,
        date=date,
        used=used,
        dropped=dropped,
        finished=bool(finished),
        status=status,
        chunks_crc=chunks_crc,
        command=tuple(word.decode(errors="replace") for word in words),
    )


def crc_of_header(header: bytes) -> int:
    return zlib.crc32(header[: HEADER_USED - 4] + bytes(4) + header[HEADER_USED:])


def crc_of_chunks(contents: NDArray[np.uint8]) -> int:
    value = 0
    for at in range(0, len(contents), READ_AT_ONCE):
        value = zlib.crc32(contents[at : at + READ_AT_ONCE], value)
    return value


def read_header(path: Path) -> Header:
    try:
        with path.open("rb") as file:
            return decode_header(file.read(HEADER_BYTES), str(path))
    except OSError as error:
        raise Mistake(f"{path}: the trace cannot be read: {reason_of(error)}.") from None


def length_of(path: Path, header: Header) -> int:
    """Bytes of the file; BadTrace where it is shorter than its header says."""
    length = path.stat().st_size
    if length < header.used:
        raise bad(str(path), f"is cut off: {length:,} bytes, and {header.used:,} were written. Record it again.")
    return length


def read_trace(path: Path) -> Trace:
    """The trace, or BadTrace with the reason. One that its recorder did not finish is read as far as it goes."""
    header, name = read_header(path), str(path)
    length = length_of(path, header)
    if header.finished and length != header.used:
        raise bad(name, f"is damaged: {length:,} bytes, and {header.used:,} were written. Record it again.")
    if header.used == HEADER_BYTES:
        contents: NDArray[np.uint8] = np.empty(0, np.uint8)
    else:
        contents = np.memmap(path, np.uint8, "r", HEADER_BYTES, (header.used - HEADER_BYTES,))
    if header.finished and crc_of_chunks(contents) != header.chunks_crc:
        raise bad(name, "is damaged: the checksum is wrong. Record it again.")
    return Trace(name, header, in_order(runs_of_threads(contents, name), header, name))


def chunks(contents: NDArray[np.uint8], name: str) -> Iterator[NDArray[np.void]]:
    """The records of each chunk, without the CHUNK record and the zeros behind the last one."""
    at = 0
    while at < len(contents):
        if len(contents) - at < RECORD.itemsize:
            raise bad(name, f"is damaged: {len(contents) - at} bytes too many at its end.")
        first = contents[at : at + RECORD.itemsize].view(RECORD)[0]
        length = int(first["address"])
        if first["stamp"] != CHUNK or length < 2 * RECORD.itemsize or length > len(contents) - at:
            raise bad(name, f"is damaged: no chunk at byte {HEADER_BYTES + at:,}. Record it again.")
        records = contents[at + RECORD.itemsize : at + length // RECORD.itemsize * RECORD.itemsize].view(RECORD)
        unwritten = np.flatnonzero(records["stamp"] == 0)
        yield records[: unwritten[0]] if len(unwritten) else records
        at += length


def runs_of_threads(contents: NDArray[np.uint8], name: str) -> dict[tuple[int, int], NDArray[np.void]]:
    """(thread, which of its runs) -> the records, without the THREAD record."""
    found: dict[tuple[int, int], NDArray[np.void]] = {}
    for records in chunks(contents, name):
        operations = records["stamp"] & MASK
        if np.any((operations < THREAD) | (operations > RESIZE_TO)):
            raise bad(name, "is damaged: it holds an operation that does not exist. Record it again.")
        starts = np.flatnonzero(operations == THREAD)
        if len(records) and (len(starts) == 0 or starts[0] != 0):
            raise bad(name, "is damaged: a chunk does not say whose it is. Record it again.")
        for start, end in zip(starts, np.append(starts, len(records))[1:], strict=True):
            key = int(records["size"][start]), int(records["address"][start])
            if key in found or not 0 < key[0] < 1 << 31:
                raise bad(name, f"is damaged: thread {key[0]} is there twice or impossible. Record it again.")
            found[key] = records[start + 1 : end]
    return found


def in_order(runs: dict[tuple[int, int], NDArray[np.void]], header: Header, name: str) -> Events:
    keys = sorted(runs)
    parts = [runs[key] for key in keys]
    records = np.concatenate(parts) if parts else np.empty(0, RECORD)
    thread = np.repeat(np.array([key[0] for key in keys], np.int32), [len(part) for part in parts])
    ticks = (records["stamp"] >> TICKS_SHIFT).astype(np.int64)
    for first, end in bounds(thread):
        ticks[first:end] = np.maximum.accumulate(ticks[first:end])  # a thread's own order is certain
    order = np.argsort(ticks, kind="stable")
    if header.stopped:  # threads went on until their chunks were full
        order = order[: int(np.searchsorted(ticks[order], header.end_ticks, "right"))]
    stamps = records["stamp"][order]
    sizes = records["size"][order]
    if np.any(sizes >> 62):
        sizes = np.minimum(sizes, np.uint64(1) << np.uint64(62))  # such a request failed
    return Events(
        operation=(stamps & MASK).astype(np.uint8),
        alignment=(stamps >> ALIGNMENT_SHIFT & MASK).astype(np.uint8),
        thread=thread[order],
        ticks=ticks[order],
        address=records["address"][order],
        size=sizes.astype(np.int64),
    )


def bounds(values: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """Begin and end of each run of equal values."""
    edges = np.flatnonzero(np.diff(values)) + 1
    return zip([0, *edges], [*edges, len(values)], strict=True)


def finish(path: Path, status: int) -> Header:
    """Gives a trace whose process is gone its length, its status and its checksums; BadTrace where it is damaged."""
    header = read_header(path)
    length_of(path, header)
    os.truncate(path, header.used)
    with path.open("r+b") as file:
        head = bytearray(file.read(HEADER_BYTES))
        rest = header.used - HEADER_BYTES
        crc = crc_of_chunks(np.memmap(path, np.uint8, "r", HEADER_BYTES, (rest,))) if rest else 0
        struct.pack_into("<IiII", head, HEADER_USED - 16, 1, status, crc, 0)
        struct.pack_into("<I", head, HEADER_USED - 4, crc_of_header(bytes(head)))
        file.seek(0)
        file.write(head)
    return read_header(path)
