"""`rtlab paper NAME`: plan, measure, compare, report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from rtlab.environment import describe
from rtlab.mistakes import Mistake, choose, unknown_name
from rtlab.papers import pool, rt_mimalloc
from rtlab.papers.beside import BESIDE, absent
from rtlab.papers.compare import compare
from rtlab.papers.definitions import PAPERS, STAND_INS, Paper, Size
from rtlab.papers.figures import make_figures
from rtlab.papers.loads import Natives, ensure_natives
from rtlab.papers.measures import Measured, Plan, measure
from rtlab.papers.memory_parts import terminal_parts
from rtlab.papers.report import mean_table, summary_of, terminal_steps, titles, write_report
from rtlab.places import Places


@dataclass(frozen=True)
class PaperOptions:
    paper: str
    allocators: str | None
    loads: str | None
    full: bool
    drawn: bool
    seeds: int | None
    mallocs: int | None
    instructions: bool
    cycles: bool
    out: Path | None


def size_of(paper: Paper, options: PaperOptions) -> Size:
    size = paper.full if options.full else paper.short
    if options.seeds:
        size = replace(size, f_seeds=options.seeds, cost_seeds=options.seeds, sweep_seeds=options.seeds)
    if options.mallocs:
        sample = 1 if options.full else max(1, options.mallocs // 700)
        size = replace(size, f_mallocs=options.mallocs, cost_mallocs=options.mallocs, sample=sample)
    return size


def plan_of(options: PaperOptions) -> Plan:
    if options.paper not in PAPERS:
        raise unknown_name("paper", options.paper, [*PAPERS, rt_mimalloc.NAME, pool.NAME])
    paper = PAPERS[options.paper]
    profiles = paper.drawn if options.drawn else paper.loads
    chosen = choose("load", options.loads, profiles, profiles)
    known = (*paper.allocators, *(name for name in BESIDE if STAND_INS.get(name) in (None, *paper.allocators)))
    return Plan(
        paper=paper,
        size=size_of(paper, options),
        loads={load: profiles[load] for load in chosen},
        allocators=tuple(choose("allocator", options.allocators, known, known)),
        instructions=options.instructions,
        cycles=options.cycles,
    )


def without_absent(places: Places, plan: Plan, natives: Natives, options: PaperOptions, console: Console) -> Plan:
    """The plan less what is not there, which is said; an error if it was asked for by name."""
    missing = {name: why for name, why in absent(places, natives.beside).items() if name in plan.allocators}
    if missing and options.allocators:
        raise Mistake("\n".join(missing.values()))
    for why in missing.values():
        console.print(f"[yellow]{why} Its rows are left out.")
    return replace(plan, allocators=tuple(name for name in plan.allocators if name not in missing))


def measured_with_progress(plan: Plan, natives, console: Console) -> Measured:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        return measure(
            plan, natives, lambda text, done, of: bar.update(task, description=text, completed=done, total=of)
        )


def run_paper(places: Places, options: PaperOptions, console: Console) -> int:
    if options.paper == rt_mimalloc.NAME:
        chosen = (options.allocators, options.loads, options.full, options.seeds, options.mallocs)
        plan = rt_mimalloc.Plan(*chosen, options.instructions, options.cycles, options.out)
        return rt_mimalloc.run_rt_mimalloc(places, plan, console)
    if options.paper == pool.NAME:
        of_pool = (options.allocators, options.loads, options.full, options.seeds, options.mallocs, options.out)
        return pool.run_pool(places, pool.Plan(*of_pool), console)
    plan = plan_of(options)
    natives = ensure_natives(places)
    plan = without_absent(places, plan, natives, options, console)
    measured = measured_with_progress(plan, natives, console)
    cells = compare(plan.paper, measured.cells)
    out = (options.out or places.build / "paper-tables" / plan.paper.name).resolve()
    environment = describe([], {"size": vars(plan.size), "loads": plan.loads, "allocators": plan.allocators})
    environment["seeds"] = f"1 to {plan.size.f_seeds} (F), 1 to {plan.size.cost_seeds} (instructions, cycles)"
    page = write_report(out, plan.paper, cells, measured, make_figures(plan, measured, natives), environment)
    for table in titles(plan.paper):
        if table in set(cells["table"]):
            console.print(mean_table(plan.paper, cells, table))
    if len(measured.steps):
        console.print(terminal_steps(measured))
    if len(measured.parts):
        console.print(terminal_parts(measured.parts))
    for failure in measured.failures:
        console.print(f"[yellow]{failure}")
    for line in summary_of(cells, measured):
        console.print(line)
    console.print(f"Page, with every cell and the figures: {page}", soft_wrap=True)
    return 0
