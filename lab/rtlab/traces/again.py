"""The page of a replay or a comparison made again from what its folder keeps. Nothing is measured."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from rtlab.mistakes import Mistake
from rtlab.traces.compare_command import conclude
from rtlab.traces.recommending import mark_other_output
from rtlab.traces.replay_command import Results, load_plan
from rtlab.traces.replaying import Replayed
from rtlab.traces.report import write_replay_page


def results_in(folder: Path) -> Results:
    """In the order of replays.csv."""
    results = Results([], {}, True)
    for name in pd.read_csv(folder / "replays.csv")["allocator"]:
        try:
            document = json.loads((folder / "kept" / f"{name}.json").read_text())
            cycles = np.load(folder / "kept" / f"{name}.npy")
        except OSError as error:
            raise Mistake(f"{error.filename}: the results of {name} are gone. Measure again with --fresh.") from None
        document.pop("key")
        results.replays.append(Replayed(**document))
        if document["status"] == "ok":
            results.cycles[name] = cycles
    return results


def write_page_again(folder: Path) -> Path:
    environment = json.loads((folder / "environment.json").read_text())
    options = environment["options"]
    compared = "command" in options
    trace = folder / "trace" if compared else Path(options["trace"])
    plan, results = load_plan(trace), results_in(folder)
    if any(len(cycles) != len(plan.operations) for cycles in results.cycles.values()):
        raise Mistake(f"{trace}: is not the trace that was replayed into {folder}. Replay it again.")
    if not compared:
        return write_replay_page(folder, trace, plan, results.replays, results.cycles, (), environment)
    runs = pd.read_csv(folder / "runs.csv") if (folder / "runs.csv").is_file() else pd.DataFrame()
    marked = mark_other_output(runs) if len(runs) else runs
    conclude(folder, shlex.split(options["command"]), plan, results, marked, (), environment, Console(quiet=True))
    return folder / "page.html"
