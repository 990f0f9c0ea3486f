"""The allocators of RT-Mimalloc's paper, in their settings, and rtmalloc's beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rtlab.allocators import Allocator, bare
from rtlab.catalogue import BARE, GLIBC, MODES, RTMALLOC
from rtlab.places import Places
from rtlab.profiled import PROFILED, loading
from rtlab.traces.contenders import TALLOC, find_contenders, why_absent

REFERENCE = "mimalloc-1.7"
GENERAL_PURPOSE = (REFERENCE, GLIBC, "hoard", "jemalloc", "rpmalloc", "snmalloc", "tcmalloc")
TLSF, TLSF_PROFILE = "tlsf", "tlsf-profile"
ORIGINAL = "rt-mimalloc-original"
SEG, PAG = "rt-mimalloc-seg", "rt-mimalloc-pag"
OURS = f"{RTMALLOC}-general"
PEAK_LIVE = 256 << 20  # of the benchmarks, for TLSF's area

# Section IV-B: what Figure 2 shows, and the figures' order of the paper's variants (section VII).
FIGURE_2 = (*GENERAL_PURPOSE, TLSF, OURS)
PREPARED = (PAG, SEG)
UNPREPARED = tuple(name + BARE for name in PREPARED)
OUR_MODES = (OURS, *MODES, *(name + BARE for name in MODES))
FIGURES_9_AND_10 = (REFERENCE, *PREPARED, *UNPREPARED, TALLOC, TLSF, TLSF_PROFILE, *OUR_MODES)


def variants(places: Places, say: Callable[[str], None]) -> list[Allocator]:
    """Every one that is there, in the tables' order; what is missing is said."""
    found = find_contenders(places, PEAK_LIVE)
    wanted = (*GENERAL_PURPOSE, TLSF, TLSF_PROFILE, TALLOC, ORIGINAL, SEG, PAG, RTMALLOC, *MODES)
    there = []
    for name in wanted:
        if name not in found:
            say(f"[yellow]{why_absent(places, name)} Its rows are left out.")
            continue
        there.append(replace(found[name], name=OURS) if name == RTMALLOC else found[name])
        if name in (*PREPARED, *MODES):
            there.append(bare(found[name]))
    return there


def profile_of(folder: Path, load: str, allocator: Allocator) -> Path:
    return folder / f"{load}-{allocator.name}.profile"


def ready(allocator: Allocator, profile: Path) -> Allocator:
    """What is measured."""
    return loading(allocator, profile, profile.with_suffix(".json")) if allocator.name in PROFILED else allocator
