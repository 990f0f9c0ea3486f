"""`rtmalloc profile`: one function per subcommand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rtmalloc_tools.files import named_path
from rtmalloc_tools.mistakes import Mistake
from rtmalloc_tools.profile import show as tables
from rtmalloc_tools.profile.combine import compare, each_apart, with_headroom
from rtmalloc_tools.profile.combine import merge as merge_profiles
from rtmalloc_tools.profile.machine import available_memory
from rtmalloc_tools.profile.memory import MEANINGS, refused_here
from rtmalloc_tools.profile.profile_format import read_profile, refusal, write_profile
from rtmalloc_tools.shares import share
from rtmalloc_tools.suggestions import SuggestingGroup

app = typer.Typer(help="Look at profiles, merge, compare and check them.", no_args_is_help=True, cls=SuggestingGroup)

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Profiles.")]


@app.command()
def show(files: Files) -> None:
    """Print what each profile holds: blocks by size, pages, spans, and the figures of equations 2 and 3."""
    console = Console()
    for path in files:
        tables.show(read_profile(path), str(path), console)


@app.command()
def merge(
    files: Files,
    out: Annotated[
        Path, typer.Option("--out", "-o", parser=named_path, metavar="PATH", help="Where the merged profile goes.")
    ],
    headroom: Annotated[str, typer.Option(help="Raise each peak by so much, for programs that vary.")] = "0%",
    apart: Annotated[bool, typer.Option(help="A store for each size, whatever others had at the same time.")] = False,
) -> None:
    """Merge profiles: the maximum of each thread's each field."""
    more = share(headroom)
    profiles = [read_profile(path) for path in files]
    merged = with_headroom(merge_profiles(profiles, [str(path) for path in files]), more)
    if apart:
        merged = each_apart(merged)
    write_profile(out, merged)
    Console().print(f"{out}: {len(merged.records)} records of {len(files)} profiles.", markup=False, highlight=False)


@app.command()
def diff(
    before: Annotated[Path, typer.Argument(help="A profile.")],
    after: Annotated[Path, typer.Argument(help="Another one.")],
) -> None:
    """Show what grew and what shrank from one profile to another."""
    changes = compare(read_profile(before), read_profile(after), (str(before), str(after)))
    if changes:
        tables.show_changes(changes, str(before), str(after), Console())
    else:
        Console().print(f"{before} and {after} hold the same peaks.", markup=False, highlight=False)


def in_both(modes: Mapping[str, str | None]) -> str:
    if len({*modes.values()}) == 1:
        return str(modes["pag"])
    return "; ".join(f"in mode {mode} {wrong}" for mode, wrong in modes.items())


@app.command()
def check(files: Files) -> None:
    """Say of each file whether it is whole, of this build, and can be loaded here; exit status 1 if one is not."""
    good, available = True, available_memory()
    console = Console()
    for path in files:
        try:
            profile = read_profile(path)
            if wrong := refusal(profile):
                raise Mistake(f"{path}: {wrong}")
            modes = {mode: refused_here(profile, mode, available) for mode in MEANINGS}
            if all(modes.values()):
                raise Mistake(f"{path}: neither mode loads it: {in_both(modes)}.")
            text = f"{path}: good: {len(profile.records)} records, runs {profile.runs}, build {profile.build:#x}"
            but = "".join(f"; but mode {mode} refuses it: {wrong}" for mode, wrong in modes.items() if wrong)
            console.print(text + but, markup=False, highlight=False, soft_wrap=True)
        except Mistake as mistake:
            good = False
            console.print(f"BAD {mistake}", markup=False, highlight=False, style="red", soft_wrap=True)
    raise typer.Exit(0 if good else 1)
