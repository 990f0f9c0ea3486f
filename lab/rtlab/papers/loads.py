"""The native loads of lab/paper: built when needed, run, their CSV read."""

from __future__ import annotations

import io
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from rtlab.mistakes import Mistake
from rtlab.places import Places
from rtlab.processes import Failed, run_tool

AREA_TOO_SMALL = 3  # exit status, as in lab/paper/session.h


class NoMemory(Exception):
    """The load did not fit into its area."""


@dataclass(frozen=True)
class Natives:
    loads: Path  # folder
    stepcount: Path

    def run(self, load: str, allocator: str, measure: str, profile: str, **options: int) -> pd.DataFrame:
        """What the load prints. Instructions: as many rows as operations were counted."""
        words = self._words(load, allocator, measure, profile, options)
        if measure != "count":
            return pd.read_csv(io.StringIO(self._output(words)))
        with tempfile.TemporaryDirectory() as folder:
            each = Path(folder) / "each.csv"
            self._output([str(self.stepcount), "--each", str(each), "--", *words])
            return pd.read_csv(each)

    def functions(self, load: str, allocator: str, profile: str, **options: int) -> pd.DataFrame:
        """function, instructions: one row for each call of a function inside the operations that were counted."""
        words = self._words(load, allocator, "count", profile, options)
        with tempfile.TemporaryDirectory() as folder:
            calls = Path(folder) / "functions.csv"
            self._output([str(self.stepcount), "--functions", str(calls), "--", *words])
            return pd.read_csv(calls)

    def _words(self, load: str, allocator: str, measure: str, profile: str, options: dict[str, int]) -> list[str]:
        words = [str(self.loads / load), allocator, measure, profile]
        for name, value in options.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        return words

    @staticmethod
    def _output(words: list[str]) -> str:
        done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
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
    return Natives(build / "paper", build / "steps" / "stepcount")
