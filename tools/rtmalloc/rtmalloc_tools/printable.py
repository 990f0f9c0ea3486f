"""Names that come from files, as they may go to a terminal."""

from __future__ import annotations

SURROGATES = range(0xDC80, 0xDD00)  # bytes that are not UTF-8, as errors="surrogateescape" reads them


def printable(text: str) -> str:
    """With what a terminal would obey, and bytes that are not UTF-8, written as Python writes them: `\\x1b`."""
    return text if text.isprintable() else "".join(map(one_printable, text))


def one_printable(character: str) -> str:
    if character.isprintable():
        return character
    if ord(character) in SURROGATES:
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
