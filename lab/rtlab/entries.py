"""What a benchmark entry is: one program with its arguments, started once per run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Client:
    """For a server: the command that loads it, run without preload until it ends; then the server is stopped."""

    command: tuple[str, ...]
    socket: Path  # exists once the server is ready


@dataclass(frozen=True)
class Entry:
    name: str
    kind: Literal["load", "program"]
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None  # emptied before each run, and the working folder
    output: Literal["stdout", "none"] = "stdout"  # what must be the same under each allocator
    output_file: Path | None = None  # this file too
    time: Literal["wall", "cpu"] = "wall"  # which time is compared
    client: Client | None = None
    own_malloc: bool = False  # linked with an allocator: 'glibc' must be preloaded to be used


@dataclass(frozen=True)
class Absent:
    """An entry that cannot run here, and why in a word."""

    name: str
    reason: str


# Given the folder for generated inputs and the scale; called once, before the first run.
Maker = Callable[[Path, float], Entry | Absent]
