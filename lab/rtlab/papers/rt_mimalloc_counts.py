"""Instructions of each function of RT-Mimalloc on the synthetic load (Tables IV and VI), counted by stepcount."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

from rtlab.allocators import Allocator
from rtlab.mistakes import Mistake
from rtlab.papers.rt_mimalloc_times import SYNTHETIC
from rtlab.papers.rt_mimalloc_variants import ORIGINAL, profile_of, ready
from rtlab.places import Places
from rtlab.profiled import PROFILED, recording

STATISTICS = ("max", "min", "mean", "variance", "calls")
# The paper's function, without mi_, to the name in algorithms/rt_mimalloc.
FUNCTIONS = {
    "segment_alloc": "rtmi_segment_alloc",
    "heap_collect_retired": "rtmi_heap_collect_retired",
    "malloc": "malloc",
    "page_free_list_extend": "page_free_list_extend",
    "segment_find_free": "rtmi_segment_find_free",
    "page_queue_push": "rtmi_page_queue_push",
    "page_queue_remove": "rtmi_page_queue_remove",
    "segment_free": "rtmi_segment_free",
    "free": "free",
}
# 18003 requests as in the paper, held so long that small pages become full, which the paper's counts of calls show.
SYNTHETIC_LOAD = ("--mallocs", "18003", "--hold", "128")


def synthetic_load(places: Places, mallocs: int | None) -> list[str]:
    load = [str(places.build / "steps" / "synthetic"), *SYNTHETIC_LOAD]
    if mallocs:
        load[load.index("--mallocs") + 1] = str(mallocs)
    return load


def count(places: Places, allocator: Allocator, mallocs: int | None, folder: Path) -> Iterator[dict[str, object]]:
    """The rows of Tables IV and VI for one allocator; of those that are not ours, malloc and free alone."""
    load = synthetic_load(places, mallocs)
    profile, functions, operations = (
        profile_of(folder, "count", allocator),
        folder / "functions.csv",
        folder / "each.csv",
    )
    if allocator.name in PROFILED:
        recorder = recording(allocator, profile)
        settings = {**os.environ, "LD_PRELOAD": str(recorder.library), **recorder.environment}
        subprocess.run(load, env=settings, check=True, capture_output=True)
    stepcount = [str(places.build / "steps" / "stepcount"), "--preload", str(allocator.library)]
    command = [*stepcount, "--each", str(operations), "--functions", str(functions)]
    environment = {**os.environ, **ready(allocator, profile).environment}
    done = subprocess.run([*command, "--", *load], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Mistake(f"Instructions cannot be counted: {done.stderr.strip()}. Leave them out: --no-instructions.")
    each = pd.read_csv(operations).rename(columns={"operation": "function"})  # malloc may have another name inside
    calls = pd.concat([each, pd.read_csv(functions).query("function not in ['malloc', 'free']")])
    groups = calls.groupby("function")["instructions"]
    for function, name in FUNCTIONS.items():
        if name not in groups.groups:
            continue
        values = groups.get_group(name)
        figures = (values.max(), values.min(), values.mean(), values.var(ddof=0), len(values))
        for statistic, value in zip(STATISTICS, figures, strict=True):
            yield {
                **{"table": "IV" if allocator.name == ORIGINAL else "VI", "operation": function},
                **{"allocator": allocator.name, "load": SYNTHETIC, "statistic": statistic, "measured": float(value)},
            }


def counted(
    places: Places, allocator: Allocator, mallocs: int | None, folder: Path, say: Callable[[str], None]
) -> list[dict[str, object]]:
    """As count; kept for the next call if this one is interrupted."""
    kept = folder / f"count-{allocator.name}.json"
    if not kept.is_file():
        say(f"instructions, {allocator.name}")
        kept.write_text(json.dumps(list(count(places, allocator, mallocs, folder))))
    return json.loads(kept.read_text())
