"""redis-server holds the same data, after redis-benchmark, on the library as on the system's malloc."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from preloaded import TIMEOUT_S, Allocator

Find = Callable[[str], str]
BENCHMARKED = "set,get,incr,lpush,rpop,sadd,hset,zadd,mset"


@contextlib.contextmanager
def server(allocator: Allocator, program: Find) -> Iterator[Path]:
    """A server on a socket of its own, without a port; it is killed at the end, whatever happens."""
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:  # pytest's paths are too long for a socket
        socket = Path(folder) / "socket"
        options = ("--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", folder)
        command = [program("redis-server"), *options, "--enable-debug-command", "yes"]
        if allocator.testimony.exists():
            allocator.testimony.unlink()
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(word) for word in command], env=allocator.environment(), stdout=output, stderr=output
            )
        try:
            for _ in range(200):
                if socket.exists() or process.poll() is not None:
                    break
                time.sleep(0.05)
            assert process.poll() is None and socket.exists(), log.read_text()
            allocator.check_was_used()
            if allocator.library is not None:
                assert str(allocator.library) in Path(f"/proc/{process.pid}/maps").read_text()
            yield socket
            assert process.poll() is None, f"the server died\n{log.read_text()[-3000:]}"
        finally:
            process.kill()
            process.wait()


def deterministic_commands(count: int) -> bytes:
    """Strings, lists, hashes and sorted sets of many sizes; some deleted, some grown."""
    lines = []
    for i in range(count):
        lines.append(f"SET string:{i % 997} {'s' * (i * 37 % 5000 + 1)}")
        lines.append(f"APPEND string:{i % 499} {'a' * (i % 300 + 1)}")
        lines.append(f"RPUSH list:{i % 31} {'l' * (i % 100 + 1)}")
        lines.append(f"HSET hash:{i % 53} field{i % 700} {'h' * (i % 200 + 1)}")
        lines.append(f"ZADD sorted:{i % 17} {i} member{i % 900}")
        if i % 5 == 0:
            lines.append(f"DEL string:{i * 3 % 997} list:{i % 29}")
    return "\n".join(lines).encode()


def contents(allocator: Allocator, program: Find, scale: int) -> tuple[bytes, bytes]:
    """The digest and the dumps of the data, loaded into a server that has served a benchmark."""
    requests = 3000 * scale
    with server(allocator, program) as socket:
        benchmark = ("-s", socket, "-n", requests, "-c", 20, "-d", 500, "-r", 1000, "-q", "-t", BENCHMARKED)
        result = allocator.run(program("redis-benchmark"), *benchmark)
        assert b"requests per second" in result.stdout and b"rror" not in result.stdout + result.stderr
        client = [program("redis-cli"), "-s", str(socket)]

        def ask(*words: str, stdin: bytes | None = None) -> bytes:
            run = subprocess.run([*client, *words], input=stdin, capture_output=True, timeout=TIMEOUT_S, check=True)
            return run.stdout

        ask("FLUSHALL")
        replies = ask(stdin=deterministic_commands(2000 * scale))
        assert b"ERR" not in replies
        keys = sorted(ask("--raw", "KEYS", "*").decode().split())
        assert len(keys) > 500
        # Hashes have an order of their own in every process; the digest covers them.
        dumps = ask(stdin="\n".join(f"DUMP {key}" for key in keys if not key.startswith("hash")).encode())
        return ask("DEBUG", "DIGEST"), dumps


def test_data_after_a_benchmark(system: Allocator, preloaded: Allocator, scale: int, program: Find) -> None:
    expected = contents(system, program, scale)
    assert len(expected[0].strip()) == 40
    assert contents(preloaded, program, scale) == expected
