"""Traces are read as they were written, and damaged ones are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from traces import START_TICKS, chunk, header, two_threads, write_trace

from rtmalloc_tools.mistakes import Mistake
from rtmalloc_tools.trace import trace_format as form
from rtmalloc_tools.trace.blocks import link, live_bytes
from rtmalloc_tools.trace.trace_format import BadTrace, read_trace


def test_records_come_in_the_order_of_time(tmp_path):
    trace = read_trace(two_threads(tmp_path / "t"))
    events = trace.events
    assert events.ticks.tolist() == [10, 20, 30, 40, 60, 70, 71, 80, 81, 90]
    assert events.thread.tolist() == [1, 1, 2, 2, 1, 2, 2, 2, 2, 2]
    assert (trace.header.command, trace.header.process) == (("program", "--option"), 7)
    assert trace.header.finished and trace.header.ending == "ended with status 0"


def test_each_free_finds_its_block(tmp_path):
    linked = link(read_trace(two_threads(tmp_path / "t")).events)
    assert linked.sizes.tolist() == [100, 50, 64, 300]
    assert linked.death.tolist() == [2, 4, 5, -1]  # the last one stays: its resize failed
    assert (linked.failed, linked.unknown, linked.lost) == (1, 1, 0)
    assert live_bytes(linked).tolist() == [100, 150, 50, 114, 64, 0, 300, 300, 300, 300]


def test_a_thread_that_took_over_a_chunk_keeps_its_order(tmp_path):
    first = chunk((2, 1, [(50, form.FREE, 0x1000, 0)]), length=512)
    second = chunk((2, 0, [(50, form.MALLOC, 0x1000, 8)]), length=512)
    linked = link(read_trace(write_trace(tmp_path / "t", first, second)).events)
    assert linked.death.tolist() == [1] and linked.unknown == 0


def test_a_resize_that_was_cut_off_and_one_to_nothing(tmp_path):
    records = [
        (1, form.MALLOC, 0x10, 8),
        (2, form.RESIZE_FROM, 0x10, 0),
        (3, form.RESIZE_TO, 0, 0),
        (4, form.MALLOC, 0x10, 9),
        (5, form.RESIZE_FROM, 0x10, 0),
    ]
    linked = link(read_trace(write_trace(tmp_path / "t", chunk((1, 0, records)), finished=False)).events)
    assert linked.death.tolist() == [1, -1] and linked.failed == 0


def test_an_address_that_comes_twice_without_a_free_is_told(tmp_path):
    records = [(1, form.MALLOC, 0x10, 8), (2, form.MALLOC, 0x10, 8), (3, form.FREE, 0x10, 0)]
    linked = link(read_trace(write_trace(tmp_path / "t", chunk((1, 0, records)))).events)
    assert linked.lost == 1 and linked.death.tolist() == [-1, 2]


def test_what_came_after_the_stop_is_left_out(tmp_path):
    trace = read_trace(two_threads(tmp_path / "t", stopped=28, end_ticks=START_TICKS + 45))
    assert trace.events.ticks.tolist() == [10, 20, 30, 40]


def test_a_trace_without_end_is_read_as_far_as_it_goes(tmp_path):
    path = two_threads(tmp_path / "t", finished=False, exited=0)
    path.write_bytes(path.read_bytes() + bytes(100))  # room that was not used yet
    trace = read_trace(path)
    assert len(trace.events) == 10 and "cut off" in trace.header.ending


def test_a_length_beyond_the_file_does_not_make_it_longer(tmp_path):
    path = two_threads(tmp_path / "t", finished=False)
    contents = path.read_bytes()
    used = form.HEADER.unpack_from(contents)[17]
    path.write_bytes(contents.replace(used.to_bytes(8, "little"), (1 << 40).to_bytes(8, "little")))
    damaged = path.read_bytes()
    with pytest.raises(BadTrace, match=f"is cut off: {len(damaged):,} bytes, and {1 << 40:,} were written"):
        form.finish(path, 0)
    assert path.read_bytes() == damaged


def test_no_chunks_are_no_events(tmp_path):
    trace = read_trace(write_trace(tmp_path / "t"))
    linked = link(trace.events)
    assert len(trace.events) == 0 and len(linked.birth) == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"version": 2}, "has version 2; this command reads version 1"),
        ({"byte_order": 0x04030201}, "another byte order"),
        ({"machine": 8}, "unknown machine (8)"),
        ({"record_bytes": 16}, "damaged: header and record of 4096 and 16 bytes"),
        ({"ticks_per_second": 0}, "impossible figures"),
    ],
)
def test_foreign_traces_are_refused(tmp_path, fields, message):
    path = tmp_path / "t"
    path.write_bytes(header(form.HEADER_BYTES, **fields))
    with pytest.raises(BadTrace) as refused:
        read_trace(path)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "the file is empty"),
        (b"\x7fELF...........", "is not a trace: it begins with"),
        (form.MAGIC + bytes(90), "is cut off: 98 bytes"),
    ],
)
def test_other_files_are_refused(tmp_path, contents, message):
    path = tmp_path / "t"
    path.write_bytes(contents)
    with pytest.raises(BadTrace, match=message):
        read_trace(path)
    with pytest.raises(Mistake, match="cannot be read: no such file"):
        read_trace(tmp_path / "none")


@pytest.fixture(scope="session")
def good(tmp_path_factory):
    return two_threads(tmp_path_factory.mktemp("trace") / "t").read_bytes()


@given(data=st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_changed_byte_is_always_seen(tmp_path, good, data):
    at = data.draw(st.integers(0, len(good) - 1))
    changed = bytearray(good)
    changed[at] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "t"
    path.write_bytes(changed)
    try:
        trace = read_trace(path)
    except BadTrace:
        return
    assert not trace.header.finished  # the byte that says that there are checksums


@given(length=st.integers(0, 4096 + 2048 - 1))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_shorter_file_is_always_refused(tmp_path, good, length):
    path = tmp_path / "t"
    path.write_bytes(good[:length])
    with pytest.raises(BadTrace):
        read_trace(path)


@given(st.lists(st.tuples(st.integers(4096, 6143), st.integers(0, 255)), min_size=1, max_size=12))
@example(changes=[(4120, 0)])  # a chunk that nothing was written to
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_without_a_checksum_is_refused_or_read_but_never_a_crash(tmp_path, changes):
    path = two_threads(tmp_path / "t", finished=False)
    contents = bytearray(path.read_bytes())
    for at, value in changes:
        contents[at] = value
    path.write_bytes(contents)
    try:
        linked = link(read_trace(path).events)
    except BadTrace:
        return
    assert np.all(np.diff(linked.events.ticks) >= 0) and len(linked.birth) <= len(linked.events)
