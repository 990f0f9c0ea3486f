"""The binary profile: its layout byte by byte, and that no damage goes unseen."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import BINS, profile, record
from strategies import random_profiles

from rtmalloc_tools.profile.combine import merge
from rtmalloc_tools.profile.profile_format import BadProfile, checksum, decode, encode, read_profile, write_profile
from rtmalloc_tools.profile.size_classes import block_size, in_words, kind_of

SAMPLE = profile(
    record("", 0, 0, {1: 5, 72: 1}, pages=(3, 2, 1), granules=44, span_granules=9, span_largest=8),
    record("app", 0x1234, 1, {79: 2}),
    record("*", 0, 0, {1: 6}, threads_peak=2),
    runs=3,
)


def sealed(contents: bytes) -> bytes:
    """With a checksum that fits, so that only what was changed is wrong."""
    return contents[:56] + struct.pack("<Q", checksum(contents)) + contents[64:]


def put(contents: bytes, at: int, form: str, value: int) -> bytes:
    return contents[:at] + struct.pack(form, value) + contents[at + struct.calcsize(form) :]


def test_the_layout_is_as_documented():
    contents = encode(
        profile(
            record(
                "app",
                0x1234,
                1,
                {1: 5, 79: 2},
                pages=(3, 2, 1),
                granules=50,
                span_granules=9,
                span_largest=8,
                page_granules=44,
                least=6,
                granules_least=7,
                together=90,
                footprint=95,
                large_from=(2, 1, *[0] * 23),
                small_at_once=(4, *[0] * 8),
                alignment=(0, 8192, *[0] * 23),
            ),
            build=7,
        )
    )
    size = 72 + 4 * BINS + 48 + 4 * 25 + 4 * 9 + 4 * 25
    assert contents[:8] == b"RTMPROF\n"
    assert struct.unpack_from("<IIQIIIIQQ", contents, 8) == (8, 64, 7, 1, size, BINS, 1, 64 + size, 0)
    assert contents[64 : 64 + 56] == b"app".ljust(56, b"\0")
    assert struct.unpack_from("<QII", contents, 64 + 56) == (0x1234, 1, 0)
    assert struct.unpack_from("<II", contents, 64 + 72) == (0, 5)
    assert struct.unpack_from("<15I", contents, 64 + 72 + 4 * BINS) == (3, 2, 1, 50, 9, 8, 0, 44, 6, 7, 90, 95, 2, 1, 0)
    assert struct.unpack_from("<2I", contents, 64 + size - 136) == (4, 0)
    assert struct.unpack_from("<3I", contents, 64 + size - 100) == (0, 8192, 0)
    assert len(contents) == 64 + size


def test_the_checksum_is_fnv_1a():
    # The reference values of 64 zero bytes but for the first, by the definition.
    value = 0xCBF29CE484222325
    for byte in b"a" + bytes(63):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    assert checksum(b"a" + bytes(55) + b"ignored!") == value


@given(random_profiles())
def test_what_is_written_is_read(made):
    assert decode(encode(made), "f") == made


@given(st.binary(max_size=300))
def test_random_bytes_are_no_profile(contents):
    with pytest.raises(BadProfile, match=r"^f: "):
        decode(contents, "f")


@given(st.binary(max_size=600))
def test_random_bytes_behind_a_good_beginning_are_no_profile(contents):
    with pytest.raises(BadProfile, match=r"^f: "):
        decode(encode(SAMPLE)[:16] + contents, "f")


@given(st.binary(max_size=1200), st.integers(0, 5), st.integers(73, 90))
def test_random_contents_under_a_fitting_checksum_are_read_or_refused(body, threads, bins):
    header = struct.pack(
        "<8sIIQIIIIQQQ", b"RTMPROF\n", 1, 64, 7, threads, 104 + 4 * bins, bins, 1, 64 + len(body), 0, 0
    )
    try:
        found = decode(sealed(header + body), "f")
    except BadProfile as bad:
        assert str(bad).startswith("f: ")
    else:
        assert decode(encode(found), "f") == found


@given(random_profiles(), st.data())
def test_every_flipped_bit_is_seen(made, data):
    contents = bytearray(encode(made))
    at = data.draw(st.integers(0, len(contents) * 8 - 1))
    contents[at // 8] ^= 1 << at % 8
    with pytest.raises(BadProfile, match=r"^f: "):
        decode(bytes(contents), "f")


def test_every_truncation_is_seen():
    contents = encode(SAMPLE)
    for length in range(len(contents)):
        with pytest.raises(BadProfile, match=r"^f: (the file is empty|is truncated)"):
            decode(contents[:length], "f")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda c: b"PROFILE\n" + c[8:], "is not a profile"),
        (lambda c: put(c, 8, "<I", 2), "format version 2; this rtmalloc reads version 8"),
        (lambda c: c + b"\0", "has bytes behind its end"),
        (lambda c: put(c, 64 + 80, "<I", 99), "its checksum does not fit"),
        (lambda c: sealed(put(c, 12, "<I", 128)), "a header of 128 bytes"),
        (lambda c: sealed(put(c, 48, "<Q", 1)), "1 in its reserved field"),
        (lambda c: sealed(put(c, 32, "<I", 12)), "has 12 bins"),
        (lambda c: sealed(put(c, 28, "<I", 12)), "records of 12 bytes"),
        (lambda c: sealed(put(c, 24, "<I", 9)), "has 9 records"),
        (lambda c: sealed(put(c, 24, "<I", 0xFFFFFFFF)), "has 4294967295 records"),
        (lambda c: sealed(put(c, 64 + 72, "<I", 1)), "record 0: has a count in bin 0"),
        (lambda c: sealed(put(c, 64 + 68, "<I", 2)), "record 0: has flags 0x2"),
        (lambda c: sealed(put(c, 64 + 68, "<I", 0)), "record 0: has flags 0x0 and module '*'"),
        (lambda c: sealed(put(c, 64 + 4, "<B", 65)), "record 0: the module's name is not padded"),
        (lambda c: sealed(put(c, 64, "<B", 0xFF)), "record 0: has flags 0x1 and module '\\xff'"),
        (lambda c: sealed(put(c, len(c) - 4, "<I", 5000)), "record 2: has alignments that cannot be: 5000"),
        (lambda c: sealed(c[:64] + b"*" * 56 + c[120:]), "record 0: the module's name is not padded"),
    ],
)
def test_each_kind_of_damage_is_named(change, reason):
    with pytest.raises(BadProfile) as bad:
        decode(change(encode(SAMPLE)), "some.rtp")
    assert reason in str(bad.value) and str(bad.value).startswith("some.rtp: ")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"\xff", "\\xff"),
        ("äö".encode()[:3], "ä\\xc3"),  # cut in the middle of a character
        (b"\x1b[31m", "\\x1b[31m"),
        ("\u202eso".encode(), "\\u202eso"),
    ],
)
def test_a_modules_name_may_have_any_bytes(name, shown):
    contents = encode(profile(record("x" * len(name), 0x40, 0, {1: 5})))
    contents = sealed(contents[:64] + name + contents[64 + len(name) :])
    made = decode(contents, "f")
    assert encode(made) == contents and made.records[0].name == f"{shown}+0x40 #0"
    assert encode(merge([made, made], ["f", "f"])) == contents


def test_two_records_of_one_thread_are_refused():
    one = encode(profile(record("app", 1, 0)))
    twice = put(put(one + one[64:], 24, "<I", 2), 40, "<Q", 2 * len(one) - 64)
    with pytest.raises(BadProfile, match=r"has two records for app\+0x1 #0"):
        decode(sealed(twice), "f")


def test_a_written_file_is_read(tmp_path):
    write_profile(tmp_path / "a.rtp", SAMPLE)
    assert read_profile(tmp_path / "a.rtp") == SAMPLE
    assert [file.name for file in tmp_path.iterdir()] == ["a.rtp"]


def test_block_sizes_follow_the_allocators_classes():
    assert [block_size(c) for c in (0, 1, 8, 9, 10, 16, 17, 72, 73)] == [0, 16, 128, 144, 160, 256, 288, 32768, 36864]
    assert block_size(72 + 6 * 8) == 2 << 20
    assert [kind_of(c) for c in (72, 73, 120, 121)] == ["page", "span", "span", "huge"]
    assert block_size(335) > 1 << 40
    sizes = [block_size(c) for c in range(336)]
    assert sizes == sorted(set(sizes))


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1 << 20, "1 MiB"), (3 << 29, "1.5 GiB")]
)
def test_sizes_in_words(size, words):
    assert in_words(size) == words
