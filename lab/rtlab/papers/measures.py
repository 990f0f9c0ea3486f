"""What the papers measured: F, instructions and cycles of each operation, worst cases, Test 4's sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pandas as pd

from rtlab.catalogue import RTMALLOC
from rtlab.papers.definitions import WORST_PROFILES, Paper, Size
from rtlab.papers.loads import Natives, NoMemory
from rtlab.papers.memory_parts import part_jobs
from rtlab.papers.tlsf_ranges import range_jobs, summarize
from rtlab.papers.tlsf_steps import count_steps

AREA = 64 << 20  # bytes; the 2008 paper's is 16 MiB, which some task sets with Half-fit outgrow
STATISTICS = ("mean", "std", "max", "min")
SCALING_BLOCKS = (1 << 12, 1 << 13, 1 << 14)
SWEEP_ALLOCATORS = ("best-fit", "dlmalloc-2.7.2", "tlsf")
RANGE_SEEDS_MOST = 10
SWEEP_SHORTEST, SWEEP_LONGEST = 45, 1400  # 2006, section 4.4


def factor_f(used: float, live: float) -> float:
    """F in percent: the most memory used relative to the most memory live (2006, section 4)."""
    return 100.0 * (used / live - 1.0)


@dataclass
class Measured:
    """`cells`: table, operation, allocator, load, statistic, measured."""

    cells: pd.DataFrame
    costs: pd.DataFrame  # one row an operation: table, allocator, load, operation, value
    spaces: pd.DataFrame  # one row a run: allocator, load, seed, f, peak_live, reached
    over_time: pd.DataFrame  # of seed 1: allocator, load, mallocs, live, reached
    scaling: pd.DataFrame  # worst case by size of the area
    sweep: pd.DataFrame  # Test 4: allocator, server, f
    steps: pd.DataFrame  # of TLSF: tlsf_steps.COLUMNS
    ranges: pd.DataFrame  # of TLSF: tlsf_ranges.COLUMNS
    parts: pd.DataFrame  # of rtmalloc's F: memory_parts.COLUMNS
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    paper: Paper
    size: Size
    loads: dict[str, str]
    allocators: tuple[str, ...]
    instructions: bool
    cycles: bool


def statistics(values: pd.Series) -> dict[str, float]:
    return {"mean": values.mean(), "std": values.std(ddof=0), "max": values.max(), "min": values.min()}


def cells_of(table: str, operation: str, allocator: str, load: str, values: pd.Series) -> Iterator[dict[str, object]]:
    for statistic, value in statistics(values).items():
        yield {
            **{"table": table, "operation": operation, "allocator": allocator, "load": load},
            **{"statistic": statistic, "measured": float(value)},
        }


def space_jobs(plan: Plan, natives: Natives) -> Iterator[tuple[str, Callable[[], pd.DataFrame]]]:
    for load, profile in plan.loads.items():
        for allocator in plan.allocators:
            for seed in range(1, plan.size.f_seeds + 1):

                def job(load=load, profile=profile, allocator=allocator, seed=seed) -> pd.DataFrame:
                    points = max(1, plan.size.f_mallocs // 50) if seed == 1 else 1
                    options = {
                        "seed": seed,
                        "mallocs": plan.size.f_mallocs,
                        "area": AREA,
                        "points": min(points, 20_000),
                    }
                    series = natives.run("taskset", allocator, "space", profile, **options)
                    return series.assign(allocator=allocator, load=load, seed=seed)

                yield f"F, {load}, {allocator}, seed {seed}", job


def cost_jobs(plan: Plan, natives: Natives) -> Iterator[tuple[str, Callable[[], pd.DataFrame]]]:
    kinds = [("count", plan.paper.instructions)] * plan.instructions + [("cycles", plan.paper.cycles)] * plan.cycles
    for measure, table in kinds:
        for load, profile in plan.loads.items():
            for allocator in plan.allocators:
                for seed in range(1, plan.size.cost_seeds + 1):

                    def job(measure=measure, table=table, load=load, profile=profile, allocator=allocator, seed=seed):
                        options = {"seed": seed, "mallocs": plan.size.cost_mallocs, "area": AREA}
                        options |= (
                            {"sample": plan.size.sample} if measure == "count" else {"replicas": plan.size.replicas}
                        )
                        each = natives.run("taskset", allocator, measure, profile, **options).iloc[:, :2]
                        each.columns = ["operation", "value"]
                        return each.assign(table=table, allocator=allocator, load=load)

                    yield f"{measure}, {load}, {allocator}, seed {seed}", job


def worst_case(natives: Natives, allocator: str, blocks: int) -> pd.DataFrame:
    # Binary buddy splits its whole area: as many of its 32-byte blocks, and room for its own structure.
    area = {"area": 32 * blocks + 8192} if allocator == "binary-buddy" else {}
    each = natives.run("worst", allocator, "count", WORST_PROFILES[allocator], blocks=blocks, **area)
    return each.groupby("operation", as_index=False)["instructions"].max().assign(allocator=allocator, blocks=blocks)


def worst_jobs(plan: Plan, natives: Natives) -> Iterator[tuple[str, Callable[[], pd.DataFrame]]]:
    for allocator in [name for name in plan.allocators if name in WORST_PROFILES]:
        for blocks in (*SCALING_BLOCKS, 1 << 15):
            yield f"worst case, {allocator}, {blocks} blocks", lambda a=allocator, b=blocks: worst_case(natives, a, b)


def sweep_jobs(plan: Plan, natives: Natives) -> Iterator[tuple[str, Callable[[], pd.DataFrame]]]:
    """F against the live memory of the same run without a deallocation task: point 0 of the sweep."""
    size = plan.size
    step = (SWEEP_LONGEST - SWEEP_SHORTEST) // max(1, size.sweep_points - 1)
    servers = [0] + [SWEEP_SHORTEST + i * step for i in range(size.sweep_points)]
    for allocator in [name for name in SWEEP_ALLOCATORS if name in plan.allocators]:
        for server in servers if size.sweep_points else []:
            for seed in range(1, size.sweep_seeds + 1):

                def job(allocator=allocator, server=server, seed=seed) -> pd.DataFrame:
                    options = {"seed": seed, "set_seed": 1, "mallocs": min(size.f_mallocs, 50_000), "server": server}
                    last = natives.run("taskset", allocator, "space", "2006-test-4", **options).tail(1)
                    return last.assign(allocator=allocator, server=server, seed=seed)

                yield f"Test 4, {allocator}, period {server}, seed {seed}", job


def step_jobs(plan: Plan, natives: Natives) -> Iterator[tuple[str, Callable[[], pd.DataFrame]]]:
    if plan.paper.steps and "tlsf" in plan.allocators:
        yield "steps of TLSF", lambda: count_steps(natives)


def tlsf_range_jobs(plan: Plan, natives: Natives) -> Iterator[tuple[str, Callable[[], pd.DataFrame]]]:
    if plan.paper.ranges and "tlsf" in plan.allocators:
        yield from range_jobs(natives, min(plan.size.f_seeds, RANGE_SEEDS_MOST))


def memory_part_jobs(plan: Plan, natives: Natives) -> Iterator[tuple[str, Callable[[], pd.DataFrame]]]:
    if plan.paper.parts and {"tlsf", RTMALLOC} <= set(plan.allocators):
        yield from part_jobs(natives, plan.loads)


def with_f(runs: pd.DataFrame) -> pd.DataFrame:
    return runs.assign(f=factor_f(runs["reached"], runs["peak_live"]))


def sweep_f(runs: pd.DataFrame) -> pd.DataFrame:
    if runs.empty:
        return pd.DataFrame(columns=["allocator", "server", "f"])
    explicit = runs[runs["server"] == 0].set_index(["allocator", "seed"])["peak_live"].rename("reference")
    joined = runs.join(explicit, on=["allocator", "seed"])
    joined["f"] = factor_f(joined["reached"], joined["reference"])
    return joined.groupby(["allocator", "server"], as_index=False)["f"].mean()


def measure(plan: Plan, natives: Natives, progress: Callable[[str, int, int], None]) -> Measured:
    """Runs everything; what did not fit into its area is named in `failures` and left out of the averages."""
    groups = {
        **{"space": space_jobs, "cost": cost_jobs, "worst": worst_jobs, "sweep": sweep_jobs, "steps": step_jobs},
        **{"ranges": tlsf_range_jobs, "parts": memory_part_jobs},
    }
    jobs = [(group, *job) for group, make in groups.items() for job in make(plan, natives)]
    if not plan.instructions:
        jobs = [job for job in jobs if job[0] not in ("worst", "steps")]
    frames: dict[str, list[pd.DataFrame]] = {group: [] for group in groups}
    failures = []
    for done, (group, text, job) in enumerate(jobs):
        progress(text, done, len(jobs))
        try:
            frames[group].append(job())
        except NoMemory as full:
            failures.append(f"{text}: X, {full}")
    progress("done", len(jobs), len(jobs))
    return assemble(
        plan, {group: pd.concat(found) if found else pd.DataFrame() for group, found in frames.items()}, failures
    )


def assemble(plan: Plan, frames: dict[str, pd.DataFrame], failures: list[str]) -> Measured:
    cells: list[dict[str, object]] = []
    series = frames["space"]
    last = with_f(series.groupby(["load", "allocator", "seed"], as_index=False, sort=False).last())
    for (load, allocator), runs in last.groupby(["load", "allocator"], sort=False):
        cells += cells_of(plan.paper.fragmentation, "F", allocator, load, runs["f"])
    costs = frames["cost"]
    if not costs.empty:
        for (table, load, allocator, operation), group in costs.groupby(
            ["table", "load", "allocator", "operation"], sort=False
        ):
            cells += cells_of(table, operation, allocator, load, group["value"])
    worst = frames["worst"]
    if not worst.empty:
        for row in worst[worst["blocks"] == 1 << 15].itertuples():
            cells.append(
                {
                    **{"table": plan.paper.worst, "operation": row.operation, "allocator": row.allocator},
                    **{"load": "worst", "statistic": "max", "measured": float(row.instructions)},
                }
            )
    return Measured(
        cells=pd.DataFrame(cells),
        costs=costs,
        spaces=last,
        over_time=series[series["seed"] == 1],
        scaling=worst,
        sweep=sweep_f(frames["sweep"]),
        steps=frames["steps"],
        ranges=summarize(frames["ranges"]),
        parts=frames["parts"],
        failures=failures,
    )
