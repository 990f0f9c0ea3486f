"""Table VI's ordering, by exact counts on the synthetic load: original, then seg and pag with their profiles.

Usage: rt_mimalloc_instructions_test.py STEPCOUNT SYNTHETIC ORIGINAL SEG PAG
"""

import csv
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

STEPCOUNT, SYNTHETIC = sys.argv[1:3]
LIBRARIES = dict(zip(("original", "seg", "pag"), sys.argv[3:6], strict=True))
# Held so long that small pages become full.
LOAD = ["--mallocs", "2000", "--hold", "200"]
# Of the paper's first four rows; the name in page.c and segment.c.
INNER = ("page_free_list_extend", "rtmi_segment_find_free", "rtmi_page_queue_push", "rtmi_page_queue_remove")

Counts = dict[str, list[int]]


def record(setting: str, folder: Path) -> dict[str, str]:
    """The environment that loads a profile of the same load."""
    profile = str(folder / setting)
    environment = {**os.environ, "LD_PRELOAD": LIBRARIES[setting], "RT_MIMALLOC_SAVE": profile}
    subprocess.run([SYNTHETIC, *LOAD], env=environment, check=True, stderr=subprocess.DEVNULL)
    return {**os.environ, "RT_MIMALLOC_LOAD": profile}


def count(setting: str, folder: Path, environment: dict[str, str]) -> Counts:
    file = folder / "functions.csv"
    command = [STEPCOUNT, "--preload", LIBRARIES[setting], "--functions", str(file), "--", SYNTHETIC, *LOAD]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    counts: Counts = {}
    with file.open() as stream:
        for row in csv.DictReader(stream):
            counts.setdefault(row["function"], []).append(int(row["instructions"]))
    return counts


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        original = count("original", folder, dict(os.environ))
        seg = count("seg", folder, record("seg", folder))
        pag = count("pag", folder, record("pag", folder))
    wrong = []

    def expect(holds: bool, what: str) -> None:
        print("ok  " if holds else "FAIL", what)
        wrong.extend([] if holds else [what])

    for function in ("malloc", *INNER):
        was, now = original[function], seg[function]
        expect(max(now) < max(was), f"seg: the maximum of {function} falls from {max(was)} to {max(now)}")
        before, after = statistics.pvariance(was), statistics.pvariance(now)
        expect(after < before, f"seg: the variance of {function} falls from {before:.0f} to {after:.0f}")
    expect(max(seg["malloc"]) < max(original["malloc"]) / 2, "seg: the maximum of malloc falls to less than half")
    expect(max(pag["malloc"]) < max(seg["malloc"]), f"pag: malloc takes {max(pag['malloc'])} at most, less than seg")
    expect(max(pag["free"]) <= max(seg["free"]), f"pag: free takes {max(pag['free'])} at most, seg {max(seg['free'])}")
    for function in ("page_free_list_extend", "rtmi_segment_find_free", "rtmi_segment_alloc", "mmap"):
        expect(function not in pag, f"pag: {function} is not called once the profile is loaded")
    expect("rtmi_segment_alloc" not in seg and "mmap" not in seg, "seg: no segment is made once the profile is loaded")
    for counts, setting in ((seg, "seg"), (pag, "pag")):
        expect("rtmi_heap_collect_retired" not in counts, f"{setting}: retired pages are not collected")
    sys.exit(1 if wrong else 0)


main()
