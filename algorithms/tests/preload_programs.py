"""Real programs on a preloadable library; used by the tests of the libraries."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# From the program's own allocator to malloc; threads; a fork.
PYTHON_LOAD = """
import json, threading, subprocess, os
text = json.dumps([{"n": i, "s": "x" * (i % 97)} for i in range(5000)])
results = []
def work(k):
    results.append(sum(len(d["s"]) for d in json.loads(text)) + k)
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
child = os.fork()
if child == 0:
    os._exit(7 if len(json.loads(text)) == 5000 else 8)
status = os.waitpid(child, 0)[1]
print(sorted(results), os.waitstatus_to_exitcode(status))
"""
# `malloc_usable_size` shows whose malloc it is: no other library in the process says so.
CALLS_LOAD = """
import ctypes
c = ctypes.CDLL(None, use_errno=True)
for f in ("malloc", "calloc", "realloc", "aligned_alloc", "memalign", "pvalloc", "reallocarray"):
    getattr(c, f).restype = ctypes.c_void_p
size_t, pointer = ctypes.c_size_t, ctypes.c_void_p
p = c.malloc(size_t(1000))
c.memset(pointer(p), 0xff, size_t(1000))
c.free(pointer(p))
z = c.calloc(size_t(10), size_t(100))
assert ctypes.string_at(z, 1000) == bytes(1000)
assert c.malloc_usable_size(pointer(z)) >= 1000
assert c.calloc(size_t(2**40), size_t(2**40)) is None and ctypes.get_errno() == 12
assert c.reallocarray(None, size_t(2**40), size_t(2**40)) is None and ctypes.get_errno() == 12
assert c.aligned_alloc(size_t(4096), size_t(10)) % 4096 == 0
assert c.memalign(size_t(256), size_t(10)) % 256 == 0
v = c.pvalloc(size_t(5000))
assert v % 4096 == 0 and c.malloc_usable_size(pointer(v)) >= 8192
c.free(pointer(v))
assert c.aligned_alloc(size_t(48), size_t(10)) is None and ctypes.get_errno() == 22
q = pointer()
assert c.posix_memalign(ctypes.byref(q), size_t(24), size_t(10)) == 22 and not q.value
assert c.posix_memalign(ctypes.byref(q), size_t(1024), size_t(10)) == 0 and q.value % 1024 == 0
r = c.realloc(pointer(z), size_t(50000))
assert ctypes.string_at(r, 1000) == bytes(1000)
c.free(pointer(r))
print("fine")
"""


def run(library: str, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**os.environ, "LD_PRELOAD": library, "PYTHONMALLOC": "malloc", **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def expect(condition: bool, what: str, got: subprocess.CompletedProcess[str]) -> None:
    if not condition:
        sys.exit(f"{what}\nstatus {got.returncode}\n{got.stdout}\n{got.stderr}")


def check_programs(library: str, **environment: str) -> None:
    mapped = run(library, sys.executable, "-c", "print(open('/proc/self/maps').read())", **environment)
    expect(Path(library).name in mapped.stdout, "the library is not loaded", mapped)

    plain = subprocess.run([sys.executable, "-c", PYTHON_LOAD], capture_output=True, text=True, check=True)
    python = run(library, sys.executable, "-c", PYTHON_LOAD, **environment)
    expect(python.returncode == 0 and python.stdout == plain.stdout, "python's result differs", python)
    expect(python.stderr == "", "python's standard error is not empty", python)

    calls = run(library, sys.executable, "-c", CALLS_LOAD, **environment)
    expect(calls.returncode == 0 and "fine" in calls.stdout, "a call of the malloc family is wrong", calls)

    if lua := shutil.which("lua") or shutil.which("lua5.4"):
        script = "local t={} for i=1,200000 do t[i%5000]=string.rep('a',i%300)..i end print(#t, t[77])"
        got = run(library, lua, "-e", script, **environment)
        expect(got.returncode == 0 and got.stdout.split() == ["4999", "a" * (195077 % 300) + "195077"], "lua", got)

    if gcc := shutil.which("gcc"):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "hello.c")
            source.write_text('#include <stdio.h>\nint main(void) { printf("%d\\n", 6 * 7); }\n')
            built = run(library, gcc, "-O2", "-o", f"{folder}/hello", str(source), **environment)
            expect(built.returncode == 0, "gcc", built)
            got = run(library, f"{folder}/hello", **environment)
            expect(got.stdout == "42\n", "what gcc built", got)
