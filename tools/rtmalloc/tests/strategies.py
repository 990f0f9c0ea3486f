"""Random profiles."""

from __future__ import annotations

from hypothesis import strategies as st
from profiles import BINS, profile, record

from rtmalloc_tools.profile.profile_format import ALIGNMENTS, DOUBLINGS, EIGHTS, PROCESS_MODULE, Profile, Record

words = st.integers(0, 0xFFFFFFFF)
modules = st.sampled_from(["", "app", "libworker.so.1", "ä", "\x1b[31m", "cut\udcc3", "\udcff"])


@st.composite
def records(draw, module: str | None = None) -> Record:
    name = draw(modules) if module is None else module
    blocks = draw(st.dictionaries(st.integers(1, BINS - 1), words, max_size=4))
    return record(
        name,
        draw(st.integers(0, 3)),
        draw(st.integers(0, 2)),
        blocks,
        pages=tuple(draw(st.tuples(words, words, words))),
        granules=draw(words),
        span_granules=draw(words),
        span_largest=draw(words),
        threads_peak=draw(words),
        page_granules=draw(words),
        least=draw(words),
        granules_least=draw(words),
        together=draw(words),
        footprint=draw(words),
        large_from=tuple(draw(st.lists(words, min_size=DOUBLINGS, max_size=DOUBLINGS))),
        small_at_once=tuple(draw(st.lists(words, min_size=EIGHTS, max_size=EIGHTS))),
        alignment=tuple(draw(st.lists(st.sampled_from([0, *ALIGNMENTS]), min_size=DOUBLINGS, max_size=DOUBLINGS))),
    )


@st.composite
def random_profiles(draw) -> Profile:
    made = draw(st.lists(records(), max_size=4))
    if draw(st.booleans()):
        made.append(record(PROCESS_MODULE, 0, 0, threads_peak=draw(words)))
    unique = {one.key: one for one in made}
    return profile(*unique.values(), runs=draw(words))
