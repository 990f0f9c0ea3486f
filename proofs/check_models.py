#!/usr/bin/env python3
"""Runs the SPIN models of proofs/spin: each correct configuration must hold, each broken one must be rejected.

  proofs/check_models.py            the smallest configuration for each race and each mistake; under a minute
  proofs/check_models.py --long     larger ones as well; minutes, up to 16 GB
  proofs/check_models.py --only STASH_LOST

Needs spin and gcc. Exit status 0 if every result is the expected one, 77 if spin is missing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

MODELS = Path(__file__).resolve().parent / "spin"


@dataclass(frozen=True)
class Run:
    model: str
    sizes: str = ""  # NAME=VALUE or NAME, separated by blanks
    broken: str = ""  # a mistake of hints.pml or of the model itself, which must be rejected
    long: bool = False

    @property
    def live(self) -> bool:
        return "LIVE" in self.sizes.split()

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.model, self.sizes, self.broken)))


HOLD = (
    Run("remote_free"),
    Run("remote_free", "WORDS=2 SPANS=1"),
    Run("remote_free", "BITS=2 SPANS=1"),
    Run("remote_free", "RELEASES=1"),
    Run("remote_free", "MEDIUM"),
    Run("remote_free", "STOPPED"),
    Run("remote_free", "STOPPED BITS=2 SPANS=1"),
    Run("remote_free", "STOPPED MEDIUM"),
    Run("remote_free", "LIVE MORE=0"),
    Run("remote_free", "LIVE MORE=0 WORDS=2 SPANS=1"),
    Run("remote_free", "LIVE MORE=0 MEDIUM"),
    Run("hand_over", "MORE=0"),
    Run("hand_over", "MORE=0 MEDIUM"),
    Run("hand_over", "MORE=0 SPANS=1 BITS=2"),
    Run("hand_over", "MORE=0 SPANS=1 WORDS=2"),
    Run("orphans", "CLAIMS=0"),
    Run("orphans", "TURNS=1"),
    Run("extent"),
    Run("extent", "TOGETHER"),
    Run("extent", "STOPPED"),
    Run("extent", "STOPPED TOGETHER"),
    Run("common"),
    Run("common", "TAKES=2"),
    Run("common", "BITS=1 WORDS=2"),
    Run("common", "BITS=1 WORDS=2 ONES=2"),
    Run("remote_free", "WORDS=2 MORE=2 RELEASES=1", long=True),
    Run("remote_free", "FREERS=3 SPANS=3", long=True),
    Run("remote_free", "FREERS=3 SPANS=3 STOPPED", long=True),
    Run("remote_free", "MEDIUM SPANS=3 FREERS=3 MORE=2", long=True),
    Run("remote_free", "LEAVES=3 SPANS=5 FREERS=2 MORE=1", long=True),  # two groups
    Run("remote_free", "LIVE MORE=0 FREERS=3 SPANS=3", long=True),
    Run("hand_over", long=True),
    Run("hand_over", "MEDIUM", long=True),
    Run("hand_over", "SPANS=1 WORDS=2", long=True),
    Run("hand_over", "FREERS=3 SPANS=3 MORE=0", long=True),
    Run("orphans", long=True),
    Run("orphans", "CLAIMS=2", long=True),
    Run("extent", "FREERS=4", long=True),
    Run("extent", "FREERS=4 TOGETHER", long=True),
    Run("common", "TAKERS=3", long=True),
    Run("common", "TAKES=2 FREERS=2", long=True),
)
REJECTED = (
    Run("remote_free", "", "HINT_FIRST"),
    Run("remote_free", "", "CLEAR_AFTER"),
    Run("remote_free", "", "NO_RECHECK"),
    Run("remote_free", "STOPPED", "ONLY_IF_EMPTY"),
    Run("remote_free", "STOPPED", "GROUP_ONLY"),
    Run("remote_free", "BITS=2 SPANS=1", "LOOK_AND_ZERO"),
    Run("remote_free", "WORDS=2 SPANS=1", "FORGET_WORDS"),
    Run("remote_free", "RELEASES=1", "PLACE_AFTER"),
    Run("remote_free", "RELEASES=1", "FORGET_DETACH"),
    Run("remote_free", "LIVE MORE=0", "HINT_FIRST"),
    Run("remote_free", "LIVE MORE=0", "NO_RECHECK"),
    Run("hand_over", "MORE=0", "CLAIM_BLIND"),
    Run("hand_over", "MORE=0", "LEAVE_EARLY"),
    Run("hand_over", "MORE=0", "ADOPT_CLAIMED"),
    Run("hand_over", "MORE=0", "UNCLAIM_FIRST"),
    Run("hand_over", "MEDIUM", "STASH_LOST"),
    Run("hand_over", "MORE=0", "FOUND_LOST"),
    Run("remote_free", "BITS=2 SPANS=1", "NO_SECOND_LOOK"),
    Run("remote_free", "", "LATE_LOST"),
    Run("orphans", "", "CLAIM_BLIND"),
    Run("orphans", "", "ADOPT_CLAIMED"),
    Run("orphans", "", "STAYS_IN_LIST"),
    Run("orphans", "", "LEAVE_UNLOCKED"),
    Run("extent", "", "GROUP_FIRST"),
    Run("extent", "", "LEAF_FIRST"),
    Run("extent", "", "HINT_FIRST"),
    Run("extent", "TOGETHER", "LOOK_FIRST"),
    Run("common", "", "NO_RAISE"),
    Run("common", "", "NO_RECHECK"),
    Run("common", "", "TAKE_BLIND"),
    Run("common", "", "TOP_FIRST"),
)

# What a failed assertion of the models means, by a part of its text.
MEANINGS = {
    "inside==1": "two threads inside one heap",
    "users[heap]==1": "two users of one heap",
    "listed==made": "a heap is lost, or in the list twice",
    "h!=255": "a span's place is read when it has none",
    "hint[(at[place]-1)]==place": "a hint leads to a span that is gone",
    "zero[i]": "a free block is not found",
    "used&": "a block is handed out twice",
    "acceptance cycle": "the owner may never see a free",
    "mine": "a block is lost",
}


def output_of(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def explore(run: Run, folder: Path) -> str:
    """What pan reports after it has looked at every interleaving."""
    defines = [f"-D{size}" for size in run.sizes.split()] + ([f"-DBROKEN={run.broken}"] if run.broken else [])
    output_of(["spin", "-a", *defines, str(MODELS / f"{run.model}.pml")], folder)
    kind = [] if run.live else ["-DSAFETY"]
    optimize = "-O2" if run.long else "-O0"  # compiling is most of a short run
    output_of(
        ["gcc", optimize, "-w", "-DCOLLAPSE", "-DMEMLIM=16000", "-DVECTORSZ=2048", *kind, "-o", "pan", "pan.c"], folder
    )
    return output_of(
        ["./pan", "-n", "-m10000000" if run.long else "-m1000000", *(["-a", "-f"] if run.live else [])], folder
    )


def verdict(run: Run, report: str) -> tuple[bool, str]:
    """As expected? And in words: how many states, or which property fails."""
    errors = re.search(r"errors: (\d+)", report)
    if "max search depth too small" in report or "out of memory" in report or not errors:
        return False, "the search was cut off"
    found = re.search(r"pan:\d+: (.*)", report)
    states = re.search(r"(\d+(?:\.\d+e\+\d+)?) states, stored", report)
    meaning = next((words for part, words in MEANINGS.items() if found and part in found[1]), found[1] if found else "")
    words = f"rejected: {meaning}" if found else f"holds in all of {float(states[1]):,.0f} states"
    return (errors[1] != "0") == bool(run.broken), words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="the larger configurations as well")
    parser.add_argument("--only", default="", help="configurations whose name has this text")
    parser.add_argument("--keep", type=Path, help="build here and keep the trail of the last run")
    arguments = parser.parse_args()
    if not shutil.which("spin"):
        print("spin is missing: run tools/setup-debian test")
        sys.exit(77)
    runs = [run for run in HOLD + REJECTED if arguments.only in run.name and (arguments.long or not run.long)]
    if not runs:
        sys.exit(f"no configuration has '{arguments.only}' in its name")
    wrong = 0
    for run in runs:
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="rtmalloc-spin-") as temporary:
            folder = Path(temporary)
            if arguments.keep:
                arguments.keep.mkdir(parents=True, exist_ok=True)
                folder = arguments.keep
            good, words = verdict(run, explore(run, folder))
        wrong += not good
        print(f"{'ok   ' if good else 'WRONG'} {run.name:<52} {time.monotonic() - start:5.1f} s  {words}", flush=True)
    print(f"{len(runs)} configurations, {wrong} not as expected")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    main()
