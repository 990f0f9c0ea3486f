"""The native loads of lab/paper: built when needed, run, their CSV read."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from rtlab.mistakes import Mistake
from rtlab.papers.beside import Subject, find_beside
from rtlab.places import Places
from rtlab.processes import Failed, run_tool
from rtlab.profiled import PROFILED

REPORT = "report.json"
AREA_TOO_SMALL = 3  # exit status, as in lab/paper/session.h


class NoMemory(Exception):
    """The load did not fit into its area."""


@dataclass(frozen=True)
class Natives:
    loads: Path  # folder
    stepcount: Path
    beside: Mapping[str, Subject] = field(default_factory=dict)  # allocators that the loads do not have themselves

    def run(self, load: str, allocator: str, measure: str, profile: str, **options: int) -> pd.DataFrame:
        """What the load prints. Instructions: as many rows as operations were counted. rtmalloc's modes load a profile
        that the same load has recorded, and are sealed."""
        subject = self.beside.get(allocator, Subject(allocator))
        with tempfile.TemporaryDirectory() as folder:
            settings = self._load_profile(Path(folder), load, allocator, subject, measure, profile, options)
            if measure == "count":
                each = Path(folder) / "each.csv"
                words = self._words(load, subject, measure, profile, options)
                self._output(self._counted(subject, ["--each", str(each)], words), settings)
                return pd.read_csv(each)
            out = self._printed(load, subject, measure, profile, options, settings)
            if measure == "space" and allocator in PROFILED:
                report = json.loads((Path(folder) / REPORT).read_text())
                out["reached"] = report["prepared_bytes"] - report["reserve_bytes"]
            return out

    def functions(self, load: str, allocator: str, profile: str, **options: int) -> pd.DataFrame:
        """function, instructions: one row for each call of a function inside the operations that were counted."""
        subject = Subject(allocator)
        words = self._words(load, subject, "count", profile, options)
        with tempfile.TemporaryDirectory() as folder:
            calls = Path(folder) / "functions.csv"
            self._output(self._counted(subject, ["--functions", str(calls)], words))
            return pd.read_csv(calls)

    def _load_profile(
        self,
        folder: Path,
        load: str,
        allocator: str,
        subject: Subject,
        measure: str,
        profile: str,
        options: dict[str, int],
    ) -> dict[str, str]:
        """Records one if the allocator takes one; the settings that load it."""
        if allocator not in PROFILED:
            return {}
        files = {"profile": folder / "run.rtp", "report": folder / REPORT}
        once = options | ({"replicas": 1} if measure == "cycles" else {})
        recorded_by = {key: value.format(**files) for key, value in PROFILED[allocator].record.items()}
        self._printed(load, subject, "space" if measure == "count" else measure, profile, once, recorded_by)
        return {key: value.format(**files) for key, value in PROFILED[allocator].load.items()}

    def _printed(
        self,
        load: str,
        subject: Subject,
        measure: str,
        profile: str,
        options: dict[str, int],
        settings: Mapping[str, str],
    ) -> pd.DataFrame:
        preload = {"LD_PRELOAD": str(subject.library)} if subject.library else {}
        words = self._words(load, subject, measure, profile, options)
        return pd.read_csv(io.StringIO(self._output(words, {**settings, **preload})))

    def _counted(self, subject: Subject, what: list[str], words: list[str]) -> list[str]:
        preload = ["--preload", str(subject.library)] if subject.library else []
        return [str(self.stepcount), *what, *preload, "--", *words]

    def _words(self, load: str, subject: Subject, measure: str, profile: str, options: dict[str, int]) -> list[str]:
        words = [str(self.loads / load), subject.word, measure, profile]
        for name, value in options.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        return words

    @staticmethod
    def _output(words: list[str], settings: Mapping[str, str] | None = None) -> str:
        environment = {**os.environ, **(settings or {})}
        done = subprocess.run(
            words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, env=environment
        )
        if done.returncode == 0:
            return done.stdout
        if "no memory for" in done.stderr:
            raise NoMemory(done.stderr.strip())
        if "ptrace" in done.stderr:
            raise Mistake(
                f"Instructions cannot be counted here: {done.stderr.strip()}. Leave them out: --no-instructions."
            )
        raise Mistake(f"'{' '.join(words)}' ended with status {done.returncode}: {done.stderr.strip()}")


def ensure_natives(places: Places) -> Natives:
    """Built into build/papers; a second when nothing has changed."""
    build = places.build / "papers"
    try:
        run_tool(["cmake", "-S", places.root / "lab" / "paper", "-B", build, "-DBUILD_TESTING=OFF"])
        run_tool(["cmake", "--build", build, "--target", "papers"])
    except Failed as failure:
        raise Mistake(
            f"Cannot build the loads in lab/paper: {failure}\nIt needs cmake, gcc and make, on x86-64."
        ) from None
    return Natives(build / "paper", build / "steps" / "stepcount", find_beside(places))
