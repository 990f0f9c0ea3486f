"""Where the library is: in the checkout that this package belongs to, or installed."""

from __future__ import annotations

import os
from pathlib import Path

from rtmalloc_tools.mistakes import Mistake

LIBRARY = "librtmalloc.so"


def checkout() -> Path:
    """The folder that holds tools/rtmalloc, if this is an editable install (`pip install -e tools/rtmalloc`)."""
    return Path(__file__).resolve().parents[3]


def installed_folders() -> list[Path]:
    prefixes = [Path(prefix) for prefix in ("/usr/local", "/usr")]
    folders = [prefix / "lib" / sub for prefix in prefixes for sub in ("", "x86_64-linux-gnu", "aarch64-linux-gnu")]
    return [Path(entry) for entry in os.environ.get("LD_LIBRARY_PATH", "").split(":") if entry] + folders


def library_candidates() -> list[Path]:
    return [checkout() / "build" / LIBRARY, *(folder / LIBRARY for folder in installed_folders())]


def find_library(given: Path | None) -> Path:
    """The library given, else the checkout's, else the installed one; its absolute path."""
    if given is not None:
        if given.is_dir():
            given = given / LIBRARY
        if not given.is_file():
            wrong = "is no regular file" if given.exists() else "there is no such library"
            raise Mistake(f"{given}: {wrong}. Give the path of {LIBRARY} with --library.")
        return given.resolve()
    for candidate in library_candidates():
        if candidate.is_file():
            return candidate.resolve()
    looked = ", ".join(str(candidate.parent) for candidate in library_candidates())
    raise Mistake(f"{LIBRARY} is in none of {looked}. Build it with `make`, or name it with --library.")
