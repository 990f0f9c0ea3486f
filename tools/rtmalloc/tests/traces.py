"""Small traces written by hand."""

from __future__ import annotations

import struct
from pathlib import Path

from rtmalloc_tools.trace import trace_format as form

Record = tuple[int, int, int, int]  # ticks, operation, address, size

START_TICKS = 1000


def stamped(ticks: int, operation: int, address: int, size: int, alignment: int = 0) -> bytes:
    stamp = ticks << form.TICKS_SHIFT | alignment << form.ALIGNMENT_SHIFT | operation
    return struct.pack("<QQQ", stamp, address, size)


def chunk(*runs: tuple[int, int, list[Record]], length: int = 1024) -> bytes:
    """Runs are (thread, turn, records)."""
    body = struct.pack("<QQQ", form.CHUNK, length, 0)
    for thread, turn, records in runs:
        body += stamped(0, form.THREAD, turn, thread) + b"".join(stamped(*record) for record in records)
    assert len(body) <= length
    return body.ljust(length, b"\0")


def header(used: int, **fields: int) -> bytes:
    values = {
        "version": form.VERSION,
        "header_bytes": form.HEADER_BYTES,
        "record_bytes": form.RECORD.itemsize,
        "machine": 62,
        "byte_order": form.BYTE_ORDER,
        "process": 7,
        "parent": 1,
        "exited": 1,
        "stopped": 0,
        "forked": 0,
        "ticks_per_second": 1_000_000,
        "start_ticks": START_TICKS,
        "start_ns": 0,
        "end_ticks": START_TICKS + 10_000,
        "end_ns": 0,
        "date": 0,
        "used": used,
        "dropped": 0,
    } | fields
    packed = form.HEADER.pack(form.MAGIC, *values.values(), 0, 0, 0, 0)
    return packed.ljust(form.COMMAND_AT, b"\0") + b"program\0--option\0".ljust(
        form.HEADER_BYTES - form.COMMAND_AT, b"\0"
    )


def write_trace(path: Path, *chunks: bytes, finished: bool = True, status: int = 0, **fields: int) -> Path:
    body = b"".join(chunks)
    path.write_bytes(header(form.HEADER_BYTES + len(body), **fields) + body)
    if finished:
        form.finish(path, status)
    return path


def two_threads(path: Path, **more: int | bool) -> Path:
    """Thread 1 allocates two blocks; thread 2 frees the first and gets its address again, resizes it, fails once."""
    one = [(10, form.MALLOC, 0x1000, 100), (20, form.CALLOC, 0x2000, 50), (60, form.FREE, 0x2000, 0)]
    two = [
        (30, form.FREE, 0x1000, 0),
        (40, form.ALIGNED, 0x1000, 64),
        (70, form.RESIZE_FROM, 0x1000, 0),
        (71, form.RESIZE_TO, 0x3000, 300),
        (80, form.RESIZE_FROM, 0x3000, 0),
        (81, form.RESIZE_TO, 0, 1 << 50),
        (90, form.FREE, 0x9000, 0),
    ]
    return write_trace(path, chunk((1, 0, one)), chunk((2, 0, two)), **more)
