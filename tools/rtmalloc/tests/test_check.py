"""`rtmalloc check` on machines made of files, and on programs compiled here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rtmalloc_tools.check import kernel, limits
from rtmalloc_tools.check.findings import BAD, GOOD, UNKNOWN, WARN, System
from rtmalloc_tools.check.program import inspect
from rtmalloc_tools.mistakes import Mistake

LIMITS = "Limit                     Soft Limit           Hard Limit           Units\n"
HUGE = "sys/kernel/mm/transparent_hugepage"
FIT = {
    "proc/self/limits": LIMITS
    + "Max locked memory         unlimited unlimited bytes\nMax realtime priority     99 99\n",
    "proc/self/status": "Name:\tx\nCapEff:\t0000000000000000\n",
    "proc/version": "Linux version 6.1.0-rt (gcc) #1 SMP PREEMPT_RT Debian\n",
    "sys/kernel/realtime": "1\n",
    "proc/sys/kernel/sched_rt_runtime_us": "-1\n",
    f"{HUGE}/enabled": "always madvise [never]\n",
    f"{HUGE}/defrag": "always defer defer+madvise madvise [never]\n",
    f"{HUGE}/khugepaged/defrag": "0\n",
    "proc/sys/kernel/numa_balancing": "0\n",
    "proc/sys/vm/compaction_proactiveness": "0\n",
    "proc/sys/vm/compact_unevictable_allowed": "0\n",
    "proc/swaps": "Filename\tType\tSize\tUsed\tPriority\n",
    "proc/sys/vm/swappiness": "60\n",
    "proc/sys/vm/overcommit_memory": "0\n",
    "sys/kernel/mm/ksm/run": "0\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/isolated": "1\n",
    "sys/devices/system/cpu/nohz_full": "1\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "proc/self/timerslack_ns": "1\n",
}


def machine(root: Path, **changes: str | None) -> System:
    """A fit machine, but for the files given by the end of their path (dots for slashes)."""
    for name, content in FIT.items():
        for key, value in changes.items():
            if name.endswith(key.replace("__", "/")):
                content = value
        if content is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
    return System(root)


def verdicts(system: System) -> dict[str, str]:
    return {finding.what: finding.verdict for finding in (*limits.findings(system), *kernel.findings(system))}


def test_a_fit_machine_is_good_in_every_row(tmp_path):
    assert set(verdicts(machine(tmp_path)).values()) == {GOOD}


def test_a_machine_without_any_of_the_files_is_not_known(tmp_path):
    found = verdicts(System(tmp_path))
    assert set(found.values()) == {UNKNOWN} and len(found) >= 18


@pytest.mark.parametrize(
    ("file", "content", "what", "verdict"),
    [
        ("limits", LIMITS + "Max locked memory 8388608 8388608 bytes\n", "locked memory (RLIMIT_MEMLOCK)", BAD),
        ("limits", LIMITS + "Max locked memory 1073741824 x bytes\n", "locked memory (RLIMIT_MEMLOCK)", WARN),
        ("limits", LIMITS + "Max realtime priority 0 0\n", "real-time priority (RLIMIT_RTPRIO)", BAD),
        ("sched_rt_runtime_us", "950000\n", "throttling of real-time threads", WARN),
        ("hugepage__enabled", "[always] madvise never", "transparent huge pages", BAD),
        ("hugepage__enabled", "always [madvise] never", "transparent huge pages", GOOD),
        ("hugepage__defrag", "always defer [madvise] never", "huge pages: defrag", WARN),
        ("numa_balancing", "1", "NUMA balancing", BAD),
        ("compaction_proactiveness", "20", "compaction in the background", WARN),
        ("compact_unevictable_allowed", "1", "compaction of locked pages", BAD),
        ("proc__swaps", "Filename Type\n/dev/sda2 partition\n", "swap", WARN),
        ("overcommit_memory", "2", "overcommit", WARN),
        ("ksm__run", "1", "merging of equal pages (KSM)", WARN),
        ("cpu1__cpufreq__scaling_governor", "powersave", "frequency governor", WARN),
        ("isolated", "\n", "isolated processors", WARN),
        ("nohz_full", "(null)\n", "processors without tick", WARN),
        ("current_clocksource", "hpet", "clock source", BAD),
        ("current_clocksource", "kvm-clock", "clock source", WARN),
        ("timerslack_ns", "50000", "timer slack, ns", WARN),
        ("overcommit_memory", "what?", "overcommit", UNKNOWN),
    ],
)
def test_each_setting_is_judged(tmp_path, file, content, what, verdict):
    assert verdicts(machine(tmp_path, **{file: content}))[what] == verdict


@pytest.mark.parametrize(
    ("version", "verdict"),
    [("SMP PREEMPT_RT", GOOD), ("SMP PREEMPT_DYNAMIC", WARN), ("SMP PREEMPT", WARN), ("SMP", BAD)],
)
def test_the_kernels_preemption(tmp_path, version, verdict):
    system = machine(tmp_path, realtime=None, proc__version=f"Linux version 6.1 #1 {version} Debian")
    assert verdicts(system)["kernel's preemption"] == verdict


def test_capabilities_lift_the_limits(tmp_path):
    mask = f"CapEff:\t{1 << limits.CAP_IPC_LOCK | 1 << limits.CAP_SYS_NICE:016x}\n"
    tight = LIMITS + "Max locked memory 65536 65536 bytes\nMax realtime priority 0 0\n"
    found = verdicts(machine(tmp_path, limits=tight, status=mask))
    assert found["locked memory (RLIMIT_MEMLOCK)"] == found["real-time priority (RLIMIT_RTPRIO)"] == GOOD


def test_strict_makes_the_exit_status(rtmalloc, tmp_path):
    fit, unfit = tmp_path / "fit", tmp_path / "unfit"
    machine(fit), machine(unfit, numa_balancing="1")
    assert rtmalloc("check", "--root", fit, "--strict")[0] == 0
    assert rtmalloc("check", "--root", unfit)[0] == 0
    status, out, _ = rtmalloc("check", "--root", unfit, "--strict")
    assert status == 1 and "sysctl kernel.numa_balancing=0" in out


MAIN = "int main(void) { return 0; }\n"


def test_a_dynamic_program_takes_the_library(build, rtmalloc, tmp_path):
    program = build(MAIN, "-no-pie", "-fno-pic", "-Wl,-z,now", suffix=".c").parent / "program"
    compile_program(program, "-Wl,-z,lazy")
    found = inspect(str(program))
    assert found.takes_preload and not found.bind_now and found.interpreter
    status, out, _ = rtmalloc("check", "--root", tmp_path, "--", program)
    assert status == 0 and "preloading works" in out and "LD_BIND_NOW=1" in out
    compile_program(program, "-Wl,-z,now")
    assert inspect(str(program)).bind_now


def compile_program(program: Path, *options: str, source: str = MAIN) -> None:
    import subprocess

    subprocess.run(["gcc", "-x", "c", "-", "-o", str(program), *options], input=source.encode(), check=True)


def test_a_static_program_does_not(rtmalloc, tmp_path, library):
    program = tmp_path / "program"
    compile_program(program, "-static")
    assert not inspect(str(program)).takes_preload
    status, out, _ = rtmalloc("check", "--root", tmp_path, "--strict", "--", program)
    assert status == 1 and "static" in out and "librtmalloc-override.o" in out
    status, _, complaint = rtmalloc("run", "--library", library, "--", program)
    assert status == 2 and "is static" in complaint


def test_a_program_with_its_own_malloc_is_named(tmp_path, build):
    program = tmp_path / "program"
    own = "#include <stddef.h>\nvoid *malloc(size_t n) { return (void *)n; }\n" + MAIN
    compile_program(program, "-rdynamic", "-fno-builtin", source=own)
    assert inspect(str(program)).own_malloc == ("malloc",)


def test_a_setuid_program_ignores_the_library(tmp_path, build):
    program = tmp_path / "program"
    compile_program(program)
    if os.geteuid():
        pytest.skip("only root can give a file to another user")
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    assert inspect(str(program)).privileged == "setuid"


def test_a_script_is_followed_to_its_interpreter(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env -S sh -e\ntrue\n")
    script.chmod(0o755)
    found = inspect(str(script))
    assert found.scripts == (script,) and found.path.name == "sh"


def test_what_is_no_program_is_named(tmp_path):
    with pytest.raises(Mistake, match="there is no such program"):
        inspect("no-such-program-anywhere")
    with pytest.raises(Mistake, match="is a directory"):
        inspect(str(tmp_path))
    with pytest.raises(Mistake, match="The program's name is empty"):
        inspect("")
    file = tmp_path / "file"
    file.write_text("hello")
    with pytest.raises(Mistake, match="chmod"):
        inspect(str(file))
    file.chmod(0o755)
    with pytest.raises(Mistake, match="neither an ELF program nor a script"):
        inspect(str(file))
