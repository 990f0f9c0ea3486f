"""Real programs on the talloc pool, with a profile of RT-Mimalloc pag, and its messages.

Usage: talloc_pool_preload_test.py LIBRARY RT_MIMALLOC_PAG
"""

import sys
import tempfile
from pathlib import Path

from preload_programs import check_programs, expect, run

LIBRARY, RT_MIMALLOC_PAG = sys.argv[1], sys.argv[2]
# Blocks by size and alignment, and what libtalloc does not give.
SIZES = """
import ctypes
c = ctypes.CDLL(None, use_errno=True)
c.malloc.restype = c.aligned_alloc.restype = c.malloc_usable_size.restype = ctypes.c_size_t
size_t, pointer = ctypes.c_size_t, ctypes.c_void_p
first = c.malloc(size_t(70000))
c.free(pointer(first))
assert c.malloc(size_t(75000)) == first, "a freed block is the next of its size"
assert c.malloc(size_t(90000)) != first
assert c.malloc_usable_size(pointer(first)) == 81920
aligned = c.aligned_alloc(size_t(65536), size_t(100000))
assert aligned % 65536 == 0 and c.malloc_usable_size(pointer(aligned)) >= 100000
ctypes.memset(aligned, 7, 100000)
c.free(pointer(aligned))
assert c.malloc(size_t(2**28)) == 0 and ctypes.get_errno() == 12, "libtalloc gives less than 256 MiB"
assert c.malloc(size_t(2**50)) == 0 and ctypes.get_errno() == 12
print("fine")
"""
# 200 blocks of 5000 bytes in eight threads, freed by others.
THREADS = """
import queue, threading
left = queue.Queue()
def work(k):
    for i in range(200):
        left.put(bytearray(b"%c" % (k + 65)) * (5000 + i))
        if left.qsize() > 50:
            assert len(set(left.get())) == 1
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print("fine")
"""
HEAP_BYTES = """
status = open("/proc/self/status").read()
print(status.split("VmRSS:")[1].split()[0])
"""


def check(what: str, script: str, **environment: str) -> None:
    got = run(LIBRARY, sys.executable, "-c", script, **environment)
    expect(got.returncode == 0 and got.stdout == "fine\n" and got.stderr == "", what, got)


def refused(what: str, path: Path) -> None:
    got = run(LIBRARY, sys.executable, "-c", "print(0)", TALLOC_POOL_LOAD=str(path))
    expect(got.returncode == 2 and what in got.stderr and got.stdout == "", f"no message with {what!r}", got)


def main() -> None:
    check_programs(LIBRARY)
    check("sizes", SIZES)
    check("threads", THREADS)
    with tempfile.TemporaryDirectory() as name:
        profile, bad = Path(name, "profile"), Path(name, "bad")
        load = [sys.executable, "-c", "x = [[i] * (i % 500) for i in range(3000)]; print(len(x))"]
        run(RT_MIMALLOC_PAG, *load, RT_MIMALLOC_SAVE=str(profile))
        check_programs(LIBRARY, TALLOC_POOL_LOAD=str(profile))
        profile.write_text("rt-mimalloc profile 1 pages\npages 32768 20\nend\n")  # 127 blocks a page
        resident = {
            path: int(run(LIBRARY, sys.executable, "-c", HEAP_BYTES, **path_given).stdout)
            for path, path_given in (("without", {}), ("with", {"TALLOC_POOL_LOAD": str(profile)}))
        }
        grown = resident["with"] - resident["without"]  # a page of 4 KiB is touched of each, or two
        if not 20 * 127 * 4 <= grown <= 20 * 127 * 12:
            sys.exit(f"the lists are not filled: {resident} KiB resident")
        bad.write_text("rt-mimalloc profile 1 segments\nsegments small 1\nend\n")
        refused(f"'{bad}' is no profile of RT-Mimalloc pag: 'segments' where pages was expected", bad)
        refused("No such file or directory; record it with librt-mimalloc-pag.so", Path(name, "none"))
    print("talloc pool: python, lua and gcc, sizes, threads, profiles and messages are fine")


main()
