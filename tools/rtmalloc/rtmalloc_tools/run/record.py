"""`rtmalloc record`: runs a program with RTMALLOC_RECORD, once or until its profile is stable."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from rtmalloc_tools.files import behind_links
from rtmalloc_tools.mistakes import Mistake, reason_of
from rtmalloc_tools.profile.combine import merge
from rtmalloc_tools.profile.profile_format import Profile, read_profile, write_profile
from rtmalloc_tools.profile.show import show_changes
from rtmalloc_tools.run import coverage
from rtmalloc_tools.run.coverage import Coverage
from rtmalloc_tools.run.signals import PassedOn
from rtmalloc_tools.run.stability import Progress, after_run
from rtmalloc_tools.run.start import check_preload, environment

GROWN_SHOWN = 10
RUNS, LIMIT, HEADROOM = 3, 20, 0.05
# What the sealed run has in its environment, switched off: a program that copies its own asks for blocks for each.
AS_SEALED = {"RTMALLOC_PROFILE": "", "RTMALLOC_MODE": "general", "RTMALLOC_SEAL": "0", "RTMALLOC_ON_MISS": "count"}
GAVE_UP = 3
"""Exit status where the profile was not stable at the limit."""


@dataclass(frozen=True)
class Plan:
    command: Sequence[str]
    library: Path
    out: Path
    until_stable: bool = False
    runs: int = RUNS
    limit: int = LIMIT
    headroom: float = HEADROOM
    coverage: Path | None = None


@dataclass(frozen=True)
class Round:
    number: int
    progress: Progress
    records: int
    coverage: Coverage | None = field(default=None)


def record(plan: Plan, console: Console) -> int:
    """The exit status: the program's where it fails, GAVE_UP at the limit, else 0."""
    if plan.until_stable and plan.limit < plan.runs:
        raise Mistake(f"--limit {plan.limit} is less than the {plan.runs} runs in a row that --runs asks for.")
    check_preload(plan.command[0])
    check_output(plan.out)
    if plan.coverage:
        coverage.measure(plan.coverage)  # complains before the first run
    known = read_profile(plan.out) if plan.out.exists() else None
    progress, rounds = Progress(known), []
    for number in range(1, (plan.limit if plan.until_stable else 1) + 1):
        status, ended_by = run_once(plan)
        if status:
            console.print(f"Run {number}: {in_words(status)}.", markup=False, highlight=False, style="red")
            return status
        processes = -known.runs if known else 0
        known = merged(plan, known)
        processes += known.runs
        progress = after_run(progress, known, plan.headroom)
        reached = coverage.measure(plan.coverage) if plan.coverage else None
        rounds.append(Round(number, progress, len(known.records), reached))
        console.print(round_line(rounds, plan), markup=False, highlight=False, soft_wrap=True)
        if number == 1 and processes > 1:
            console.print(many_processes(plan, processes), markup=False, highlight=False, soft_wrap=True)
        if plan.until_stable and progress.streak >= plan.runs:
            break
        if plan.until_stable and ended_by:
            many = f"{number} run{'s' if number > 1 else ''}"
            text = f"{plan.out}: recorded, but NOT stable: ended by signal {ended_by} after {many}."
            console.print(text, markup=False, highlight=False, style="red", soft_wrap=True)
            return 128 + ended_by
    if plan.coverage:
        console.print(rounds_table(rounds))
    return conclude(plan, rounds, console)


def check_output(out: Path) -> None:
    """Says before a long run that its profile would have nowhere to go."""
    target = behind_links(out, "profile")
    if out.is_dir():
        raise Mistake(f"{out}: is a directory; the profile cannot be written there. Give a file name.")
    if out.exists() and not out.is_file():
        raise Mistake(f"{out}: is no regular file; the profile cannot be written there. Give a file name.")
    if not target.parent.is_dir():
        raise Mistake(f"{out}: its folder {target.parent} does not exist.")
    if not os.access(target.parent, os.W_OK):
        raise Mistake(f"{out}: the profile cannot be written: permission denied.")


