"""Settings of the kernel that can fault locked memory or add latency."""

from __future__ import annotations

import re

from rtmalloc_tools.check.findings import BAD, GOOD, UNKNOWN, WARN, Finding, System, setting, unknown

HUGE = "/sys/kernel/mm/transparent_hugepage"


def preemption(system: System) -> Finding:
    what, version = "kernel's preemption", system.read("/proc/version")
    if system.number("/sys/kernel/realtime") == 1 or "PREEMPT_RT" in (version or ""):
        return Finding(what, "PREEMPT_RT", GOOD)
    advice = "latencies of milliseconds are possible: use a PREEMPT_RT kernel (Debian: linux-image-rt-amd64)"
    if version is None:
        return unknown(what, "/proc/version")
    model = re.search(r"PREEMPT_DYNAMIC|PREEMPT", version)
    return Finding(what, model[0] if model else "not preemptible", WARN if model else BAD, advice)


def throttling(system: System) -> Finding:
    def judge(value: int) -> tuple[str, str]:
        return (
            (GOOD, "")
            if value < 0
            else (WARN, "real-time threads stop for the rest of each period: `sysctl kernel.sched_rt_runtime_us=-1`")
        )

    return setting(system, "throttling of real-time threads", "/proc/sys/kernel/sched_rt_runtime_us", judge)


def chosen(text: str | None) -> str | None:
    """The word in brackets of 'always [madvise] never'."""
    found = re.search(r"\[([^\]]+)\]", text or "")
    return found[1] if found else None


def huge_pages(system: System) -> list[Finding]:
    enabled, defrag = chosen(system.read(f"{HUGE}/enabled")), chosen(system.read(f"{HUGE}/defrag"))
    advice = f"the kernel may replace pages under locked memory: `echo madvise > {HUGE}/enabled` (or never)"
    rows = [
        Finding(
            "transparent huge pages",
            enabled,
            BAD if enabled == "always" else GOOD,
            advice if enabled == "always" else "",
        )
        if enabled
        else unknown("transparent huge pages", f"{HUGE}/enabled")
    ]
    slow = defrag in ("always", "madvise", "defer+madvise")
    advice = f"a page fault may compact memory first: `echo never > {HUGE}/defrag`"
    rows.append(
        Finding("huge pages: defrag", defrag, (WARN if slow else GOOD), advice if slow else "")
        if defrag
        else unknown("huge pages: defrag", f"{HUGE}/defrag")
    )

    def khugepaged(value: int) -> tuple[str, str]:
        if value == 0 or enabled == "never":
            return GOOD, ""
        return WARN, f"a kernel thread joins pages in the background: `echo 0 > {HUGE}/khugepaged/defrag`"

    rows.append(setting(system, "huge pages: khugepaged", f"{HUGE}/khugepaged/defrag", khugepaged))
    return rows


def off(system: System, what: str, path: str, verdict: str, advice: str) -> Finding:
    return setting(system, what, path, lambda value: (GOOD if value == 0 else verdict, advice))


def memory(system: System) -> list[Finding]:
    vm = "/proc/sys/vm"
    return [
        off(system, "NUMA balancing", "/proc/sys/kernel/numa_balancing", BAD,
            "it unmaps pages to see who uses them, locked ones too: `sysctl kernel.numa_balancing=0`"),
        off(system, "compaction in the background", f"{vm}/compaction_proactiveness", WARN,
            "the kernel moves pages: `sysctl vm.compaction_proactiveness=0`"),
        off(system, "compaction of locked pages", f"{vm}/compact_unevictable_allowed", BAD,
            "moving a locked page makes the next access fault: `sysctl vm.compact_unevictable_allowed=0`"),
        swap(system),
        overcommit(system),
        off(system, "merging of equal pages (KSM)", "/sys/kernel/mm/ksm/run", WARN,
            "a merged page faults when it is written: `echo 2 > /sys/kernel/mm/ksm/run`"),
    ]  # fmt: skip


def swap(system: System) -> Finding:
    text, swappiness = system.read("/proc/swaps"), system.number("/proc/sys/vm/swappiness")
    if text is None:
        return unknown("swap", "/proc/swaps")
    areas = len(text.splitlines()) - 1
    if areas <= 0:
        return Finding("swap", "none", GOOD)
    found = f"{areas} area{'s' if areas > 1 else ''}, swappiness {'not known' if swappiness is None else swappiness}"
    return Finding("swap", found, WARN, "memory that is not locked may be written out: lock it, or `swapoff -a`")


def overcommit(system: System) -> Finding:
    def judge(value: int) -> tuple[str, str]:
        return (
            (WARN, "address space counts as memory: give RTMALLOC_LIMIT, or `sysctl vm.overcommit_memory=0`")
            if value == 2
            else (GOOD, "")
        )

    return setting(system, "overcommit", "/proc/sys/vm/overcommit_memory", judge)


def governors(system: System) -> Finding:
    what = "frequency governor"
    files = system.find("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    names = sorted({text for file in files if (text := System(file.parent).read(file.name))})
    if not names:
        return unknown(what, "/sys/devices/system/cpu/cpu0/cpufreq (usual in virtual machines)")
    if names == ["performance"]:
        return Finding(what, "performance", GOOD)
    return Finding(
        what, ", ".join(names), WARN, "the clock rate changes with the load: `cpupower frequency-set -g performance`"
    )


def isolation(system: System) -> list[Finding]:
    rows = []
    for what, name, parameter in (
        ("isolated processors", "isolated", "isolcpus"),
        ("processors without tick", "nohz_full", "nohz_full"),
    ):
        path = f"/sys/devices/system/cpu/{name}"
        text = system.read(path)
        if text is None:
            rows.append(unknown(what, path))
        elif text in ("", "(null)"):
            rows.append(
                Finding(
                    what,
                    "none",
                    WARN,
                    f"other work shares the processor: boot with {parameter}=LIST, pin threads with taskset",
                )
            )
        else:
            rows.append(Finding(what, text, GOOD))
    return rows


def clock(system: System) -> Finding:
    path = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    name = system.read(path)
    if name is None:
        return unknown("clock source", path)
    if name in ("tsc", "arch_sys_counter"):
        return Finding("clock source", name, GOOD)
    slow = name in ("hpet", "acpi_pm", "jiffies", "refined-jiffies")
    return Finding(
        "clock source",
        name,
        BAD if slow else WARN,
        "reading the time is slow or a call into the host: boot with clocksource=tsc, if it is stable",
    )


def timer_slack(system: System) -> Finding:
    def judge(value: int) -> tuple[str, str]:
        return (
            (GOOD, "")
            if value <= 1000
            else (WARN, "sleeps end that much later in threads that are not SCHED_FIFO: prctl(PR_SET_TIMERSLACK, 1)")
        )

    finding = setting(system, "timer slack, ns", "/proc/self/timerslack_ns", judge)
    return Finding(finding.what, finding.found, UNKNOWN) if finding.verdict == UNKNOWN else finding


def findings(system: System) -> list[Finding]:
    return [
        preemption(system),
        throttling(system),
        *huge_pages(system),
        *memory(system),
        governors(system),
        *isolation(system),
        clock(system),
        timer_slack(system),
    ]
