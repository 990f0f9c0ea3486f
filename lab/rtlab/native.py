"""The native parts of rtlab: `measure` runs one command, `probe.so` times allocations, `replay` plays a trace …"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rtlab.mistakes import Mistake
from rtlab.places import Places
from rtlab.processes import Failed, run_tool


@dataclass(frozen=True)
class Native:
    measure: Path
    probe: Path
    replay: Path
    count_calls: Path
    tracer: Path


def native_in(folder: Path) -> Native:
    names = ("measure", "probe.so", "replay", "count_calls", "librtmalloc-trace.so")
    return Native(*(folder / name for name in names))


def up_to_date(native: Native, source: Path) -> bool:
    files = list(vars(native).values())
    if not all(path.is_file() for path in files):
        return False
    newest = max(path.stat().st_mtime for path in source.iterdir())
    return min(path.stat().st_mtime for path in files) >= newest


def ensure_native(places: Places) -> Native:
    """Those of the project's build if current, else built here into build/native (two seconds, once)."""
    main_build, own = native_in(places.build), native_in(places.native_own_build)
    if up_to_date(main_build, places.native_source):
        return main_build
    if not up_to_date(own, places.native_source):
        try:
            options = ["-DCMAKE_BUILD_TYPE=Release"]
            run_tool(["cmake", "-S", places.native_source, "-B", places.native_own_build, *options])
            run_tool(["cmake", "--build", places.native_own_build, "--clean-first"])
        except Failed as failure:
            raise Mistake(
                f"Cannot build the runner in {places.native_source}: {failure}\n"
                "It needs cmake and a C compiler: apt-get install cmake gcc make."
            ) from failure
    return own
