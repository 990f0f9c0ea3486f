"""Runs a program on the system's malloc or on a preloaded library, and makes sure that it was."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 120


@dataclass(frozen=True)
class Allocator:
    """The malloc that a program runs on. `library` is None for the system's."""

    library: Path | None
    witness: Path
    folder: Path
    """Where the witness writes, one file for each allocator."""

    def environment(self, extra: dict[str, str] | None = None) -> dict[str, str]:
        base = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        base |= {"LC_ALL": "C.UTF-8", **(extra or {})}
        if self.library is not None:
            base |= {"LD_PRELOAD": f"{self.witness}:{self.library}", "RTM_WITNESS": str(self.testimony)}
        return base

    @property
    def testimony(self) -> Path:
        return self.folder / "mallocs.txt"

    def check_was_used(self) -> None:
        """Every process that was started so far took its malloc from the library."""
        if self.library is None:
            return
        assert self.testimony.exists(), f"{self.library} was not loaded"
        mallocs = {Path(line).resolve() for line in self.testimony.read_text().splitlines()}
        assert mallocs == {self.library}, f"malloc came from {mallocs}, expected {self.library}"

    def run(self, *command: object, env: dict[str, str] | None = None, cwd: Path | None = None) -> Output:
        """Runs the command to its end; it must succeed and, on a library, have used it."""
        if self.testimony.exists():
            self.testimony.unlink()
        words = [str(word) for word in command]
        result = subprocess.run(
            words, env=self.environment(env), cwd=cwd, capture_output=True, timeout=TIMEOUT_S, check=False
        )
        message = result.stderr.decode(errors="replace")[-2000:]
        assert result.returncode == 0, f"{words} on {self.library or 'system'}: {result.returncode}\n{message}"
        self.check_was_used()
        return Output(result.stdout, result.stderr)


@dataclass(frozen=True)
class Output:
    stdout: bytes
    stderr: bytes
