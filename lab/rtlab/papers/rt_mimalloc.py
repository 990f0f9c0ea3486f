"""`rtlab paper rt-mimalloc`: the tables of RT-Mimalloc (Giannessi, Biondi, Biasci 2023) made again.

IV and VI (instructions of each function on the synthetic load) are exact. I, II, VII to X (time and memory of
benchmarks) are ratios to mimalloc 1.7 within one run, here as in the paper. Rows of rtmalloc stand beside them.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
from rich.console import Console

from rtlab.allocators import Allocator, find_allocators, what_to_do
from rtlab.bench import Options, find_entries
from rtlab.catalogue import GLIBC, RTMALLOC
from rtlab.entries import Entry
from rtlab.environment import describe
from rtlab.measuring import Run, measure
from rtlab.mistakes import Mistake, choose
from rtlab.native import Native, ensure_native
from rtlab.page import Cell, PageTable, number, write_page
from rtlab.places import Places
from rtlab.profiled import MODES, loading, recording
from rtlab.tables import on_terminal

NAME = "rt-mimalloc"
TITLE = "RT-Mimalloc: a new look at dynamic memory allocation for real-time systems (Giannessi et al. 2023)"
REFERENCE = "mimalloc-1.7"
RECORDINGS_MOST = 5
STATISTICS = ("max", "min", "mean", "variance", "calls")
# Tables I and VII, II and VIII, IX, X: which benchmarks, by our names.
REAL_WORLD = ("cfrac", "espresso", "redis", "larson_sized", "larson", "ghostscript", "lua")
STRESS = (
    *("alloc_test1", "alloc_testN", "glibc_simple", "glibc_thread", "sh6bench", "sh8bench"),
    *("xmalloc_test", "cache_scratch1", "cache_scratchN", "db_bench"),
)
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
SYNTHETIC = ("--mallocs", "18003", "--hold", "128")


@dataclass(frozen=True)
class Variant:
    """An allocator in one setting. `profiled`: of those in rtlab.profiled, with a profile."""

    name: str
    allocator: Allocator
    profiled: bool = False

    def recorder(self, profile: Path) -> Allocator:
        return replace(self.allocator, environment=recording(self.name, profile))

    def ready(self, profile: Path) -> Allocator:
        """What is measured."""
        if not self.profiled:
            return self.allocator
        return replace(self.allocator, environment=loading(self.name, profile, profile.with_suffix(".json")))


def variants(places: Places, say: Callable[[str], None]) -> list[Variant]:
    """Every one that is there; what is missing is said."""
    found = find_allocators(places)
    wanted = (REFERENCE, GLIBC, "jemalloc", "rpmalloc", "snmalloc", "tcmalloc")
    for name in (*wanted, RTMALLOC):
        if name not in found:
            say(f"[yellow]{what_to_do(places, name)} Its rows are left out.")
    there = [Variant(name, found[name]) for name in wanted if name in found]
    folder = places.build / "algorithms"

    def ours(name: str, file: str) -> Allocator:
        if not (folder / file).is_file():
            raise Mistake(f"{name} is not built: {folder / file} does not exist. Run 'make' first.")
        return Allocator(name, folder / file, "this tree", f"build/algorithms/{file}")

    area = {"ALGORITHM_AREA": str(4 << 30)}
    there.append(Variant("tlsf", replace(ours("tlsf", "libtlsf-preload.so"), environment=area)))
    there.append(Variant("rt-mimalloc-original", ours("rt-mimalloc-original", "librt-mimalloc-original.so")))
    for setting in ("seg", "pag"):
        library = ours(f"rt-mimalloc-{setting}", f"librt-mimalloc-{setting}.so")
        there.append(Variant(f"rt-mimalloc-{setting}", library, profiled=True))
        there.append(Variant(f"rt-mimalloc-{setting}-bare", replace(library, name=f"{library.name}-bare")))
    if RTMALLOC in found:
        there.append(Variant("rtmalloc-general", found[RTMALLOC]))
        there += [Variant(name, found[RTMALLOC], profiled=True) for name in MODES]
    return there


# ---- instructions ----


def count(places: Places, variant: Variant, mallocs: int | None, folder: Path) -> Iterator[dict[str, object]]:
    """The rows of Tables IV and VI for one variant; of allocators that are not ours, malloc and free alone."""
    steps = places.build / "steps"
    load = [str(steps / "synthetic"), *SYNTHETIC]
    if mallocs:
        load[load.index("--mallocs") + 1] = str(mallocs)
    profile, functions, operations = folder / variant.name, folder / "functions.csv", folder / "each.csv"
    library = str(variant.allocator.library)
    if variant.profiled:
        settings = {**os.environ, "LD_PRELOAD": library, **variant.recorder(profile).environment}
        subprocess.run(load, env=settings, check=True, capture_output=True)
    command = [str(steps / "stepcount"), "--preload", library, "--each", str(operations), "--functions", str(functions)]
    environment = {**os.environ, **variant.ready(profile).environment}
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
                **{"table": "IV" if variant.name == "rt-mimalloc-original" else "VI", "operation": function},
                **{"allocator": variant.name, "load": "synthetic", "statistic": statistic, "measured": float(value)},
            }


# ---- time and memory ----


def recorded(native: Native, entry: Entry, variant: Variant, profile: Path, limit_s: int) -> str:
    """Records until the profile stays as it is (the paper's section VII); 'ok' or why not."""
    before = b""
    for _ in range(RECORDINGS_MOST):
        run = measure(native, entry, variant.recorder(profile), limit_s)
        if run.status != "ok" or not profile.is_file():
            return run.status if run.status != "ok" else "X no profile"
        if profile.read_bytes() == before:
            break
        before = profile.read_bytes()
    return "ok"


def runs_of(
    native: Native,
    entry: Entry,
    chosen: list[Variant],
    rounds: int,
    folder: Path,
    limit_s: int,
    step: Callable[[str], None],
) -> Iterator[tuple[Variant, Run | str]]:
    """Interleaved: each round runs every variant once."""
    failed: dict[str, str] = {}
    for variant in chosen:
        if variant.profiled:
            step(f"{entry.name}, {variant.name}, recording")
            status = recorded(native, entry, variant, folder / f"{entry.name}-{variant.name}", limit_s)
            if status != "ok":
                failed[variant.name] = status
    for number_of_round in range(rounds):
        for variant in chosen:
            step(f"{entry.name}, {variant.name}, round {number_of_round + 1}")
            if variant.name in failed:
                yield variant, failed[variant.name]
                continue
            run = measure(native, entry, variant.ready(folder / f"{entry.name}-{variant.name}"), limit_s)
            if run.status != "ok":
                failed[variant.name] = run.status
            yield variant, run if run.status == "ok" else run.status


def benchmark_cells(runs: pd.DataFrame) -> pd.DataFrame:
    """Ratios to the reference in the same round, their median over the rounds; table VII to X by benchmark."""
    keys = ["load", "round"]
    reference = runs[runs["allocator"] == REFERENCE].set_index(keys)[["time", "memory"]].add_suffix("_reference")
    joined = runs.join(reference, on=keys)
    cells = []
    for (load, allocator), group in joined.groupby(["load", "allocator"], sort=False):
        tables = ("VII", "IX") if load in REAL_WORLD else ("VIII", "X")
        for operation, table in zip(("time", "memory"), tables, strict=True):
            ratio = (group[operation] / group[f"{operation}_reference"]).median()
            key = {"table": table, "operation": operation, "allocator": allocator, "load": load}
            cells.append({**key, "statistic": "ratio", "measured": ratio})
    return pd.DataFrame(cells)


def published() -> pd.DataFrame:
    """The paper's values; those of time and memory as ratios to its Mimalloc. I and II, VII and VIII share rows."""
    values = pd.read_csv(Path(__file__).with_name(f"{NAME}.csv")).rename(columns={"value": "published"})
    values["table"] = values["table"].replace({"I": "VII", "II": "VIII"})
    values = values.drop_duplicates(["table", "operation", "allocator", "load", "statistic"])
    timed = values["operation"].isin(["time", "memory"])
    keys = ["table", "load"]
    reference = values[timed & (values["allocator"] == REFERENCE)].set_index(keys)["published"].rename("reference")
    ratios = values[timed].join(reference, on=keys)
    ratios["published"] = ratios["published"] / ratios["reference"]
    ratios["statistic"] = "ratio"
    return pd.concat([values[~timed], ratios.drop(columns="reference")], ignore_index=True)


def beside_published(cells: pd.DataFrame) -> pd.DataFrame:
    """Adds published and difference in percent."""
    joined = cells.merge(published(), how="left", on=["table", "operation", "allocator", "load", "statistic"])
    joined["difference"] = 100.0 * (joined["measured"] / joined["published"] - 1.0)
    return joined


# ---- reports ----

TITLES = {
    "IV": "Table IV: instructions of each function, original; here (published)",
    "VI": "Table VI: instructions of each function; here (published)",
    "VII": "Tables I and VII: time, ratio to mimalloc 1.7; here (published)",
    "VIII": "Tables II and VIII: time, ratio to mimalloc 1.7; here (published)",
    "IX": "Table IX: peak memory, ratio to mimalloc 1.7; here (published)",
    "X": "Table X: peak memory, ratio to mimalloc 1.7; here (published)",
}


def page_table(cells: pd.DataFrame, table: str) -> PageTable:
    """One row a function and allocator (IV, VI), or an allocator; the columns are statistics, or benchmarks."""
    chosen = cells[cells["table"] == table]
    counted = table in ("IV", "VI")
    column, names = ("statistic", ["operation", "allocator"]) if counted else ("load", ["allocator"])
    columns = list(dict.fromkeys(chosen[column]))
    rows = []
    for key, group in chosen.groupby(names, sort=False):
        row = [Cell(str(name), "name") for name in key]
        for heading in columns:
            found = group[group[column] == heading]
            digits = 2 if not counted or heading in ("mean", "variance") else 0
            text = "X" if found.empty else number(found["measured"].iloc[0], digits)
            known = not found.empty and found["published"].notna().iloc[0]
            row.append(Cell(f"{text} ({number(found['published'].iloc[0], digits)})" if known else text))
        rows.append(row)
    return PageTable(TITLES[table], [*(["function"] if counted else []), "allocator", *columns], rows)


@dataclass(frozen=True)
class Plan:
    allocators: str | None
    loads: str | None
    full: bool
    rounds: int | None
    mallocs: int | None
    instructions: bool
    benchmarks: bool
    out: Path | None


def run_rt_mimalloc(places: Places, plan: Plan, console: Console) -> int:
    there = variants(places, console.print)
    names = [variant.name for variant in there]
    chosen = [variant for variant in there if variant.name in choose("allocator", plan.allocators, names, names)]
    loads = choose("load", plan.loads, (*REAL_WORLD, *STRESS), (*REAL_WORLD, *STRESS)) if plan.benchmarks else []
    if loads and REFERENCE not in [variant.name for variant in chosen]:
        raise Mistake(
            f"Time and memory are ratios to {REFERENCE}, which is not among the allocators; --no-cycles: without."
        )
    out = (plan.out or places.build / "paper-tables" / NAME).resolve()
    out.mkdir(parents=True, exist_ok=True)
    scale, rounds, limit_s = (1.0, plan.rounds or 7, 600) if plan.full else (0.1, plan.rounds or 1, 120)
    cells: list[dict[str, object]] = []
    runs: list[dict[str, object]] = []
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="rtlab-") as name, console.status("") as status:
        folder = Path(name)
        for variant in chosen if plan.instructions else []:
            if variant.allocator.library is not None:
                status.update(f"instructions, {variant.name}")
                cells += count(places, variant, plan.mallocs, folder)
        threads = max(2, os.cpu_count() or 2)
        quick = not plan.full
        options = Options(None, None, rounds, scale, threads, limit_s, out, install=False, quick=quick, fresh=True)
        native = ensure_native(places)
        for entry in find_entries(places, loads, options) if loads else []:
            if not isinstance(entry, Entry):
                failures.append(f"{entry.name}: {entry.reason}")
                continue
            seen: dict[str, int] = {}
            for variant, run in runs_of(native, entry, chosen, rounds, folder, limit_s, status.update):
                if isinstance(run, str):
                    failures.append(f"{entry.name}, {variant.name}: {run}")
                    continue
                seen[variant.name] = seen.get(variant.name, -1) + 1
                time_s = run.cpu_s if entry.time == "cpu" else run.wall_s
                key = {"load": entry.name, "allocator": variant.name, "round": seen[variant.name]}
                runs.append({**key, "time": time_s, "memory": run.peak_mib})
    frames = [pd.DataFrame(cells)] if cells else []
    if runs:
        frames.append(benchmark_cells(pd.DataFrame(runs)))
        pd.DataFrame(runs).to_csv(out / "runs.csv", index=False)
    if not frames:
        raise Mistake(
            "Nothing was measured: " + ("; ".join(failures) or "neither instructions nor benchmarks are wanted.")
        )
    compared = beside_published(pd.concat(frames, ignore_index=True))
    compared.to_csv(out / "cells.csv", index=False, float_format="%.4f")
    tables = [page_table(compared, table) for table in TITLES if table in set(compared["table"])]
    for table in tables:
        console.print(on_terminal(table))
    for failure in dict.fromkeys(failures):
        console.print(f"[yellow]X {failure}")
    environment = describe(
        [variant.allocator for variant in chosen], {"plan": str(plan), "scale": scale, "rounds": rounds}
    )
    summary = "Exact counts of instructions; time and memory as ratios to mimalloc 1.7 in the same run."
    (out / "environment.json").write_text(json.dumps(environment, indent=2, default=str) + "\n")
    page = write_page(
        out / "page.html",
        title=TITLE,
        summary=[summary],
        data="cells.csv",
        tables=tables,
        figures={},
        failures=list(dict.fromkeys(failures)),
        failures_title="Did not run",
        environment=environment,
    )
    console.print(f"Page, with every cell: {page}", soft_wrap=True)
    return 0
