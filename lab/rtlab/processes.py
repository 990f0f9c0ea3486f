"""Running the tools that build and prepare things (not the measured programs: see measuring.py)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

LAST_LINES = 15


class Failed(Exception):
    """A tool ended with an error; the text holds the command and the end of what it printed."""


def run_tool(
    command: Sequence[str | Path],
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Runs a command to its end and returns its standard output."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise Failed(f"'{words[0]}' is not installed") from None
    if done.returncode != 0:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-LAST_LINES:])
        raise Failed(f"'{' '.join(words)}' ended with status {done.returncode}:\n{end}")
    return done.stdout
