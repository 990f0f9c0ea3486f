"""What this process may do: lock memory, and run at a real-time priority."""

from __future__ import annotations

import re

from rtmalloc_tools.check.findings import BAD, GOOD, WARN, Finding, System, unknown

LIMITS, STATUS = "/proc/self/limits", "/proc/self/status"
CAP_IPC_LOCK, CAP_SYS_NICE = 14, 23
LOCKED_LEAST = 64 << 20


def soft_limit(system: System, name: str) -> str | None:
    text = system.read(LIMITS) or ""
    found = re.search(rf"^{re.escape(name)}\s+(\S+)", text, re.MULTILINE)
    return found[1] if found else None


def capabilities(system: System) -> int | None:
    found = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", system.read(STATUS) or "", re.MULTILINE)
    return int(found[1], 16) if found else None


def has(mask: int | None, capability: int) -> bool:
    return mask is not None and bool(mask >> capability & 1)


def locked_memory(system: System) -> Finding:
    what, limit = "locked memory (RLIMIT_MEMLOCK)", soft_limit(system, "Max locked memory")
    if has(capabilities(system), CAP_IPC_LOCK):
        return Finding(what, f"{limit or 'any'}, and CAP_IPC_LOCK", GOOD)
    if limit is None:
        return unknown(what, LIMITS)
    if limit == "unlimited":
        return Finding(what, limit, GOOD)
    if not limit.isdigit():
        return Finding(what, limit, WARN, f"the limit in {LIMITS} cannot be understood")
    amount = f"{int(limit) >> 10:,} KiB"
    advice = "a profile's memory must fit: `ulimit -l unlimited`, memlock in limits.conf, LimitMEMLOCK= in systemd"
    return Finding(what, amount, WARN if int(limit) >= LOCKED_LEAST else BAD, advice)


def priority(system: System) -> Finding:
    what, limit = "real-time priority (RLIMIT_RTPRIO)", soft_limit(system, "Max realtime priority")
    if has(capabilities(system), CAP_SYS_NICE):
        return Finding(what, f"{limit or 'any'}, and CAP_SYS_NICE", GOOD)
    if limit is None:
        return unknown(what, LIMITS)
    if limit == "unlimited" or (limit.isdigit() and int(limit) > 0):
        return Finding(what, limit, GOOD)
    return Finding(
        what,
        limit,
        BAD,
        "SCHED_FIFO is refused: rtprio in /etc/security/limits.conf, LimitRTPRIO= in systemd, or CAP_SYS_NICE",
    )


def capability_row(system: System) -> Finding:
    what, mask = "capabilities", capabilities(system)
    if mask is None:
        return unknown(what, STATUS)
    names = [name for name, bit in (("CAP_IPC_LOCK", CAP_IPC_LOCK), ("CAP_SYS_NICE", CAP_SYS_NICE)) if has(mask, bit)]
    # Without them the limits above decide: nothing is wrong with that.
    return Finding(what, ", ".join(names) or "neither CAP_IPC_LOCK nor CAP_SYS_NICE: the limits count", GOOD)


def findings(system: System) -> list[Finding]:
    return [locked_memory(system), priority(system), capability_row(system)]
