"""Block sizes of the profile's bins: the allocator's size classes, continued for medium and huge blocks."""

from __future__ import annotations

LINEAR = 8  # bins 1..8 are 16, 32, ... 128 bytes
PER_DOUBLING = 8
CLASSES = 72  # bins 1..72 are blocks in pages
BINS = 273  # src/bin.h
LIBRARY_VERSION = 0, 1  # include/rtmalloc.h
BLOCK_MAX = 32 << 10
PAGE_BLOCKS_MAX, PAGE_GRANULES_MAX = 256, 16  # src/size_class.h
MEDIUM_MAX = 2 << 20
EXTENT_MAX = 15 << 17  # the largest span of mode `seg`
GRANULE = 4 << 10
SEGMENT = 4 << 20
# What loading makes beyond the profile's peaks (src/plan.c).
BLOCKS_MORE = 2  # blocks of each size in pages
EXTENT_MORE = 64  # granules
EXTENT_PAGES_PART, EXTENT_SPANS_PART = 12, 4
EXTENT_FOOTPRINT_PART = 32
EXTENT_FEW = (8 << 20) // GRANULE
STORE_BLOCKS_MAX = 64**4  # src/store.h
PAGE_KINDS = (("small", 4 << 10), ("medium", 32 << 10), ("large", 64 << 10))


def block_size(bin_number: int) -> int:
    """The largest block of a bin, in bytes; 0 for bin 0, which no block has."""
    if bin_number <= LINEAR:
        return 16 * bin_number
    i = bin_number - LINEAR - 1
    return (9 + i % PER_DOUBLING) << (4 + i // PER_DOUBLING)


def extent_room(granules: int) -> int:
    """What a profile may grow by and stay as it is: of what mode `seg` adds, a twelfth and half the rest."""
    return granules // EXTENT_PAGES_PART + EXTENT_MORE // 2


def kind_of(bin_number: int) -> str:
    size = block_size(bin_number)
    return "page" if size <= BLOCK_MAX else "span" if size <= MEDIUM_MAX else "huge"


def round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def in_words(size: int) -> str:
    """Bytes with the largest unit that gives at least 1, three digits."""
    value, units = float(size), ("B", "KiB", "MiB", "GiB", "TiB")
    for unit in units[:-1]:
        if value < 1024:
            return f"{size} B" if unit == "B" else f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:,.1f} {units[-1]}"
