"""`rtmalloc profile show | merge | diff | check`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import profile, record
from strategies import random_profiles

from rtmalloc_tools.check.findings import System
from rtmalloc_tools.files import write_whole
from rtmalloc_tools.mistakes import Mistake
from rtmalloc_tools.profile.combine import compare, eight_name, grows_beyond, large_name, maximum, merge
from rtmalloc_tools.profile.extent import plan_extent
from rtmalloc_tools.profile.level import ALIKE, LITTLE, TELLS, levelled
from rtmalloc_tools.profile.machine import available_memory
from rtmalloc_tools.profile.memory import most_memory, shared
from rtmalloc_tools.profile.profile_format import DOUBLINGS, EIGHTS, encode, read_profile, write_profile
from rtmalloc_tools.profile.size_classes import BLOCK_MAX, GRANULE, block_size
from rtmalloc_tools.profile.stores import eights_that_share, large_stores, room_before, stores_of
from rtmalloc_tools.profile.weight import block_bytes, weight


def merged(*profiles):
    return merge(profiles, ["x"] * len(profiles))


@given(random_profiles(), random_profiles(), random_profiles())
def test_merging_is_commutative_associative_and_idempotent(a, b, c):
    assert merged(a, b) == merged(b, a)
    assert merged(merged(a, b), c) == merged(a, merged(b, c)) == merged(a, b, c)
    assert encode(merged(a, a)) == encode(a)


AT_ONE_TIME = {*map(large_name, range(DOUBLINGS)), *map(eight_name, range(EIGHTS))}


@given(random_profiles(), random_profiles())
def test_a_merged_profile_is_at_least_each_of_its_parts(a, b):
    both = merged(a, b)
    for part in (a, b):
        # How many there were at one time may become unknown.
        assert all(
            change.after > change.before or (not change.after and change.what in AT_ONE_TIME)
            for change in compare(part, both, ("a", "b"))
            if change.what != "thread"
        )
        assert grows_beyond(both, part, 0) == []


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    a, b = tmp_path / "a.rtp", tmp_path / "b.rtp"
    write_profile(a, profile(record("", 0, 0, {1: 5}, pages=(3, 0, 0)), record("*", threads_peak=1)))
    write_profile(b, profile(record("", 0, 0, {1: 2, 9: 4}), record("app", 0x40, 0, {79: 1}, span_granules=9), runs=2))
    return a, b


def test_merge_takes_the_maximum_of_each_field(files, rtmalloc, tmp_path):
    a, b = files
    out = tmp_path / "out.rtp"
    status, _, _ = rtmalloc("profile", "merge", "-o", out, a, b)
    found = {r.name: r for r in read_profile(out).records}
    assert status == 0 and list(found) == ["whole process", "main thread #0", "app+0x40 #0"]
    main = found["main thread #0"]
    assert (main.blocks[1], main.blocks[9], main.pages) == (5, 4, (3, 0, 0))
    assert found["app+0x40 #0"].span_granules == 9 and found["whole process"].threads_peak == 1
    assert read_profile(out).runs == 2


def test_merge_may_write_over_one_of_its_sources(files, rtmalloc):
    a, b = files
    assert rtmalloc("profile", "merge", "-o", a, a, b)[0] == 0
    assert len(read_profile(a).records) == 3


def test_diff_shows_what_grew_and_what_shrank(files, rtmalloc):
    a, b = files
    status, out, _ = rtmalloc("profile", "diff", a, b)
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    assert status == 0
    assert ["main thread #0", "blocks of 16", "5", "2", "-3"] in cells
    assert ["", "blocks of 144", "0", "4", "+4"] in cells
    assert ["app+0x40 #0", "blocks of 61440", "0", "1", "+1"] in cells
    assert "hold the same peaks" in rtmalloc("profile", "diff", a, a)[1]


def test_show_has_blocks_by_size_sums_and_both_equations(files, rtmalloc):
    status, out, _ = rtmalloc("profile", "show", files[1])
    assert status == 0
    for expected in ("app+0x40 #0", "equation 2", "equation 3", "61,440", "144", "2 runs", "pag:", "seg:"):
        assert expected in out
    # 61,440 bytes are above 32 KiB: in `pag` a store, in `seg` a part of the extent.
    stores = out[out.index("stores for large sizes") :]
    assert "pag" in stores.splitlines()[4] and "61,440" in stores.splitlines()[4]


def test_check_says_of_each_file_whether_it_is_good(files, rtmalloc, tmp_path):
    bad = tmp_path / "bad.rtp"
    bad.write_bytes(files[0].read_bytes()[:-1])
    assert rtmalloc("profile", "check", *files)[0] == 0
    status, out, _ = rtmalloc("profile", "check", files[0], bad, tmp_path / "none.rtp", tmp_path)
    assert status == 1
    assert f"{files[0]}: good" in out
    assert f"{bad}: is truncated" in out
    assert f"{tmp_path / 'none.rtp'}: the profile cannot be read: no such file or directory" in out
    assert f"{tmp_path}: is a directory" in out
    os.mkfifo(tmp_path / "fifo")
    status, out, _ = rtmalloc("profile", "check", "/dev/zero", tmp_path / "fifo")
    assert status == 1 and out.count("is no regular file") == 2


def test_output_that_has_no_room_is_a_sentence(files):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "rtmalloc_tools", "profile", "show", str(files[0])]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "rtmalloc: the output cannot be written: no space left on device.\n")


@pytest.mark.parametrize("contents", [b"int main(void) {}\n", b"RTMPROF", b""])
def test_merge_replaces_profiles_only(files, rtmalloc, tmp_path, contents):
    source = tmp_path / "app.c"
    source.write_bytes(contents)
    status, _, complaint = rtmalloc("profile", "merge", "-o", source, *files)
    assert status == 2 and f"{source}: is there, and is not a profile" in complaint
    assert source.read_bytes() == contents
    source.write_bytes(encode(profile())[:-9])  # a damaged one
    assert rtmalloc("profile", "merge", "-o", source, *files)[0] == 0 and len(read_profile(source).records) == 3


def test_merge_writes_what_a_link_leads_to(files, rtmalloc, tmp_path):
    folder, link = tmp_path / "folder", tmp_path / "link.rtp"
    folder.mkdir()
    for target in (folder / "there.rtp", Path("folder", "new.rtp")):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        for _ in range(2):
            assert rtmalloc("profile", "merge", "-o", link, *files)[0] == 0
        assert link.is_symlink() and len(read_profile(tmp_path / target).records) == 3
    assert {file.name for file in folder.iterdir()} == {"there.rtp", "new.rtp"}
    link.unlink()
    link.symlink_to(link)
    status, _, complaint = rtmalloc("profile", "merge", "-o", link, *files)
    assert status == 2 and "is a link that leads back to itself" in complaint
    assert link.is_symlink()


def test_an_empty_name_is_not_this_folder(files, rtmalloc):
    status, _, complaint = rtmalloc("profile", "merge", "-o", "", *files)
    assert status == 2 and "The name of the file to write is empty" in complaint


def test_what_a_name_tells_a_terminal_is_not_done(rtmalloc, tmp_path):
    a, b, out = tmp_path / "[red]a.rtp", tmp_path / "b.rtp", tmp_path / "out.rtp"
    write_profile(a, profile(record("\x1b]0;x\x07[/]:smile:", 0x40, 0, {1: 5, 75: 4})))
    write_profile(b, profile(record("\udcff\x9b", 0x40, 0, {1: 5})))
    for command in (("show", a), ("diff", a, b), ("merge", "-o", out, a, b), ("check", a, b)):
        status, told, complaint = rtmalloc("profile", *command)
        assert (status, complaint) == (0, "") and not {"\x1b", "\x07", "\x9b"} & {*told}
        if command[0] in ("show", "diff"):
            assert "\\x1b]0;x\\x07[/]:smile:+0x40 #0" in told and "[red]a.rtp" in told
    assert [one.module for one in read_profile(out).records] == ["\x1b]0;x\x07[/]:smile:", "\udcff\x9b"]


def test_many_changes_are_shown_soon(rtmalloc, tmp_path):
    a, b = tmp_path / "a.rtp", tmp_path / "b.rtp"
    write_profile(a, profile(record()))
    threads = (record("app", 0x40, index, dict.fromkeys(range(1, 61), index + 1)) for index in range(1000))
    write_profile(b, profile(record(), *threads))
    started = time.monotonic()
    status, out, _ = rtmalloc("profile", "diff", a, b)
    assert status == 0 and time.monotonic() - started < 10  # 22 s with a frame
    lines = [line.split() for line in out.splitlines()]
    assert ["app+0x40", "#999", "blocks", "of", "16", "0", "1,000", "+1,000"] in lines and len(lines) == 2 + 60 * 1000


def test_many_threads_are_shown_soon(rtmalloc, tmp_path):
    file = tmp_path / "many.rtp"
    threads = (record("app", 0x40, index, dict.fromkeys(range(1, 11), index + 1)) for index in range(1000))
    write_profile(file, profile(record(), *threads))
    started = time.monotonic()
    status, out, _ = rtmalloc("profile", "show", file)
    assert status == 0 and time.monotonic() - started < 20  # with frames as long as 3,000 tables take
    lines = [line.split() for line in out.splitlines()]
    assert ["app+0x40", "#999", "page", "32", "1,000"] in [line[:5] for line in lines]
    assert ["app+0x40", "#999", "small", "pages,", "4", "KiB", "0", "0"] in lines
    assert "\npag: " in out and "\nseg: " in out


def test_a_files_name_need_not_be_utf_8(files):
    odd = os.fsdecode(os.fsencode(files[0].parent) + b"/\xff.rtp")
    os.rename(files[0], odd)
    values = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    command = [sys.executable, "-m", "rtmalloc_tools", "profile", "check", odd]
    done = subprocess.run(command, env=values, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "\\udcff.rtp: good" in done.stdout


def test_profiles_of_two_builds_do_not_mix(files, rtmalloc, tmp_path):
    other = tmp_path / "other.rtp"
    write_profile(other, profile(build=8))
    for arguments in (("merge", "-o", tmp_path / "o.rtp", files[0], other), ("diff", files[0], other)):
        status, _, complaint = rtmalloc("profile", *arguments)
        assert status == 2 and str(other) in complaint and "another build" in complaint
    assert not (tmp_path / "o.rtp").exists()


def test_an_unwritable_place_leaves_nothing_behind(files, rtmalloc, tmp_path):
    status, _, complaint = rtmalloc("profile", "merge", "-o", tmp_path, *files)
    assert status == 2 and f"{tmp_path}: is a directory" in complaint
    status, _, complaint = rtmalloc("profile", "merge", "-o", tmp_path / "no" / "o.rtp", *files)
    assert status == 2 and "cannot be written: no such file or directory" in complaint
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.rtp", "b.rtp"]


def test_a_failure_half_way_leaves_the_old_file_whole(tmp_path, monkeypatch):
    file = tmp_path / "a.rtp"
    file.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Mistake, match="no space left on device"):
        write_whole(file, b"new contents", "profile")
    assert file.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.rtp"]


@pytest.mark.parametrize(
    ("runs", "threads", "levelled_blocks"),
    [
        (4, [(30, 240), (10, 80)], [30, 30]),  # so few runs say little of the order
        (5, [(30, 240), (10, 80)], [30, 10]),  # in each run the first had more than the second ever
        (5, [(30, 80), (10, 80)], [30, 30]),  # it had few, too
        (5, [(30, 240), (28, 220)], [30, 30]),  # they differ by so little that the one may take the other's place
        (5, [(30, 0), (10, 80)], [30, 30]),  # in one run it was not there
        (5, [(50, 400), (10, 80)], [50, 10]),  # they are not alike anyway
    ],
)
def test_threads_that_the_runs_tell_apart_are_not_levelled(runs, threads, levelled_blocks):
    made = [record("app", 0x40, index, {72: blocks}, least=least) for index, (blocks, least) in enumerate(threads)]
    assert [r.blocks[72] for r in levelled(profile(*made, runs=runs))] == levelled_blocks


def alike(mine, its, runs, part=(2, 3)):
    """As src/profile.h says it. `part`: of what the other always had."""
    always = max(its.least - 1, 0) * GRANULE
    told_apart = runs >= TELLS and block_bytes(mine) < always * part[0] // part[1]
    return not told_apart and (block_bytes(its) + LITTLE) // ALIKE <= block_bytes(mine) + LITTLE


ints = st.integers(0, 400)


@given(st.lists(st.tuples(ints, ints, st.integers(0, 2000), st.integers(0, 3)), max_size=9), st.sampled_from((1, 5)))
def test_levelling_is_the_maximum_over_those_that_are_alike(threads, runs):
    made = [
        record("app", 0x40, index, {72: large, 5 + index % 3: few}, least=least, granules_least=granules)
        for index, (large, few, least, granules) in enumerate(threads)
    ]
    for mine, level in zip(made, levelled(profile(*made, runs=runs)), strict=True):
        those = [its for its in made if alike(mine, its, runs)]
        for number, count in enumerate(level.blocks):
            assert count == max(its.blocks[number] for its in [*those, mine])
        both_ways = [
            its.granules_least for its in made if alike(mine, its, runs, (1, 1)) and alike(its, mine, runs, (1, 1))
        ]
        assert level.granules_least == min([mine.granules_least, *both_ways])


def bins_of(sizes: dict[int, int]) -> dict[int, int]:
    return {number: sizes[block_size(number)] for number in range(273) if block_size(number) in sizes}


MIB = 1 << 20


@pytest.mark.parametrize(
    ("blocks", "at_once", "stores"),
    [
        # Ten sizes, each with one block, of which two at most were there at a time: two of the largest do.
        ({(8 + i) * MIB // 4: 1 for i in range(1, 9)}, {6: 2}, [(2, 4 * MIB)]),
        # All were there at once: each its own.
        ({3 * MIB: 2, 4 * MIB: 3}, {6: 5}, [(2, 3 * MIB), (3, 4 * MIB)]),
        # One is far larger than the others: it stays apart, and these share.
        ({MIB: 3, 2 * MIB: 3, 1024 * MIB: 1}, {4: 4, 5: 4, 14: 1}, [(4, 2 * MIB), (1, 1024 * MIB)]),
    ],
)
def test_large_sizes_share_a_store_where_that_is_less(blocks, at_once, stores):
    large_from = tuple(at_once.get(doubling, 0) for doubling in range(25))
    assert large_stores(record(blocks=bins_of(blocks), bins=273, large_from=large_from), BLOCK_MAX) == stores


def test_sizes_that_are_aligned_share_no_store():
    # Blocks of 1 and 2 MiB that take turns with blocks of 300 KiB; of the first doubling some are aligned to 64 KiB.
    sizes = bins_of({320 << 10: 4, MIB: 4, 2 * MIB: 4})
    large_from = (4,) * 6 + (0,) * (DOUBLINGS - 6)
    usual = record(blocks=sizes, bins=273, large_from=large_from)
    assert large_stores(usual, BLOCK_MAX) == [(4, 2 * MIB)] and room_before(usual, BLOCK_MAX) == 0
    aligned = replace(usual, alignment=(0, 0, 0, 1 << 16) + (0,) * (DOUBLINGS - 4))
    assert large_stores(aligned, BLOCK_MAX) == [(4, 2 * MIB), (4, 320 << 10)]
    assert room_before(aligned, BLOCK_MAX) == (1 << 16) - 4096
    wider = replace(aligned, alignment=(0, 0, 0, 1 << 20) + (0,) * (DOUBLINGS - 4))
    assert room_before(wider, BLOCK_MAX) == (1 << 16) - 4096  # no block of 320 KiB is aligned to more
    assert room_before(aligned, MIB) == 0
    assert maximum(usual, aligned).alignment == maximum(aligned, usual).alignment == aligned.alignment


@pytest.mark.parametrize(
    ("blocks", "at_once", "stores"),
    [
        # Eight sizes up to 1 KiB take turns: one store of the largest.
        ({512 + 64 * i: 100 for i in range(1, 9)}, 120, [(120 + 16, 1024)]),
        # They had 500 at one time, which saves less than a quarter.
        ({512 + 64 * i: 100 for i in range(1, 9)}, 500, [(102, 512 + 64 * i) for i in range(1, 9)]),
        # Two of them do, and the store is one of 1 KiB all the same: alignments are as they were.
        ({576: 100, 640: 100}, 50, [(54, 1024)]),
        ({1024: 100}, 100, [(102, 1024)]),
    ],
)
def test_small_sizes_share_a_store_where_that_is_a_quarter_less(blocks, at_once, stores):
    small_at_once = (0, 0, 0, at_once, 0, 0, 0, 0, 0)
    assert stores_of(record(blocks=bins_of(blocks), bins=273, small_at_once=small_at_once)) == stores


def test_the_most_memory_that_a_program_can_need():
    two = profile(
        record("", 0, 0, {1: 5, 72: 2}, granules=27, span_granules=3, span_largest=2, page_granules=25, bins=130),
        record("app", 0, 0, {1: 300, 121: 1}, bins=130),
        record("*", 0, 0, {1: 305, 72: 2, 121: 1}, bins=130),
        bins=130,
    )
    two = replace(two, records=tuple(replace(one, least=weight(one)) for one in two.records))
    memory = most_memory(two, "f")
    # Two blocks more of each size in pages; whole granules; spans and huge blocks as they are.
    assert memory["pag"]["blocks_bytes"] == 4096 + 4 * 32768 + 8192 + (9 << 18)
    # A twelfth of the pages, three eighths of the spans, 64 granules and the longest span.
    assert memory["seg"]["blocks_bytes"] == (27 + 24 // 12 + 3 * 3 // 8 + 64 + 2) * 4096 + (9 << 18)
    assert "Exact" in memory["pag"]["meaning"] and "Not a bound" in memory["seg"]["meaning"]


def test_threads_of_one_routine_get_the_maximum_over_all():
    two = profile(record("app", 9, 0, {1: 600}, least=3), record("app", 9, 1, {2: 254}, least=2))
    assert most_memory(two, "f")["pag"]["blocks_bytes"] == 2 * (12288 + 8192)


def test_an_extent_has_what_was_free_between_blocks_too():
    def granules(footprint: int, longer: int = 0) -> int:
        blocks = bins_of({48 << 10: 84, 2 << 20: longer})
        one = record(blocks=blocks, granules=1000, span_granules=1000, span_largest=12, footprint=footprint, bins=273)
        return plan_extent(one, shares=False).granules

    usual = 1000 + 3 * 1000 // 8 + 64 + 12
    assert granules(0) == granules(1200) == usual
    assert granules(2000) == 2000 + 2000 // 32 + 64
    assert granules(2000, longer=3) == usual  # blocks of 2 MiB are in the footprint, and have stores


@pytest.mark.parametrize(
    ("peaks", "least", "at_once", "own", "chunks"),
    [
        # In each run another of three has 1000 granules, the others 10: 1020 - 30, a twelfth, and half a chunk each.
        ((1000, 1000, 1000), (10, 10, 10), 1020, [10, 10, 10], 19),
        ((1000, 1000, 1000), (10, 0, 10), 1020, [1, 1, 1], 19),  # one was not there once
        ((1000, 1000, 1000), (990, 990, 990), 2990, [990, 990, 990], 2),  # and chunks for the longest spans
        ((1000, 1000, 1000), (10, 10, 10), 3000, [10, 10, 10], 52),
        ((1000,), (10,), 1000, [1000], 0),
    ],
)
def test_threads_that_race_share_a_reserve(peaks, least, at_once, own, chunks):
    threads = [
        record("app", 9, number, {64: 250}, granules=peak, granules_least=few, together=at_once, span_largest=64)
        for number, (peak, few) in enumerate(zip(peaks, least, strict=True))
    ]
    plan = shared(profile(*threads, record("*", granules=at_once)), "seg")
    assert ([thread.record.granules for thread in plan.threads], plan.chunks) == (own, chunks)
    assert shared(profile(*threads, record("*", granules=at_once)), "pag").chunks == 0
    longer = [replace(one, span_largest=65) for one in threads]  # than a chunk
    assert shared(profile(*longer, record("*", granules=at_once)), "seg").chunks == 0


def test_threads_that_race_have_in_common_what_the_largest_needs():
    # 250 blocks of 32 KiB and two more; a run where one had 31 32nds of it, or a little less.
    most = weight(record("app", 9, 0, {72: 250}))
    threads = [record("app", 9, number, {72: 250}, least=most) for number in range(3)]

    def common(*records):
        found = shared(profile(*records, runs=2), "pag").common
        return found.plan("pag")[1] if found else []

    assert common(*threads) == []
    assert common(*threads[:2], replace(threads[2], least=most * 31 // 32 - 1)) == [(252, 32 << 10)]
    assert common(*threads[:2], replace(threads[2], least=0), record("app", 9, 4, {72: 100})) == [(252, 32 << 10)]
    # Who does not race may differ by as much again, to an eighth. Of large blocks whole ones only.
    assert common(*threads[:2], replace(threads[2], least=most - most // 40)) == [(8 + 2, 32 << 10)]
    main = record("", 0, 0, {72: 250, 73: 100, 74: 10}, least=1)
    assert common(main) == [(32 + 2, block_size(72)), (100 // 8, block_size(73)), (10 // 8, block_size(74))]


def test_what_threads_have_in_common_shares_stores_as_theirs_do():
    # Bins 9 to 16, of 144 to 256 bytes: the one thread has those of one at a time, the other one all, and more of them.
    def thread(number: int, each: int, at_once: int):
        eights = (0, at_once) + (0,) * (EIGHTS - 2)
        return record("app", 9, number, dict.fromkeys(range(9, 17), each), small_at_once=eights)

    plan = shared(profile(thread(0, 40, 40), thread(1, 400, 3200), runs=2), "pag")
    assert [len(one.plan("pag")[1]) for one in plan.threads] == [1, 8]
    assert plan.common.plan("pag")[1] == [(3200 + 16, 256)]


def test_a_size_that_is_to_have_its_own_store_keeps_it():
    # 300 blocks of each of two sizes, of which 300 were there at one time, and later one each.
    def two(each: int, at_once: int):
        eights = (0, at_once) + (0,) * (EIGHTS - 2)
        larger = (at_once,) + (0,) * (DOUBLINGS - 1)
        sizes = dict.fromkeys((9, 16, 73, 75), each)
        return record("", 0, 0, sizes, small_at_once=eights, large_from=larger, least=1)

    apart = two(300, 0)
    for merged_ in (maximum(apart, two(1, 1)), maximum(two(1, 1), apart)):
        assert (merged_.small_at_once[1], merged_.large_from[0]) == (0, 0)
    assert maximum(two(300, 300), two(1, 1)).small_at_once[1] == 300
    # Nor is it known of what all threads have in common.
    threads = [replace(apart, module="app", index=number) for number in range(2)]
    other = replace(two(8, 8), module="other")
    plan = shared(profile(*threads, other, runs=2), "pag")
    assert plan.common.record.small_at_once[1] == 0 and plan.common.record.large_from[0] == 0


def test_an_eight_of_one_size_may_have_the_store_of_its_last():
    # 4,096 blocks of 240 bytes, of which 2,500 were there at one time: blocks of 256 bytes take less.
    one = record("app", 9, 0, {15: 4096}, small_at_once=(0, 2500) + (0,) * (EIGHTS - 2))
    assert stores_of(one) == [(2502, 256)] and eights_that_share(one) == {1}


def test_a_profile_of_another_build_is_not_good(rtmalloc, tmp_path):
    other = tmp_path / "other.rtp"
    write_profile(other, profile(record("", 0, 0, {1: 5}), build=7))
    for command in (("profile", "check", other), ("bound", "--profile", other)):
        status, told, complaint = rtmalloc(*command)
        assert (
            status
            and "other" in told + complaint
            and "recorded with another build of rtmalloc (0x7" in told + complaint
        )


def test_a_profile_that_no_mode_can_load_is_not_good(rtmalloc, tmp_path):
    many, small, wide = (tmp_path / f"{name}.rtp" for name in ("many", "small", "wide"))
    write_profile(many, profile(record("", 0, 0, {121: 64**4 + 1}, bins=130), bins=130))
    status, told, _ = rtmalloc("profile", "check", many)
    assert status == 1 and "neither mode loads it: it has more blocks of one size than a store can hold" in told
    write_profile(small, profile(record("", 0, 0, {1: 64**4 - 1})))  # in `pag` two blocks more are made
    status, told, _ = rtmalloc("profile", "check", small)
    assert status == 0 and "but mode pag refuses it: it has more blocks of one size than a store can hold" in told
    write_profile(wide, profile(record("", 0, 0, {72: 1 << 19}, granules=1 << 22, page_granules=1 << 22)))
    status, told, _ = rtmalloc("profile", "check", wide)
    assert status == 0 and "good" in told and "but mode seg refuses it: one of its threads needs more than 16" in told
    assert "Loading refuses this profile" in most_memory(read_profile(wide), "f")["seg"]["meaning"]


def test_a_profile_without_threads_is_not_good(rtmalloc, tmp_path):
    none, whole = tmp_path / "none.rtp", tmp_path / "whole.rtp"
    write_profile(none, profile())
    write_profile(whole, profile(record("*", 0, 0, {1: 5})))
    status, told, _ = rtmalloc("profile", "check", none, whole)
    assert status == 1 and told.count("BAD") == told.count("neither mode loads it: it holds no thread.") == 2


def test_a_profile_that_needs_more_than_the_machine_has_is_not_good(rtmalloc, tmp_path, monkeypatch):
    huge, turns = tmp_path / "huge.rtp", tmp_path / "turns.rtp"
    write_profile(huge, profile(record("", 0, 0, {272: 1}, bins=273), bins=273))
    status, told, _ = rtmalloc("profile", "check", huge)
    assert status == 1 and f"{huge}: neither mode loads it: it needs 1.0 TiB, and this machine" in told
    monkeypatch.setattr("rtmalloc_tools.cli_profile.available_memory", lambda: 64 << 20)
    write_profile(turns, profile(record("", 0, 0, {64: 2560, 72: 1280}, granules=10240, page_granules=10240)))
    status, told, _ = rtmalloc("profile", "check", turns)
    assert status == 0 and "good: 1 records" in told and "; but mode pag refuses it: it needs 90.2 MiB, and" in told


def test_the_memory_to_have_is_the_machines_or_the_control_groups(tmp_path):
    def put(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert available_memory(System(tmp_path)) == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    put("proc/meminfo", "MemTotal:  9000 kB\nMemFree:  1 kB\nMemAvailable:    4000 kB\n")
    put("sys/fs/cgroup/memory.max", "max\n")
    assert available_memory(System(tmp_path)) == 4000 << 10
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n")
    assert available_memory(System(tmp_path)) == 1 << 20


def test_headroom_is_no_difference_between_runs(files, rtmalloc, tmp_path):
    steady = record("", 0, 0, {1: 7, 64: 3, 70: 1})
    steady = replace(steady, least=weight(steady))
    write_profile(tmp_path / "steady.rtp", profile(steady, runs=3))
    out = tmp_path / "out.rtp"
    assert rtmalloc("profile", "merge", "--headroom", "50%", "-o", out, tmp_path / "steady.rtp")[0] == 0
    assert shared(read_profile(out), "pag").common is None


def test_threads_share_no_reserve_where_that_would_take_more():
    threads = [
        record("app", 9, number, {64: 250}, granules=1000, granules_least=990, together=2990) for number in range(3)
    ]
    assert shared(profile(*threads, record("*", granules=2990)), "seg").chunks == 0


def test_threads_that_leave_much_free_do_not_share():
    def chunks(footprint: int) -> int:
        threads = [
            record("app", 9, number, {64: 250}, granules=1000, granules_least=10, together=1020, footprint=footprint)
            for number in range(3)
        ]
        return shared(profile(*threads, record("*", granules=1020)), "seg").chunks

    usual = 1000 + 1000 // 12 + 64
    assert chunks(usual) > 0
    assert chunks(usual + usual // 8) == 0


def test_what_other_routines_need_is_not_in_the_reserve():
    def threads(together: int):
        return (
            record("", 0, 0, {64: 250}, granules=2200, granules_least=200, together=2200, span_largest=400),
            *(
                record("git", 9, index, {64: 250}, granules=3800, granules_least=0, together=together)
                for index in range(2)
            ),
            record("*", granules=8600),
        )

    # What the two had at one time, a twelfth, and half a chunk each; without that what all had, less the main thread's
    # least: there was a run where it had no more.
    assert shared(profile(*threads(6400)), "seg").chunks == -(-(6400 + 6400 // 12 + 64) // 64)
    assert shared(profile(*threads(7600)), "seg").chunks == 0


def test_a_mistyped_subcommand_names_the_nearest(rtmalloc):
    status, _, complaint = rtmalloc("profile", "shwo", "x")
    assert status == 2 and "Did you mean 'show'?" in complaint
    status, _, complaint = rtmalloc("chekc")
    assert status == 2 and "Did you mean 'check'?" in complaint


def test_merge_raises_each_peak_by_the_headroom(files, rtmalloc, tmp_path):
    out = tmp_path / "out.rtp"
    assert rtmalloc("profile", "merge", "--headroom", "50%", "-o", out, *files)[0] == 0
    found = {r.name: r for r in read_profile(out).records}
    main = found["main thread #0"]
    assert (main.blocks[1], main.blocks[2], main.blocks[9], main.pages) == (8, 0, 6, (5, 0, 0))
    assert found["app+0x40 #0"].span_granules == 14


def test_merge_apart_gives_each_size_its_own_store(rtmalloc, tmp_path):
    one, out = tmp_path / "one.rtp", tmp_path / "out.rtp"
    turns = record(blocks=bins_of({576: 100, 640: 100}), bins=273, small_at_once=(0, 0, 0, 50, 0, 0, 0, 0, 0))
    write_profile(one, profile(turns, bins=273))
    assert stores_of(turns) == [(54, 1024)]
    assert rtmalloc("profile", "merge", "--apart", "-o", out, one)[0] == 0
    assert stores_of(read_profile(out).records[0]) == [(102, 576), (102, 640)]


def grown(before, after, headroom=0.05):
    return [change.what for change in grows_beyond(profile(before), profile(after), headroom)]


def test_growth_counts_only_beyond_what_loading_makes_anyway():
    three = record(blocks={1: 3})
    assert grown(three, record(blocks={1: 5})) == []  # two blocks more of each size in pages
    assert grown(three, record(blocks={1: 6})) == ["blocks of 16"]
    assert grown(record(), record(blocks={1: 1})) == ["blocks of 16"]  # no store of that size
    assert grown(record(blocks={73: 3}), record(blocks={73: 4})) == ["blocks of 36864"]  # spans: none more
    assert grown(record(granules=84), record(granules=123)) == []
    assert grown(record(granules=84), record(granules=124)) == ["granules in pages and spans"]
    assert grown(record("*", threads_peak=1), record("*", threads_peak=9)) == []
    assert grown(record(), record("app")) == ["thread"]
