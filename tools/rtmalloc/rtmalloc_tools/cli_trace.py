"""`rtmalloc trace`: one function per subcommand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rtmalloc_tools.files import named_path
from rtmalloc_tools.profile.size_classes import in_words
from rtmalloc_tools.run.start import find_rtmalloc
from rtmalloc_tools.suggestions import SuggestingGroup
from rtmalloc_tools.trace import record as recording
from rtmalloc_tools.trace import show as tables
from rtmalloc_tools.trace.trace_format import read_trace

app = typer.Typer(help="Record every allocation of a program, look at it.", no_args_is_help=True, cls=SuggestingGroup)


@app.command()
def record(
    command: Annotated[list[str], typer.Argument(metavar="-- CMD...", help="The program and its arguments.")],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", parser=named_path, metavar="PATH", help="The trace; children's go to OUT.PID."),
    ],
    children: Annotated[bool, typer.Option(help="Record the processes that it starts too.")] = False,
    rtmalloc: Annotated[bool, typer.Option(help="Run the program on rtmalloc, not on its own allocator.")] = False,
    limit: Annotated[str, typer.Option(help="Most bytes of a trace; recording stops there.")] = "4G",
    tracer: Annotated[
        Path | None, typer.Option(help=f"{recording.LIBRARY}.", show_default="this checkout's build")
    ] = None,
) -> None:
    """Run a program and write down each of its allocations. The exit status is the program's."""
    allocator = find_rtmalloc(None) if rtmalloc else None
    library = recording.find_tracer(tracer)
    status, traces = recording.record(command, out, library, children, recording.in_bytes(limit), allocator)
    console = Console(stderr=True)
    for one in traces:
        text = f"{one.path}: {in_words(one.header.used)}; {tables.in_short(one.header.command)} {one.header.ending}."
        console.print(text, markup=False, highlight=False, soft_wrap=True)
        for remark in tables.remarks(one.header):
            console.print(remark, markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(status if status >= 0 else 128 - status)


@app.command()
def show(files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Traces.")]) -> None:
    """Print what each trace holds: operations, threads, sizes, live memory, lifetimes."""
    console = Console()
    for path in files:
        tables.show(read_trace(path), console)