def run_once(plan: Plan) -> tuple[int, int]:
    """The program's exit status, as a shell gives it, and the signal that was to end the command, or 0; complains if it
    left no profile."""
    before = identity(plan.out)
    others = {name: value for name, value in AS_SEALED.items() if name not in os.environ}
    values = {"RTMALLOC_RECORD": str(plan.out.absolute()), **others}
    try:
        with PassedOn() as signals:
            program = subprocess.Popen(list(plan.command), env=environment(plan.library, values, os.environ))
            signals.to(program.pid)
            ended = program.wait()
    except OSError as error:
        raise Mistake(f"{plan.command[0]}: cannot be started: {reason_of(error)}.") from None
    status = ended if ended >= 0 else 128 - ended
    if not status and identity(plan.out) in (None, before):
        raise Mistake(
            f"{plan.out}: {plan.command[0]} ended well but wrote no profile. Does {plan.library} record, and does the "
            "program end by exit (not _exit)?"
        )
    return status, signals.got


def identity(path: Path) -> tuple[int, int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns, state.st_size


def merged(plan: Plan, known: Profile | None) -> Profile:
    """The library merges with what is there; a profile that it started afresh is merged here."""
    profile = read_profile(plan.out)
    if known is None:
        return profile
    both = merge([known, profile], [f"{plan.out} (before the run)", str(plan.out)])
    if both != profile:
        write_profile(plan.out, both)
    return both


def in_words(status: int) -> str:
    return (
        f"the program was ended by signal {status - 128}"
        if status > 128
        else f"the program failed with exit status {status}"
    )


def round_line(rounds: Sequence[Round], plan: Plan) -> str:
    last = rounds[-1]
    text = f"Run {last.number}: {last.records} records"
    if plan.until_stable:
        many = len(last.progress.grown)
        grown = f"{many} peak{'s' if many > 1 else ''} grew beyond the headroom" if many else "within the headroom"
        first = last.progress.streak == 0 and not last.progress.grown
        text += "; the first profile" if first else f"; {grown}; {last.progress.streak} of {plan.runs} runs in a row"
    if last.coverage:
        text += f"; branches {coverage.share(last.coverage.branches_taken, last.coverage.branches)}"
    return text


def many_processes(plan: Plan, processes: int) -> str:
    """A start script, or a server's children: one profile has the peaks of all, and is larger than any needs."""
    return (
        f"  {processes} processes recorded in that run, and their peaks are merged. If {plan.command[0]} is a script "
        "that starts the program, record the program itself, or name it in RTMALLOC_PROGRAM."
    )


def rounds_table(rounds: Sequence[Round]) -> Table:
    """Fig. 7 of the paper as a table: run, profile, coverage, again."""
    table = Table(title="Coverage and profile, run by run", title_justify="left")
    for heading in ("run", "branches taken", "new", "lines run", "peaks grown", "runs in a row"):
        table.add_column(heading, justify="right")
    before = 0
    for entry in rounds:
        reached = entry.coverage
        if reached is None:
            continue
        taken, lines = (
            coverage.share(reached.branches_taken, reached.branches),
            coverage.share(reached.lines_run, reached.lines),
        )
        new, before = reached.branches_taken - before, reached.branches_taken
        table.add_row(
            str(entry.number), taken, f"{new:+}", lines, str(len(entry.progress.grown)), str(entry.progress.streak)
        )
    return table


def conclude(plan: Plan, rounds: Sequence[Round], console: Console) -> int:
    if not plan.until_stable:
        console.print(f"{plan.out}: recorded.", markup=False, highlight=False)
        return 0
    last = rounds[-1].progress
    if last.streak >= plan.runs:
        text = f"{plan.out}: stable after {len(rounds)} runs: within {plan.headroom:.0%} for {plan.runs} runs in a row."
        console.print(text, markup=False, highlight=False, soft_wrap=True)
        return 0
    text = (
        f"{plan.out}: NOT stable after {plan.limit} runs, the limit: {last.streak} of {plan.runs} runs in a row stayed "
        f"within {plan.headroom:.0%}. Give more runs (--limit), more --headroom, or runs that reach more of it."
    )
    console.print(text, markup=False, highlight=False, style="red", soft_wrap=True)
    if last.grown:
        shown = last.grown[:GROWN_SHOWN]
        show_changes(shown, "the run before", f"run {len(rounds)}", console)
        if len(last.grown) > len(shown):
            console.print(f"and {len(last.grown) - len(shown)} more.", highlight=False)
    return GAVE_UP
