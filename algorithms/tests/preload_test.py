"""Real programs on one preloadable library, and its messages. Usage: preload_test.py NAME LIBRARY"""

import re
import sys
import tempfile
from pathlib import Path

from preload_programs import check_programs, expect, run

NAME, LIBRARY = sys.argv[1], sys.argv[2]
SECOND_FREE = """
import ctypes
c = ctypes.CDLL(None)
c.malloc.restype = ctypes.c_void_p
p = c.malloc(ctypes.c_size_t(5000))
c.free(ctypes.c_void_p(p))
c.free(ctypes.c_void_p(p))
"""
# What the first use of 40 MiB costs: page faults, and locked memory in KiB.
USE = """
import ctypes, resource
c = ctypes.CDLL(None)
c.malloc.restype = ctypes.c_void_p
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
block = c.malloc(ctypes.c_size_t(40 << 20))
ctypes.memset(block, 1, 40 << 20)
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults, open("/proc/self/status").read().split("VmLck:")[1].split()[0])
"""


def check_profile() -> None:
    """A recorded run finds its memory made and locked; a smaller run does not shrink the profile."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder, "profile")
        plain = run(LIBRARY, sys.executable, "-c", USE, ALGORITHM_SAVE=str(profile))
        text = profile.read_text()
        found = re.fullmatch(rf"{NAME} profile 1\nbytes (\d+)\n", text)
        expect(found is not None and int(found[1]) > 40 << 20, f"recorded: {text!r}", plain)
        run(LIBRARY, sys.executable, "-c", "0", ALGORITHM_SAVE=str(profile))
        expect(profile.read_text() == text, f"a smaller run wrote {profile.read_text()!r}", plain)
        loaded = run(LIBRARY, sys.executable, "-c", USE, ALGORITHM_LOAD=str(profile))
        expect(loaded.returncode == 0, "with the profile", loaded)
        if "cannot lock" in loaded.stderr:
            return
        faults, locked = map(int, loaded.stdout.split())
        expect(int(plain.stdout.split()[0]) > 10000 and faults < 100, "page faults remain", loaded)
        expect(locked * 1024 > 40 << 20, "not locked", loaded)
        check_programs(LIBRARY, ALGORITHM_LOAD=str(profile))
        profile.write_text(text.replace(NAME, f"no-{NAME}"))
        other = run(LIBRARY, sys.executable, "-c", "0", ALGORITHM_LOAD=str(profile))
        expect(other.returncode == 2 and "it is none of this allocator" in other.stderr, "another's profile", other)
        other = run(LIBRARY, sys.executable, "-c", "0", ALGORITHM_SAVE=str(profile))
        expect("cannot join the profile" in other.stderr, "recorded over another's profile", other)
        none = run(LIBRARY, sys.executable, "-c", "0", ALGORITHM_LOAD=f"{folder}/none")
        expect(none.returncode == 2 and "No such file or directory" in none.stderr, "a profile that is not there", none)


def main() -> None:
    check_programs(LIBRARY)
    check_profile()

    small = run(LIBRARY, sys.executable, "-c", "x = bytearray(10**7)", ALGORITHM_AREA="4000000")
    expect("no block for a request of" in small.stderr and small.returncode != 0, "exhaustion is not reported", small)
    expect(small.stderr.count(f"{NAME}-preload: no block") == 1, "exhaustion is not reported once", small)
    none = run(LIBRARY, sys.executable, "-c", "0", ALGORITHM_AREA="30")
    expect(none.returncode == 2 and "no heap fits into 30 bytes" in none.stderr, "an area of 30 bytes", none)
    wrong = run(LIBRARY, sys.executable, "-c", "0", ALGORITHM_AREA="many")
    expect(wrong.returncode == 2 and "ALGORITHM_AREA is 'many'" in wrong.stderr, "ALGORITHM_AREA=many", wrong)

    twice = run(LIBRARY, sys.executable, "-c", SECOND_FREE)
    expect(twice.returncode == -6 and "freed twice" in twice.stderr, "a second free is not seen", twice)
    print(f"{NAME}: python, lua, gcc and {Path(LIBRARY).name}'s messages are fine")


main()
