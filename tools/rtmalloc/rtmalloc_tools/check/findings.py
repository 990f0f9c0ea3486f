"""What a check says, and the files it reads: below a root, so that tests can bring their own machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

GOOD, WARN, BAD, UNKNOWN = "good", "warn", "bad", "not known"


@dataclass(frozen=True)
class Finding:
    what: str
    found: str
    verdict: str
    advice: str = ""


@dataclass(frozen=True)
class System:
    root: Path = Path("/")

    def read(self, path: str) -> str | None:
        """A file's text without white space around it; None if there is none, or it may not be read."""
        try:
            return (self.root / path.lstrip("/")).read_text(errors="replace").strip()
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        text = self.read(path)
        try:
            return int(text) if text is not None else None
        except ValueError:
            return None

    def find(self, pattern: str) -> list[Path]:
        try:
            return sorted(self.root.glob(pattern.lstrip("/")))
        except OSError:
            return []


def unknown(what: str, path: str) -> Finding:
    return Finding(what, f"no {path}", UNKNOWN)


def setting(system: System, what: str, path: str, judge: Callable[[int], tuple[str, str]]) -> Finding:
    """A setting that is a number: `judge` gives its verdict and the advice."""
    value = system.number(path)
    if value is None:
        return unknown(what, path)
    verdict, advice = judge(value)
    return Finding(what, str(value), verdict, "" if verdict == GOOD else advice)
