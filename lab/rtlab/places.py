"""Where things are: the project's root and the folders of build/ that rtlab reads and writes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    root: Path

    @property
    def build(self) -> Path:
        return self.root / "build"

    @property
    def rtmalloc(self) -> Path:
        return self.build / "librtmalloc.so"

    @property
    def secure(self) -> Path:
        return self.build / "librtmalloc-secure.so"

    @property
    def peers(self) -> Path:
        return self.build / "peers"

    @property
    def loads(self) -> Path:
        return self.build / "loads"

    @property
    def bench(self) -> Path:
        return self.build / "bench"

    @property
    def work(self) -> Path:
        """Inputs of the real programs, generated once, and their scratch files."""
        return self.build / "programs"

    @property
    def native_source(self) -> Path:
        return self.root / "lab" / "native"

    @property
    def native_own_build(self) -> Path:
        return self.build / "native"


PROGRAM_FILES = Path(__file__).resolve().parent / "programs"


def find_places() -> Places:
    """The project that this package was installed from (`pip install -e lab`), or RTLAB_ROOT."""
    given = os.environ.get("RTLAB_ROOT")
    return Places(Path(given).resolve() if given else Path(__file__).resolve().parents[2])
