"""The demo's second part: a control loop is recorded, loaded and sealed, and compared with other allocators."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from rtlab.allocators import find_allocators
from rtlab.catalogue import GLIBC, RTMALLOC
from rtlab.mistakes import Mistake
from rtlab.places import Places

PERIODS = 2000
RECORDINGS = 3
RUNS = 3
MIMALLOCS = ("mimalloc-1.7", "mimalloc-debian", "mimalloc-2", "mimalloc-3")
COLUMNS = (
    ("allocator", "sealed: rtmalloc with the recorded profile; TLSF has one lock, as it knows no threads"),
    ("missed", "periods of a millisecond that ended late, of half of the run"),
    ("latest (µs)", "the longest that the loop's work took from the start of its period"),
    ("longest malloc (µs)", "of the loop's own allocations"),
    ("page faults", "of the loop's thread"),
    ("misses", "requests that the profile did not cover"),
    ("system calls", "of the allocator since the seal"),
)


@dataclass(frozen=True)
class Contender:
    name: str
    library: Path | None
    options: dict[str, str]


@dataclass(frozen=True)
class Result:
    """The best of several runs, so that the system's own pauses drop out."""

    missed: int
    latest_us: float
    longest_us: float
    faults: int
    misses: int | None = None
    calls: int | None = None


def loop_of(places: Places) -> Path:
    return places.build / "examples" / "realtime" / "control_loop"


def environment(contender: Contender) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RTMALLOC_")}
    preload = {"LD_PRELOAD": str(contender.library)} if contender.library else {}
    return plain | preload | contender.options


def run_once(loop: Path, contender: Contender) -> dict[str, str]:
    result = subprocess.run(
        [str(loop), str(PERIODS)], env=environment(contender), capture_output=True, text=True, timeout=60, check=False
    )
    if result.returncode or result.stderr:
        raise Mistake(f"{loop.name} on {contender.name}: exit status {result.returncode}: {result.stderr.strip()}")
    return dict(line.split(" ", 1) for line in result.stdout.splitlines())


def best(loop: Path, contender: Contender, report: Path) -> Result:
    runs = [run_once(loop, contender) for _ in range(RUNS)]
    told = json.loads(report.read_text()) if "RTMALLOC_SEAL" in contender.options else {}
    return Result(
        missed=min(int(run["missed"]) for run in runs),
        latest_us=min(float(run["latest_us"]) for run in runs),
        longest_us=min(float(run["longest_allocation_us"]) for run in runs),
        faults=min(int(run["faults"]) for run in runs),
        misses=told.get("misses"),
        calls=told.get("system_calls_since_seal"),
    )


def contenders(places: Places, profile: Path, report: Path) -> Iterator[Contender]:
    there = find_allocators(places)
    yield Contender(GLIBC, None, {})
    mimalloc = next((name for name in MIMALLOCS if name in there), None)
    if mimalloc:
        yield Contender(mimalloc, there[mimalloc].library, {})
    tlsf = places.build / "algorithms" / "libtlsf-preload.so"
    if tlsf.is_file():
        yield Contender("locked TLSF", tlsf, {})
    yield Contender(RTMALLOC, places.rtmalloc, {})
    for mode in ("seg", "pag"):
        sealed = {"PROFILE": str(profile), "MODE": mode, "SEAL": "1", "REPORT": str(report)}
        options = {f"RTMALLOC_{name}": value for name, value in sealed.items()}
        yield Contender(f"sealed {mode}", places.rtmalloc, options)


def table_of(rows: Sequence[tuple[Contender, Result]]) -> Table:
    table = Table(title=f"A control loop with a noisy neighbour, best of {RUNS} runs", title_justify="left")
    for number, (name, _) in enumerate(COLUMNS):
        table.add_column(name, justify="left" if number == 0 else "right")
    for contender, result in rows:
        cells = (
            str(result.missed),
            f"{result.latest_us:.0f}",
            f"{result.longest_us:.1f}",
            str(result.faults),
            "-" if result.misses is None else str(result.misses),
            "-" if result.calls is None else str(result.calls),
        )
        table.add_row(contender.name, *cells, style="bold cyan" if "sealed" in contender.name else None)
    return table


def realtime_demo(places: Places, console: Console) -> None:
    loop = loop_of(places)
    if not loop.is_file() or not places.rtmalloc.is_file():
        raise Mistake(f"{loop} is not built. Run 'make demo', or 'make' first.")
    with tempfile.TemporaryDirectory(prefix="rtlab-demo-") as folder:
        profile, report = Path(folder) / "loop.rtp", Path(folder) / "report.json"
        recorder = Contender("recording", places.rtmalloc, {"RTMALLOC_RECORD": str(profile)})
        console.print(f"Recording {loop.name}, {RECORDINGS} runs of {PERIODS / 1000:.0f} s …")
        for _ in range(RECORDINGS):
            run_once(loop, recorder)
        console.print(
            f"Loading its profile ({profile.stat().st_size:,} bytes), sealing, and running it beside others …"
        )
        rows = [(item, best(loop, item, report)) for item in contenders(places, profile, report)]
        console.print(table_of(rows))
        load = json.loads(report.read_text())
    for name, meaning in COLUMNS:
        console.print(f"[bold]{name}[/]: {meaning}.")
    console.print(
        f"Loading (pag) made {load['prepared_bytes'] / 2**20:.1f} MiB ready in {load['load_us'] / 1000:.1f} ms. "
        "docs/real-time.md does the same with your program."
    )
