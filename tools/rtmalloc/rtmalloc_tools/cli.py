"""The command `rtmalloc`: one function per subcommand, which checks its options and hands over."""

from __future__ import annotations

import errno
import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rtmalloc_tools import cli_profile, cli_trace
from rtmalloc_tools.bound import command as bound_command
from rtmalloc_tools.check import command as check_command
from rtmalloc_tools.files import named_path
from rtmalloc_tools.mistakes import Mistake, reason_of
from rtmalloc_tools.places import find_library
from rtmalloc_tools.run import record as recording
from rtmalloc_tools.run import start
from rtmalloc_tools.run.record import HEADROOM, LIMIT, RUNS
from rtmalloc_tools.shares import share
from rtmalloc_tools.suggestions import SuggestingGroup

app = typer.Typer(
    help="Real-time memory allocation: run programs, record profiles, prove bounds, check the machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    cls=SuggestingGroup,
)
app.add_typer(cli_profile.app, name="profile")
app.add_typer(cli_trace.app, name="trace")

Library = Annotated[
    Path | None, typer.Option(help="librtmalloc.so.", show_default="this checkout's build, else installed")
]
Command = Annotated[list[str], typer.Argument(metavar="-- CMD...", help="The program and its arguments.")]


@app.command()
def bound(
    library: Library = None,
    profile: Annotated[Path | None, typer.Option(help="A profile: adds the most memory its program can need.")] = None,
    observed: Annotated[Path | None, typer.Option(help="JSON list of {mode, operation, kind, observed}.")] = None,
    only: Annotated[str | None, typer.Option(help="Rows, as general/malloc/page or a part of it.")] = None,
    path: Annotated[
        str | None, typer.Option(help="Print the longest path of a row, as malloc/pag or pag/malloc/page.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write the certificate as a page to hand to an auditor.")] = None,
    paths: Annotated[Path | None, typer.Option(help="Another list of rows than the package's.", hidden=True)] = None,
) -> None:
    """Prove the most instructions that each operation can execute, from the library's machine code."""
    request = bound_command.Request(find_library(library), profile, observed, only, path, json, html, paths)
    raise typer.Exit(bound_command.run(request, Console()))


@app.command()
def check(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- CMD...]", help="A program to look at too.")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Exit status 1 if anything is not as it should be.")] = False,
    root: Annotated[Path, typer.Option(hidden=True, help="Where /proc and /sys are read.")] = Path("/"),
) -> None:
    """Is this machine, and a program, fit for real time? What was found, and what to do about it."""
    raise typer.Exit(check_command.run(root, command or [], strict, Console()))


@app.command()
def run(
    command: Command,
    mode: Annotated[str | None, typer.Option(help="general, seg or pag.")] = None,
    profile: Annotated[Path | None, typer.Option(help="The profile to load.")] = None,
    seal: Annotated[bool, typer.Option(help="Seal once the profile is loaded (seg and pag).")] = False,
    on_miss: Annotated[str | None, typer.Option(help="count, report, abort or null.")] = None,
    report: Annotated[Path | None, typer.Option(help="JSON report at exit.")] = None,
    library: Library = None,
) -> None:
    """Run a program on rtmalloc."""
    settings = start.settings(mode, profile, seal, on_miss, report)
    start.execute(command, start.find_rtmalloc(library), settings)


@app.command()
def record(
    command: Command,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", parser=named_path, metavar="PATH", help="The profile; merged with what is there."),
    ],
    until_stable: Annotated[bool, typer.Option(help="Run again until the profile stays within the headroom.")] = False,
    runs: Annotated[
        int | None, typer.Option(min=1, help="That many runs in a row have to stay within it.", show_default=str(RUNS))
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Give up after that many runs.", show_default=str(LIMIT))
    ] = None,
    headroom: Annotated[
        str | None, typer.Option(help="How much a peak may still grow.", show_default=f"{HEADROOM:.0%}")
    ] = None,
    coverage: Annotated[
        Path | None, typer.Option(help="Folder of a gcov build: show the branches that the runs took.")
    ] = None,
    library: Library = None,
) -> None:
    """Run a program and record its profile."""
    most = HEADROOM if headroom is None else share(headroom)
    of_many_runs = {"--runs": runs, "--limit": limit, "--headroom": headroom}
    given = " and ".join(name for name, value in of_many_runs.items() if value is not None)
    if given and not until_stable:
        raise Mistake(f"{given} without --until-stable: the program runs once. Add it, or leave {given} out.")
    which = start.find_rtmalloc(library)
    plan = recording.Plan(command, which, out, until_stable, runs or RUNS, limit or LIMIT, most, coverage)
    raise typer.Exit(recording.record(plan, Console()))


def main() -> None:
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # files' names need not be UTF-8
    complaints = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except Mistake as mistake:
        complaints.print(f"rtmalloc: {mistake}", markup=False)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        complaints.print("rtmalloc: interrupted")
        raise SystemExit(130) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(141) from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        complaints.print(f"rtmalloc: the output cannot be written: {reason_of(error)}.", markup=False)
        discard_output()
        raise SystemExit(2) from None


def discard_output() -> None:
    """What could not be written would be tried again, and fail again, at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
