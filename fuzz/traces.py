"""Fuzzing of what reads traces: any damage to a good trace is refused with a reason, or read without a crash.

    .venv/bin/python fuzz/traces.py                   for a minute, or $FUZZ_SECONDS
    .venv/bin/python fuzz/traces.py FILE ...          these files once, as they are

The seeds are fuzz/corpus-trace; what fails is kept in build/fuzz/, made as small as hypothesis can.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from rtlab.traces.plan import make_plan, write_plan
from rtmalloc_tools.trace import trace_format as form
from rtmalloc_tools.trace.blocks import link, live_bytes

ROOT = Path(__file__).resolve().parents[1]
SEEDS = sorted((ROOT / "fuzz" / "corpus-trace").iterdir())
FOUND = ROOT / "build" / "fuzz" / "trace-that-failed"
BATCH = 500

# Where it hits: anywhere, or a word of the first records and their chunk.
places = st.integers(0, 1 << 16) | st.integers(form.HEADER_BYTES, form.HEADER_BYTES + 512)
bytes_there = st.tuples(st.just("byte"), places, st.integers(0, 255))
words_there = st.tuples(st.just("word"), places.map(lambda at: at & ~7), st.integers(0, (1 << 64) - 1) | st.integers(0, 64))
cuts = st.tuples(st.just("cut"), places, st.just(0))
copies = st.tuples(st.just("copy"), places, places)
changes = st.lists(bytes_there | words_there | cuts | copies, min_size=1, max_size=16)


def damaged(contents: bytes, what: list[tuple[str, int, int]]) -> bytes:
    out = bytearray(contents)
    for kind, at, value in what:
        at %= max(1, len(out))
        if kind == "byte":
            out[at : at + 1] = bytes([value])
        elif kind == "word":
            out[at : at + 8] = value.to_bytes(8, "little")
        elif kind == "cut":
            del out[at:]
        else:
            start = value % max(1, len(out))
            out[at : at + 24] = out[start : start + 24]
    return bytes(out)


def look(path: Path) -> None:
    """Reads as `rtmalloc trace show` and `rtlab replay` do, and looks at what they rely on."""
    try:
        trace = form.read_trace(path)
    except form.BadTrace as refused:
        assert str(refused)
        return
    linked = link(trace.events)
    assert np.all(np.diff(trace.events.ticks) >= 0)
    assert len(linked.birth) <= len(trace.events)
    assert np.all((linked.death < 0) | (linked.death > linked.birth))
    assert np.all(live_bytes(linked) >= 0)
    plan = make_plan(trace, linked)
    assert plan.lanes.sum() == len(plan.operations)
    assert np.all(plan.operations["block"] < max(1, plan.blocks))
    write_plan(plan, path.with_suffix(".plan"))


def fuzz(number: int, folder: Path) -> None:
    @seed(number)
    @settings(max_examples=BATCH, deadline=None, database=None, phases=(Phase.generate, Phase.shrink),
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.sampled_from(SEEDS), changes, st.booleans())
    def one(good: Path, what: list[tuple[str, int, int]], finished: bool) -> None:
        path = folder / "trace"
        path.write_bytes(damaged(good.read_bytes(), what))
        try:
            if finished:
                form.finish(path, 0)
        except form.BadTrace:
            pass
        FOUND.write_bytes(path.read_bytes())
        look(path)

    one()


def main(files: list[str]) -> int:
    for file in files:
        look(Path(file))
    if files:
        return 0
    seconds = float(os.environ.get("FUZZ_SECONDS", "60"))
    FOUND.parent.mkdir(parents=True, exist_ok=True)
    end, first, batches = time.monotonic() + seconds, int(time.time()), 0
    with tempfile.TemporaryDirectory() as folder:
        while batches == 0 or time.monotonic() < end:
            try:
                fuzz(first + batches, Path(folder))
            except BaseException:
                print(f"The trace is kept as {FOUND}; again with {sys.argv[0]} {FOUND}", file=sys.stderr)
                raise
            batches += 1
    FOUND.unlink()
    print(f"{BATCH * batches} damaged traces from seed {first} on: each refused with a reason, or read")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
