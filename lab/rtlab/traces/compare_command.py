"""`rtlab compare --cmd CMD`: records, replays on all, runs whole on all, recommends."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console

from rtlab.allocators import Allocator
from rtlab.catalogue import MODES
from rtlab.entries import Entry
from rtlab.environment import describe
from rtlab.measuring import measure
from rtlab.mistakes import Mistake
from rtlab.native import Native, ensure_native
from rtlab.page import table_of, write_page
from rtlab.places import Places
from rtlab.profiled import PROFILED, loading, recording
from rtlab.results import to_frame
from rtlab.resuming import run_rounds
from rtlab.svg import as_svg, new_figure
from rtlab.traces.contenders import check_names, choose_contenders
from rtlab.traces.plan import Plan
from rtlab.traces.recommending import SCORE, mark_other_output, ranking, recommend, whole_runs
from rtlab.traces.replay_command import INTERRUPTED, Results, load_plan, prepare, replay_all
from rtlab.traces.replaying import RECORDINGS, forget
from rtlab.traces.report import terminal_table, terminal_tables, write_replay
from rtlab.traces.statistics import cost_table

LIMIT = "256M"  # of the trace: the first 11 million records
SCORES = (
    "The smaller the better. time s and peak mib: medians of whole runs. p99.99 and max: cycles of an allocation in "
    "the replay. score: geometric mean of the ratios of the first three to the best."
)


@dataclass(frozen=True)
class CompareOptions:
    command: str
    allocators: str | None
    runs: int
    replays: int
    limit_s: int
    out: Path | None
    fresh: bool


def words_of(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Mistake(f"The command '{command}' is not understood ({error}). Quote it as in a shell.") from None
    if not words:
        raise Mistake("The command is empty. Give --cmd 'PROGRAM ARGUMENT...'.")
    return words


def record(native: Native, words: Sequence[str], trace: Path, limit_s: int) -> None:
    """Records the program on its own allocator; raises Mistake if it fails there already."""
    own = [sys.executable, "-m", "rtmalloc_tools", "trace", "record", "-o", str(trace), "--limit", LIMIT]
    command = [*own, "--tracer", str(native.tracer), "--", *words]
    recorder = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        _, complaint = recorder.communicate(timeout=limit_s)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as reason:
        os.killpg(recorder.pid, signal.SIGKILL)
        recorder.communicate()
        trace.unlink(missing_ok=True)
        if isinstance(reason, KeyboardInterrupt):
            raise
        raise Mistake(
            f"'{words[0]}' did not end within {limit_s} s while it was recorded. Give more --timeout."
        ) from None
    if recorder.returncode:
        trace.unlink(missing_ok=True)
        last = "\n".join(complaint.strip().splitlines()[-3:])
        raise Mistake(f"'{shlex.join(words)}' ended with status {recorder.returncode} while it was recorded:\n{last}")


def with_profiles(
    native: Native, entry: Entry, allocators: Sequence[Allocator], folder: Path, limit_s: int
) -> list[Allocator]:
    """What a profile prepares gets one of the whole program; if recording fails, it runs without."""
    ready = []
    for allocator in allocators:
        if allocator.name in PROFILED:
            profile = folder / ("program.rtp" if allocator.name in MODES else f"{allocator.name}.profile")
            recorder = recording(allocator, profile)
            for _ in range(0 if profile.is_file() else RECORDINGS):
                measure(native, entry, recorder, limit_s)
            if profile.is_file():
                allocator = loading(allocator, profile, folder / "report.json")
        ready.append(allocator)
    return ready


def run_whole(
    native: Native, entry: Entry, allocators: Sequence[Allocator], options: CompareOptions, out: Path, console: Console
) -> tuple[pd.DataFrame, bool]:
    records, complete = run_rounds(
        native,
        [entry],
        allocators,
        options.runs,
        options.limit_s,
        out / "runs.csv",
        out / "kept" / "runs.key",
        console,
    )
    return mark_other_output(to_frame(records)), complete


def trade_off(whole: pd.DataFrame) -> str:
    """Time against memory: nearer to the lower left corner is better."""
    figure, axes = new_figure("median time of a whole run, s", "median peak resident memory, MiB")
    for row in whole.dropna(subset=["time_s"]).itertuples():
        axes.errorbar(
            row.time_s, row.peak_mib, xerr=[[row.time_s - row.time_low], [row.time_high - row.time_s]], fmt="o"
        )
        axes.annotate(row.allocator, (row.time_s, row.peak_mib), fontsize=7, xytext=(3, 3), textcoords="offset points")
    return as_svg(figure)


def folder_of(places: Places, options: CompareOptions, words: Sequence[str]) -> Path:
    name = re.sub(r"[^\w.-]", "_", Path(words[0]).name)
    mark = hashlib.sha256("\0".join([*words, os.getcwd()]).encode()).hexdigest()[:6]
    return (options.out or places.build / "compare" / f"{name}-{mark}").resolve()


def trace_of(native: Native, words: Sequence[str], out: Path, options: CompareOptions, console: Console) -> Path:
    """The trace in the folder if it is of this command, else a new one."""
    trace, note = out / "trace", out / "kept" / "command.json"
    if not (trace.is_file() and note.is_file() and json.loads(note.read_text()) == list(words)):
        console.print("Recording the program …")
        record(native, words, trace, options.limit_s)
        note.write_text(json.dumps(list(words)))
    return trace


def compare(places: Places, options: CompareOptions, console: Console) -> int:
    names = check_names(options.allocators)
    words = words_of(options.command)
    out = folder_of(places, options, words)
    if options.fresh:
        forget(out)
    (out / "kept").mkdir(parents=True, exist_ok=True)
    native = ensure_native(places)
    plan = load_plan(trace_of(native, words, out, options, console))
    allocators, absent = choose_contenders(places, names, plan.peak_live)
    bench = prepare(places, plan, out / "kept", options.replays, options.limit_s, False)
    results = replay_all(bench, allocators, console)
    runs, complete = pd.DataFrame(), False
    if results.complete:
        entry = Entry("program", "program", tuple(words))
        ready = with_profiles(native, entry, allocators, out / "kept", options.limit_s)
        runs, complete = run_whole(native, entry, ready, options, out, console)
    environment = describe(allocators, {key: str(value) for key, value in vars(options).items()})
    if not complete:
        console.print("[yellow]Interrupted: what was measured so far follows; the same command goes on from here.")
    conclude(out, words, plan, results, runs, absent, environment, console)
    return 0 if complete else INTERRUPTED


def conclude(
    out: Path,
    words: Sequence[str],
    plan: Plan,
    results: Results,
    runs: pd.DataFrame,
    absent: Sequence[str],
    environment: dict[str, object],
    console: Console,
) -> None:
    """Tables, the recommendation, the page."""
    whole = whole_runs(runs) if len(runs) else pd.DataFrame(columns=["allocator", "status"])
    order = ranking(whole, cost_table(plan, results.cycles)) if len(runs) else pd.DataFrame()
    advice = recommend(order)
    tables, figures = write_replay(out, plan, results.replays, results.cycles, environment)
    if len(order):
        shown = order.drop(columns=["time_low", "time_high"])
        tables = [table_of("Ranking", shown, SCORES), table_of("The whole program", whole), *tables]
        figures = {"Time and memory of the whole program": trade_off(whole), **figures}
    whole.to_csv(out / "whole.csv", index=False, float_format="%.5f")
    order.to_csv(out / "ranking.csv", index=False, float_format="%.5f")
    for table in terminal_tables(plan, results.replays, results.cycles):
        console.print(table)
    if len(whole):
        console.print(terminal_table("The whole program, medians", whole))
    if len(order):
        console.print(terminal_table("Ranking", order[["allocator", "time_s", "peak_mib", "p99.99", "max", SCORE]]))
    for line in (*advice, *(f"Left out: {reason}" for reason in absent)):
        console.print(line, markup=False, highlight=False)
    page = write_page(
        out / "page.html",
        title=f"Which allocator suits {Path(words[0]).name}?",
        summary=[f"Command: {shlex.join(words)}", *advice, f"Replayed: {plan.summary}"],
        data="ranking.csv, whole.csv, runs.csv, replays.csv, costs.csv, operations.csv and live.csv",
        tables=tables,
        figures=figures,
        failures=[*failed_lines(results, whole), *absent],
        failures_title="Failed, or not there",
        environment=environment,
    )
    console.print(f"Page, with figures and CSV files beside it: {page}", soft_wrap=True)


def failed_lines(results: Results, whole: pd.DataFrame) -> list[str]:
    lines = [f"{one.allocator}, replay: {one.status}" for one in results.replays if one.status != "ok"]
    bad = whole[whole["status"] != "ok"]
    return lines + [f"{row.allocator}, whole program: {row.status}" for row in bad.itertuples()]
