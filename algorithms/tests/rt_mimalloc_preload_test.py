"""Real programs on a library of RT-Mimalloc, in its settings, with profiles, and its messages.

Usage: rt_mimalloc_preload_test.py KIND LIBRARY, with KIND preload (any setting) or the setting that it is fixed to.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from preload_programs import check_programs, expect, run

KIND, LIBRARY = sys.argv[1], sys.argv[2]
SETTINGS = ("original", "seg", "pag") if KIND == "preload" else (KIND,)
# 3000 threads start and end, four at a time, and leave blocks to the others.
THREADS = """
import queue, threading
left = queue.Queue()
def work(k):
    left.put([bytearray(100 + k % 1000) for _ in range(20)])
    if left.qsize() > 50:
        left.get()
for start in range(750):
    threads = [threading.Thread(target=work, args=(start * 4 + k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
import ctypes
check = ctypes.CDLL(None).rt_mimalloc_check
check.restype = ctypes.c_char_p
print(left.qsize(), check())
"""


def with_profile(setting: str, profile: Path) -> None:
    """Recorded, recorded again, loaded: the profile that the loaded run would write is the same."""
    load = [sys.executable, "-c", "x = [[i] * (i % 500) for i in range(3000)]; print(len(x))"]
    for _ in range(2):
        got = run(LIBRARY, *load, RT_MIMALLOC_SETTING=setting, RT_MIMALLOC_SAVE=str(profile))
        expect(got.returncode == 0 and got.stderr == "", f"{setting}: recording", got)
    recorded = profile.read_text()
    environment = {"RT_MIMALLOC_SETTING": setting, "RT_MIMALLOC_LOAD": str(profile)}
    again = profile.with_suffix(".again")
    got = run(LIBRARY, *load, **environment, RT_MIMALLOC_SAVE=str(again))
    expect(got.returncode == 0 and got.stdout == "3000\n", f"{setting}: with its profile", got)
    expect(again.read_text() == recorded, f"{setting}: the profile did not cover its own load", got)
    check_programs(LIBRARY, **environment)


def refused(what: str, got: subprocess.CompletedProcess[str]) -> None:
    expect(got.returncode == 2 and what in got.stderr and got.stdout == "", f"no message with {what!r}", got)


def main() -> None:
    nothing = [sys.executable, "-c", "print(0)"]
    with tempfile.TemporaryDirectory() as folder:
        for setting in SETTINGS:
            check_programs(LIBRARY, RT_MIMALLOC_SETTING=setting)
            got = run(LIBRARY, sys.executable, "-c", THREADS, RT_MIMALLOC_SETTING=setting)
            expect(got.stdout == "50 None\n" or got.stdout == "51 None\n", f"{setting}: threads", got)
            if setting != "original":
                with_profile(setting, Path(folder, setting))
        bad = Path(folder, "bad")
        bad.write_text("nonsense\n")
        loading = {"RT_MIMALLOC_SETTING": SETTINGS[-1], "RT_MIMALLOC_LOAD": str(bad)}
        reason = "is 'nothing'" if SETTINGS[-1] == "original" else "'nonsense' where 'rt-mimalloc profile 1'"
        refused(reason, run(LIBRARY, *nothing, **loading))
    refused("RT_MIMALLOC_SETTING is 'page', wanted", run(LIBRARY, *nothing, RT_MIMALLOC_SETTING="page"))
    if KIND == "preload":
        wrong = run(LIBRARY, *nothing, RT_MIMALLOC_EXTEND="three")
        refused("RT_MIMALLOC_EXTEND is 'three', wanted proportional or two or whole", wrong)
    print(f"{Path(LIBRARY).name}: python, lua and gcc, threads, profiles and messages are fine")


main()
