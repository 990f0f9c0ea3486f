"""The memory that loading may take, as src/os/pin.c finds it."""

from __future__ import annotations

import os
import re

from rtmalloc_tools.check.findings import System

GROUPS = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"


def available_memory(system: System | None = None) -> int:
    """Bytes that the machine has at the moment, or the control group that this runs in."""
    system = system or System()
    bounds = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    found = re.search(r"^MemAvailable:\s*(\d+)", system.read("/proc/meminfo") or "", re.MULTILINE)
    if found:
        bounds.append(int(found[1]) << 10)
    bounds += [limit for limit in map(system.number, GROUPS) if limit]  # "max" is no number
    return min(bounds)
