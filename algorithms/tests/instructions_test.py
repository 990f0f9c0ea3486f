"""Worst cases in instructions against the papers' figures.

Usage: instructions_test.py ALGORITHM STEPCOUNT LIBRARY LOAD
"""

import json
import subprocess
import sys

# TLSF: 2008, section 6.1. Half-fit: 2006, Table 6. The library's own entry (about 15 instructions) counts too.
LIMITS = {"tlsf": {"malloc": 160, "free": 176}, "half_fit": {"malloc": 123, "free": 167}}


def main() -> None:
    algorithm, stepcount, library, load = sys.argv[1:5]
    command = [stepcount, "--preload", library, "--json", "-", "--", load]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    if done.returncode != 0:
        sys.exit(f"stepcount failed with {done.returncode}: {done.stderr}")
    worst = {o["operation"]: o["max"] for o in json.loads(done.stdout)["operations"]}
    print(algorithm, worst, "limits", LIMITS[algorithm])
    if any(worst[operation] > limit for operation, limit in LIMITS[algorithm].items()):
        sys.exit(1)


main()
