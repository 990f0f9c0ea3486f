"""Real programs on one preloadable library, and its messages. Usage: preload_test.py NAME LIBRARY"""

import sys
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


def main() -> None:
    check_programs(LIBRARY)

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
