"""What a measurement was made on, so that it can be read later."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rtlab.allocators import Allocator
from rtlab.inputs import SEED as INPUT_SEED
from rtlab.ratios import SEED as BOOTSTRAP_SEED


def first_line(path: str, after: str = "") -> str:
    """The rest of the first line that starts with `after`; empty if there is none."""
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.removeprefix(after).strip(' \t:="') for line in lines if line.startswith(after)), "")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def describe(allocators: Sequence[Allocator], options: dict[str, object]) -> dict[str, object]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": ["rtlab", *sys.argv[1:]],  # also where it was called as a module
        "options": options,
        "seeds": {"inputs": INPUT_SEED, "bootstrap": BOOTSTRAP_SEED},
        "cpu": first_line("/proc/cpuinfo", "model name") or platform.processor(),
        "cpus": os.cpu_count(),
        "memory": first_line("/proc/meminfo", "MemTotal"),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "system": first_line("/etc/os-release", "PRETTY_NAME"),
        "governor": first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "huge_pages": first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "load_before": list(os.getloadavg()),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("rtlab", "pandas", "numpy")},
        "allocators": {
            allocator.name: {
                "version": allocator.version,
                "origin": allocator.origin,
                "library": str(allocator.library or ""),
                "sha256": sha256(allocator.library) if allocator.library else "",
            }
            for allocator in allocators
        },
    }
