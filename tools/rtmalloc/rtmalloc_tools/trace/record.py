"""`rtmalloc trace record`: the program with librtmalloc-trace.so in front of its allocator."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rtmalloc_tools.mistakes import Mistake, reason_of
from rtmalloc_tools.places import checkout
from rtmalloc_tools.run.record import check_output
from rtmalloc_tools.run.signals import PassedOn
from rtmalloc_tools.run.start import check_preload, environment
from rtmalloc_tools.trace.trace_format import MAGIC, STATUS_UNKNOWN, Header, finish, read_header

LIBRARY = "librtmalloc-trace.so"
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
CANNOT_START = 127


@dataclass(frozen=True)
class Recorded:
    path: Path
    header: Header


def find_tracer(given: Path | None) -> Path:
    library = given or checkout() / "build" / LIBRARY
    if library.is_file():
        return library.resolve()
    advice = "Name it with --tracer." if given else "Build it with `make`, or name it with --tracer."
    wrong = "is no regular file" if library.exists() else "there is no such library"
    raise Mistake(f"{library}: {wrong}. {advice}")


def in_bytes(text: str) -> int:
    """'4G', '100 MiB' or '65536' as a number of bytes."""
    found = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    if not found or int(found[1]) == 0:
        raise Mistake(f"Limit '{text}' is not understood; expected a size such as 500M or 4G.")
    return int(found[1]) * UNITS[found[2].lower()]


def traces_of_children(out: Path) -> list[Path]:
    """OUT.PID, as the library names them."""
    pattern = re.compile(re.escape(out.name) + r"\.\d+")
    found = [path for path in out.absolute().parent.iterdir() if pattern.fullmatch(path.name)]
    return sorted(path for path in found if begins_like_a_trace(path))


def begins_like_a_trace(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def run_child(command: Sequence[str], values: Mapping[str, str]) -> int:
    """Runs the command in a child that says its own number in RTTRACE_ROOT. What waitpid says of its end."""
    with PassedOn() as signals:
        child = os.fork()
        if child == 0:
            try:
                os.execvpe(command[0], list(command), {**values, "RTTRACE_ROOT": str(os.getpid())})
            except OSError as error:
                print(f"rtmalloc: {command[0]}: cannot be started: {reason_of(error)}.", file=sys.stderr, flush=True)
            finally:
                os._exit(CANNOT_START)
        signals.to(child)
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def record(
    command: Sequence[str],
    out: Path,
    tracer: Path,
    children: bool,
    limit: int,
    allocator: Path | None = None,
) -> tuple[int, list[Recorded]]:
    """The program's status (-n: signal n) and the traces: the program's own first, then those of its children."""
    check_preload(command[0])
    check_output(out)
    if out.exists() and out.stat().st_size and not begins_like_a_trace(out):
        raise Mistake(f"{out}: is there, and is not a trace: it would be lost. Give another file name.")
    for stale in [out, *traces_of_children(out)]:
        stale.unlink(missing_ok=True)
    settings = {"RTTRACE_OUT": str(out.absolute()), "RTTRACE_LIMIT": str(limit)}
    if children:
        settings["RTTRACE_CHILDREN"] = "1"
    base = dict(os.environ)
    if allocator is not None:
        base = environment(allocator, {}, base)
    status = run_child(command, environment(tracer, settings, base))
    if not out.exists():
        raise Mistake(
            f"{out}: {command[0]} (status {status}) wrote no trace: it did not start, it makes no allocation, or the "
            "dynamic linker did not preload the library."
        )
    traces = [Recorded(out, finish(out, status))]
    traces += [finished_child(path) for path in traces_of_children(out)]
    return status, traces


def finished_child(path: Path) -> Recorded:
    """One that still runs (a daemon) keeps writing: its trace stays as it is."""
    header = read_header(path)
    running = Path(f"/proc/{header.process}").exists()
    return Recorded(path, header if running else finish(path, STATUS_UNKNOWN))
