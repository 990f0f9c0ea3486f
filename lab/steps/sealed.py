#!/usr/bin/env python3
"""The highest instruction counts of sealed operations: each load is recorded, loaded, sealed and single-stepped. And
those of general mode, for loads of its own. Zeroing and copying, which are libc's, are left out: they are linear.

    lab/steps/sealed.py --build build                     # the short form, as the test bounds/sealed runs it
    lab/steps/sealed.py --build build --long --search 20  # 10^6 live blocks and 64 heaps, and 20 random seeds: an hour
    lab/steps/sealed.py --build build --json observed.json
    build/rtmalloc bound --observed observed.json         # shown beside what is proven

The loads and the limits are in sealed.toml. Exit status 1 if a count is above its limit, a profile did not cover its
load, or a count depends on how many blocks or heaps there are.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MODES = ("pag", "seg")
GENERAL = "general"
BLOCK_MAX, MEDIUM_MAX = 32 << 10, 2 << 20
TABLE = Path(__file__).with_name("sealed.toml")

WITH_SIZE = ("sized free", "free_sized", "aligned delete")  # frees that say a size
REMOTE = {by: f"remote {by}" for by in ("free", *WITH_SIZE)}

Key = tuple[str, str, str]  # mode, operation, kind


@dataclass(frozen=True)
class Highest:
    count: int
    load: str
    seed: int


@dataclass
class Run:
    build: Path
    folder: Path
    limits: dict[str, dict[str, dict[str, int]]]  # mode, operation, kind
    processor: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    found: dict[Key, Highest] = field(default_factory=dict)

    @property
    def library(self) -> Path:
        return self.build / "librtmalloc.so"

    def environment(self, **options: object) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("RTMALLOC_")}
        return plain | {f"RTMALLOC_{name.upper()}": str(value) for name, value in options.items()}

    def record(self, words: list[str], profile: Path) -> None:
        environment = self.environment(record=profile) | {"LD_PRELOAD": str(self.library)}
        command = [str(self.build / "steps" / words[0]), *words[1:]]
        subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)

    def recorded(self, words: list[str], also: Sequence[str] = ()) -> Path:
        """The profile of a run with these words, and of one more with each of `also`."""
        profile = self.folder / "profile.rtp"
        profile.unlink(missing_ok=True)
        for more in ("", *also):  # an option that is given twice has its last value
            self.record([*words, *more.split()], profile)
        return profile

    def count(
        self, mode: str, words: list[str], profile: Path, counting: Sequence[str] = ("--library-only",)
    ) -> dict[tuple[str, str], int]:
        """The highest count of each operation and kind of block. `counting`: options of stepcount."""
        each, report = self.folder / "each.csv", self.folder / "report.json"
        sealed = {"profile": profile, "mode": mode, "seal": 1, "report": report}
        environment = self.environment(**({} if mode == GENERAL else sealed))
        command = [
            self.build / "steps" / "stepcount",
            *self.processor,
            *counting,
            "--preload",
            self.library,
            "--each",
            each,
            "--",
            *words,
        ]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        if mode != GENERAL:
            may_miss = words[0] == "threads" and "--interleave" in counting
            self.check_sealed(mode, words, json.loads(report.read_text()), may_miss)
        highest: dict[tuple[str, str], int] = {}
        with each.open() as lines:
            for line in csv.DictReader(lines):
                operation = line["operation"]
                if mode == GENERAL and "--orphan" in words and operation == "remote free":
                    operation = "orphan free"
                if mode == GENERAL and operation == "wide aligned_alloc":
                    operation = "aligned_alloc"
                if mode != "pag" and operation.removeprefix("remote ") in WITH_SIZE:  # the rows have both there
                    operation = operation.removeprefix("remote ")
                key = operation, self.kind_of(mode, operation, int(line["bytes"]))
                highest[key] = max(highest.get(key, 0), int(line["instructions"]))
        return highest

    def check_sealed(self, mode: str, words: list[str], told: dict[str, object], may_miss: bool) -> None:
        if told["mode"] != mode or not told["sealed"]:
            raise SystemExit(f"sealed.py: {' '.join(words)} did not run sealed in {mode}: {told}")
        if told["misses"] and not may_miss and (mode == "pag" or words[0] == "threads"):
            self.problems.append(f"{mode}: {' '.join(words)}: {told['misses']} misses: the profile does not cover it")

    def measure(self, load: str, seed: int, modes: tuple[str, ...] = MODES, also: Sequence[str] = ()) -> dict[Key, int]:
        words = [*load.split(), "--seed", str(seed)]
        profile = self.recorded(words, also) if modes != (GENERAL,) else self.folder / "no profile"
        counts = {}
        for mode in modes:
            for (operation, kind), count in self.count(mode, words, profile).items():
                key = mode, operation, kind
                counts[key] = count
                self.keep(key, count, load, seed)
        return counts

    def measure_common(self, load: dict[str, Any], seed: int) -> None:
        """What a thread takes of what all have in common: sealed in `pag` with options that were not recorded."""
        words = [*load["words"].split(), "--seed", str(seed)]
        profile = self.recorded(words, load["also"])
        sealed = load["sealed"]
        for order in orders_of(load):
            counts = self.count("pag", [*words, *sealed.split()], profile, ("--library-only", *order))
            for (operation, kind), count in counts.items():
                # A block of what all have in common is freed as another thread's, also by the one that asked for it.
                operation = REMOTE.get(operation, operation if operation in REMOTE.values() else f"common {operation}")
                kind = "any" if operation == "remote free" else kind
                self.keep(("pag", operation, kind), count, " ".join([load["words"], sealed, *order]), seed)

    def measure_threads(self, load: dict[str, Any], seed: int, watch: dict[str, str]) -> None:
        """The calls of some of the library's functions (`stepcount --watch`), with what they call in the C library; or,
        with --first, each thread's first malloc. `watch`: of each function the operation that it is."""
        words = [*load["words"].split(), "--seed", str(seed)]
        profile = self.recorded(words)
        first = "--first" in words
        functions = load.get("watch", watch)
        watching = {("--library-only",): "first malloc"} if first else {("--watch", f): watch[f] for f in functions}
        for order, mode in itertools.product(orders_of(load), load.get("modes", MODES)):
            for options, operation in watching.items():
                for (counted, kind), count in self.count(mode, words, profile, (*options, *order)).items():
                    if counted == "function" and (first or kind == "page"):
                        key = mode, operation, kind if first else "any"
                        self.keep(key, count, " ".join([load["words"], *order]), seed)

    def keep(self, key: Key, count: int, load: str, seed: int) -> None:
        if key not in self.found or self.found[key].count < count:
            self.found[key] = Highest(count, load, seed)

    def kind_of(self, mode: str, operation: str, size: int) -> str:
        if "any" in self.limits.get(mode, {}).get(operation, {}):
            return "any"
        return "page" if size <= BLOCK_MAX else "span" if size <= MEDIUM_MAX else "huge"

    def same(self, what: str, loads: list[str]) -> None:
        few, many = (self.measure(load, 1, ("pag",)) for load in loads)
        for key in sorted({*few} | {*many}):
            if few.get(key) != many.get(key):
                text = f"{'/'.join(key)} depends on the number of {what}: {few.get(key)} with '{loads[0]}', "
                self.problems.append(text + f"{many.get(key)} with '{loads[1]}'")


