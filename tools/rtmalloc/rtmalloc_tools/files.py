"""Files are written whole or not at all, and each failure names the file and the reason."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from rtmalloc_tools.mistakes import Mistake, reason_of


def named_path(text: str) -> Path:
    """Of an option; an empty one would be this folder."""
    if not text:
        raise Mistake("The name of the file to write is empty. Give a file name.")
    return Path(text)


def read_bytes(path: Path, what: str) -> bytes:
    """Of a regular file: a device may never end, and a FIFO never begin."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise Mistake(f"{path}: is a directory, not a {what}.")
        if not stat.S_ISREG(mode):
            raise Mistake(f"{path}: is no regular file, and cannot be read as a {what}.")
        return path.read_bytes()
    except OSError as error:
        raise Mistake(f"{path}: the {what} cannot be read: {reason_of(error)}.") from None


def default_mode() -> int:
    """What a file made by open() would get."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def behind_links(path: Path, what: str) -> Path:
    """What is written: a link stays, and what it leads to is replaced."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise Mistake(f"{path}: is a link that leads back to itself; the {what} cannot be written there.")
    return target


def write_whole(path: Path, contents: bytes, what: str) -> None:
    """A temporary file beside the target, flushed to the disk, then renamed over it."""
    target = behind_links(path, what)
    if path.is_dir():
        raise Mistake(f"{path}: is a directory; the {what} cannot be written there. Give a file name.")
    if path.exists() and not path.is_file():
        raise Mistake(f"{path}: is no regular file; the {what} cannot be written there. Give a file name.")
    temporary: str | None = None
    try:
        mode = target.stat().st_mode & 0o777 if target.exists() else default_mode()
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        temporary = None
        flush_folder(target.parent)
    except OSError as error:
        raise Mistake(f"{path}: the {what} cannot be written: {reason_of(error)}.") from None
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def flush_folder(folder: Path) -> None:
    """The rename itself reaches the disk; some file systems do not offer this."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
