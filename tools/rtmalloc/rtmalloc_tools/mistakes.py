"""Errors that the user can do something about, and the sentence that says what."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class Mistake(Exception):
    """What was given, what was expected, what to do. Shown without a traceback; exit status 2."""


def nearest(given: str, known: Iterable[str]) -> str | None:
    near = difflib.get_close_matches(given, list(known), n=1, cutoff=0.4)
    return near[0] if near else None


def unknown_name(kind: str, given: str, known: Iterable[str]) -> Mistake:
    """The error for a name that is not in `known`, with the nearest one that is."""
    names = list(known)
    near = nearest(given, names)
    hint = f" Did you mean '{near}'?" if near else ""
    return Mistake(f"Unknown {kind} '{given}'.{hint} Known: {', '.join(names) or 'none'}.")


def reason_of(error: OSError) -> str:
    """The system's words for an error, without the path, which the caller names."""
    return (error.strerror or str(error)).lower()