# What the certificate names as exits: other threads were ahead three times, or the profile does not cover the request.
EXITS = ("store_take_after_others", "miss", "missed", "heap_general", "leave_general")


def orders_of(load: dict[str, Any]) -> list[Sequence[str]]:
    """Options of stepcount: each set is another order in which the load's threads come to what they share. In the load
    `threads` which thread takes which heap differs from the recorded run then, so that some may miss."""
    orders = range(1, load.get("orders", 0) + 1)
    return [("--interleave", str(order), "--leave-out", ",".join(EXITS)) for order in orders] or [()]


def judge(run: Run) -> None:
    print(f"{'mode':<9}{'operation':<26}{'kind':<8}{'observed':>9}{'limit':>7}  load")
    for key, highest in sorted(run.found.items()):
        mode, operation, kind = key
        limit = run.limits.get(mode, {}).get(operation, {}).get(kind)
        over = limit is not None and highest.count > limit
        word = "  OVER" if over else "  no limit in the table" if limit is None else ""
        counts = f"{highest.count:>9}{limit or '-':>7}"
        print(f"{mode:<9}{operation:<26}{kind:<8}{counts}  {highest.load}, seed {highest.seed}{word}")
        if over or limit is None:
            run.problems.append(f"{'/'.join(key)}: {highest.count} instructions, {TABLE.name} says {limit}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"), help="the build folder")
    parser.add_argument("--long", action="store_true", help="a million live blocks, more seeds")
    parser.add_argument("--search", type=int, default=0, metavar="N", help="N random seeds more for each load")
    parser.add_argument("--json", type=Path, help="write the highest counts, for rtmalloc bound --observed")
    parser.add_argument("--processor", help="single-step on this one; the default is the last one allowed")
    options = parser.parse_args()
    table = tomllib.loads(TABLE.read_text())
    with tempfile.TemporaryDirectory() as folder:
        processor = ["--processor", options.processor] if options.processor else []
        run = Run(options.build.absolute(), Path(folder), table["limit"], processor)
        for modes, loads in ((MODES, table["load"]), ((GENERAL,), table["general"])):
            for load in loads:
                seeds = list(range(1, load["seeds"] * (5 if options.long else 1) + 1))
                for seed in seeds + [random.SystemRandom().randrange(1, 1 << 32) for _ in range(options.search)]:
                    run.measure(load["words"], seed, modes, load.get("also", ()))
        for load in table["common"]:
            for seed in range(1, load["seeds"] * (5 if options.long else 1) + 1):
                run.measure_common(load, seed)
        for load in table["thread"]:
            for seed in range(1, load["seeds"] * (5 if options.long else 1) + 1):
                run.measure_threads(load, seed, table["watch"])
        for pair in table["same"]:
            run.same(pair["what"], pair["long" if options.long else "short"])
    judge(run)
    if options.json:
        rows = [
            {"mode": mode, "operation": operation, "kind": kind, "observed": h.count, "load": h.load, "seed": h.seed}
            for (mode, operation, kind), h in sorted(run.found.items())
        ]
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    for problem in run.problems:
        print(f"sealed.py: {problem}", file=sys.stderr)
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())
