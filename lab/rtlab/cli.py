"""The command `rtlab`: one function per subcommand, which checks its options and hands over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rtlab.bench import ENTRY_NAMES, Options
from rtlab.bench import bench as run_bench
from rtlab.catalogue import ALLOCATOR_NAMES, GLIBC, PEER_NAMES
from rtlab.demo import demo as run_demo
from rtlab.mistakes import Mistake, choose
from rtlab.papers.definitions import PAPERS
from rtlab.peers import get_peers
from rtlab.places import find_places
from rtlab.realtime_demo import realtime_demo
from rtlab.tables import peers_table, reason_in_short

app = typer.Typer(
    help="Measures rtmalloc beside other allocators.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console()
complaints = Console(stderr=True, highlight=False)

QUICK_RUNS, FULL_RUNS = 3, 7
QUICK_SCALE, FULL_SCALE = 0.3, 1.0


@app.command()
def peers(
    only: Annotated[str | None, typer.Option(help="Only these, separated by commas.")] = None,
    install: Annotated[bool, typer.Option(help="Install missing Debian packages with apt-get.")] = True,
    verbose: Annotated[bool, typer.Option(help="Show the whole output of builds that failed.")] = False,
) -> None:
    """Get and build every peer as build/peers/NAME.so, and say what is there."""
    known = (GLIBC, *PEER_NAMES)
    names = choose("peer", only, known, known)
    states = get_peers(find_places(), names, install, console.print)
    console.print(peers_table(states))
    for state in states:
        if state.reason and (verbose or state.reason != reason_in_short(state.reason)):
            shown = state.reason if verbose else f"{reason_in_short(state.reason)} (--verbose shows all)"
            complaints.print(f"{state.name}: {shown}", markup=False)


@app.command()
def bench(
    allocators: Annotated[
        str | None,
        typer.Option(help=f"Names separated by commas, of {', '.join(ALLOCATOR_NAMES)}."),
    ] = None,
    loads: Annotated[str | None, typer.Option(help=f"Loads and programs, of {', '.join(ENTRY_NAMES)}.")] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Rounds [default: 7, quick: 3].")] = None,
    scale: Annotated[
        float | None,
        typer.Option(min=0.01, max=1000, help="Amount of work [default: 1, quick: 0.3]."),
    ] = None,
    threads: Annotated[int, typer.Option(min=2, max=256, help="Threads of the threaded loads.")] = max(
        2, os.cpu_count() or 2
    ),
    timeout: Annotated[int, typer.Option(min=1, help="Seconds that one run may take.")] = 120,
    out: Annotated[Path | None, typer.Option(help="Folder for results [default: build/bench].")] = None,
    install: Annotated[bool, typer.Option(help="Install programs that are missing (apt-get).")] = False,
    quick: Annotated[bool, typer.Option(help="Fewer allocators, runs and less work.")] = False,
    fresh: Annotated[bool, typer.Option(help="Do not go on where an interrupted call stopped.")] = False,
) -> None:
    """Measure time and peak memory of loads and real programs, in interleaved runs."""
    places = find_places()
    options = Options(
        allocators=allocators,
        loads=loads,
        runs=runs or (QUICK_RUNS if quick else FULL_RUNS),
        scale=scale or (QUICK_SCALE if quick else FULL_SCALE),
        threads=threads,
        limit_s=timeout,
        out=(out or places.bench).resolve(),
        install=install,
        quick=quick,
        fresh=fresh,
    )
    raise typer.Exit(run_bench(places, options, console))


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(min=5, max=600, help="How long the programs may take.")] = 50.0,
) -> None:
    """Show a real program on the allocators that are here, then a control loop recorded and sealed: two minutes."""
    run_demo(find_places(), console, seconds)
    realtime_demo(find_places(), console)


@app.command()
def paper(
    name: Annotated[str, typer.Argument(help=f"Which paper: {', '.join(PAPERS)}, rt-mimalloc, pool.")],
    allocators: Annotated[str | None, typer.Option(help="Only these, separated by commas.")] = None,
    loads: Annotated[str | None, typer.Option(help="Only these tests, profiles, programs or sources.")] = None,
    full: Annotated[bool, typer.Option(help="As many mallocs and seeds as the paper, each one counted: days.")] = False,
    drawn: Annotated[bool, typer.Option(help="2006: draw every task set, in place of those that it prints.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, max=1000, help="Seeds; rt-mimalloc, pool: rounds.")] = None,
    mallocs: Annotated[int | None, typer.Option(min=100, help="Mallocs of a run; pool: acquisitions.")] = None,
    instructions: Annotated[bool, typer.Option(help="Count instructions (needs ptrace).")] = True,
    cycles: Annotated[bool, typer.Option(help="Measure cycles; rt-mimalloc: time and memory.")] = True,
    out: Annotated[Path | None, typer.Option(help="Folder for results [default: build/paper-tables/NAME].")] = None,
) -> None:
    """Make a paper's tables and figures again, each cell beside the published value."""
    from rtlab.papers.command import PaperOptions, run_paper  # matplotlib takes a second to load

    options = PaperOptions(name, allocators, loads, full, drawn, seeds, mallocs, instructions, cycles, out)
    raise typer.Exit(run_paper(find_places(), options, console))


