"""Runs one entry once on one allocator, and says what it used and how it ended.

The time and memory come from the runner lab/native/measure.c (wait4); why not from Python is said there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rtlab.allocators import Allocator, system_library
from rtlab.entries import Entry
from rtlab.native import Native

SERVER_START_S = 10.0
POLL_S = 0.01


@dataclass(frozen=True)
class Run:
    """One run. Times in seconds, memory in MiB; the status is 'ok' or begins with X."""

    wall_s: float
    user_s: float
    system_s: float
    peak_mib: float
    status: str
    output: str  # digest of what must be the same under each allocator
    client_s: float | None = None  # for a server: how long its client ran

    @classmethod
    def failed(cls, status: str) -> Run:
        return cls(0, 0, 0, 0, status, "")

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s


def ending(exit_status: int, signal_number: int, timed_out: bool, complaint: str) -> str:
    """`ok`, or X and the reason in a word."""
    if "cannot be preloaded" in complaint:
        return "X not preloaded"
    if timed_out:
        return "X timeout"
    if signal_number:
        with contextlib.suppress(ValueError):
            return f"X {signal.Signals(signal_number).name}"
        return f"X signal {signal_number}"
    return "ok" if exit_status == 0 else f"X exit {exit_status}"


def essential_output(text: bytes) -> bytes:
    """The checksum lines if there are any, else everything."""
    lines = [line for line in text.splitlines() if re.search(rb"\bchecksum [0-9a-f]+", line)]
    return b"\n".join(lines) if lines else text


def digest(*parts: bytes) -> str:
    joined = hashlib.sha256()
    for part in parts:
        joined.update(hashlib.sha256(part).digest())
    return joined.hexdigest()[:16]


def output_of(entry: Entry, standard_output: Path) -> str:
    parts = []
    if entry.output == "stdout":
        parts.append(essential_output(standard_output.read_bytes()))
    if entry.output_file is not None:
        parts.append(entry.output_file.read_bytes() if entry.output_file.is_file() else b"")
    return digest(*parts) if parts else ""


def preload(entry: Entry, allocator: Allocator, before: Path | None = None) -> str:
    """LD_PRELOAD for this run; `before` (the probe) comes first."""
    library = allocator.library
    if library is None and entry.own_malloc:
        library = system_library("libc.so.6")
    return " ".join(str(path) for path in (before, library) if path is not None)


def run_client(entry: Entry, server: subprocess.Popen[bytes], limit_s: float) -> float | None:
    """Waits for the server, loads it, stops it. The client's seconds, None if it did not end well."""
    client = entry.client
    assert client is not None
    deadline = time.monotonic() + SERVER_START_S
    while not client.socket.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            return None
        time.sleep(POLL_S)
    start = time.monotonic()
    try:
        done = subprocess.run(
            client.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    finally:
        server.send_signal(signal.SIGTERM)
    return time.monotonic() - start if done.returncode == 0 else None


def prepare_folder(entry: Entry) -> None:
    if entry.folder is not None:
        shutil.rmtree(entry.folder, ignore_errors=True)
        entry.folder.mkdir(parents=True)
    if entry.output_file is not None:
        entry.output_file.unlink(missing_ok=True)
    if entry.client is not None:
        entry.client.socket.unlink(missing_ok=True)


def stop(runner: subprocess.Popen[bytes]) -> None:
    """Ends the command with everything it started, whatever state it is in."""
    if runner.poll() is None:
        runner.send_signal(signal.SIGINT)  # measure kills its command's process group
        runner.wait()


def measure(
    native: Native,
    entry: Entry,
    allocator: Allocator,
    limit_s: int,
    probe_report: Path | None = None,
) -> Run:
    """Runs the entry once. With `probe_report` the probe comes first and writes there (the times then mean little)."""
    prepare_folder(entry)
    extra: Mapping[str, str] = {
        "RTLAB_PRELOAD": preload(entry, allocator, native.probe if probe_report else None),
        **allocator.environment,
        **({"RTLAB_PROBE": str(probe_report)} if probe_report else {}),
        **entry.environment,
    }
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    client_s = None
    with tempfile.TemporaryDirectory(prefix="rtlab-") as temporary:
        out, err, result = (Path(temporary) / name for name in ("out", "err", "result"))
        with out.open("wb") as out_file, err.open("wb") as err_file:
            runner = subprocess.Popen(
                [native.measure, result, str(limit_s), *entry.command],
                stdin=subprocess.DEVNULL,
                stdout=out_file,
                stderr=err_file,
                env={**environment, **extra},
                cwd=entry.folder,
                start_new_session=True,  # Ctrl-C reaches us only, and we stop it
            )
            try:
                if entry.client is not None:
                    client_s = run_client(entry, runner, limit_s)
                runner.wait()
            finally:
                stop(runner)
        used = json.loads(result.read_text())
        complaint = err.read_text(errors="replace")
        status = ending(used["exit"], used["signal"], used["timed_out"], complaint)
        if status == "ok" and entry.client is not None and client_s is None:
            status = "X client"
        return Run(
            wall_s=used["wall_ns"] / 1e9,
            user_s=used["user_ns"] / 1e9,
            system_s=used["system_ns"] / 1e9,
            peak_mib=used["peak_kib"] / 1024,
            status=status,
            output=output_of(entry, out) if status == "ok" else "",
            client_s=client_s,
        )