@app.command()
def replay(
    trace: Annotated[Path, typer.Argument(help="A trace that 'rtmalloc trace record' made.")],
    allocators: Annotated[str | None, typer.Option(help="Only these, separated by commas.")] = None,
    runs: Annotated[int, typer.Option(min=1, max=100, help="Runs on each allocator, voted.")] = 5,
    timeout: Annotated[int, typer.Option(min=1, help="Seconds that one run may take.")] = 120,
    out: Annotated[Path | None, typer.Option(help="Folder for results [default: build/replays/NAME].")] = None,
    fresh: Annotated[bool, typer.Option(help="Measure again what an earlier call has measured.")] = False,
) -> None:
    """Play a recorded trace on any allocator, and time each operation."""
    from rtlab.traces.replay_command import ReplayOptions, replay

    options = ReplayOptions(trace, allocators, runs, timeout, out, fresh)
    raise typer.Exit(replay(find_places(), options, console))


@app.command()
def compare(
    cmd: Annotated[str, typer.Option(help="The program with its arguments, quoted as one word.")],
    allocators: Annotated[str | None, typer.Option(help="Only these, separated by commas.")] = None,
    runs: Annotated[int, typer.Option(min=1, max=100, help="Runs of the whole program on each allocator.")] = 5,
    replays: Annotated[int, typer.Option(min=1, max=100, help="Replays of its trace on each allocator, voted.")] = 3,
    timeout: Annotated[int, typer.Option(min=1, help="Seconds that one run may take.")] = 120,
    out: Annotated[Path | None, typer.Option(help="Folder for results [default: build/compare/NAME].")] = None,
    fresh: Annotated[bool, typer.Option(help="Record and measure again what an earlier call has done.")] = False,
) -> None:
    """Which allocator suits my program? Records it, replays it on all, runs it on all, recommends."""
    from rtlab.traces.compare_command import CompareOptions, compare

    options = CompareOptions(cmd, allocators, runs, replays, timeout, out, fresh)
    raise typer.Exit(compare(find_places(), options, console))


@app.command()
def report(
    folder: Annotated[Path | None, typer.Argument(help="What bench, replay or compare wrote.")] = None,
) -> None:
    """Make the page of a run again, from its raw data [default: that of build/bench]."""
    from rtlab.report_command import report

    raise typer.Exit(report(find_places(), folder, console))


@app.command()
def results(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="What paper or bench wrote [default: in build/].")
    ] = None,
    out: Annotated[Path, typer.Option(help="The Markdown file.")] = Path("docs/results.md"),
) -> None:
    """Make the documents' page of results, with date, machine and command of each."""
    from rtlab.results_page import results

    raise typer.Exit(results(find_places(), folders or [], out, console))


def main() -> None:
    try:
        app()
    except Mistake as mistake:
        complaints.print(f"rtlab: {mistake}", markup=False)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        complaints.print("rtlab: interrupted")
        raise SystemExit(130) from None
