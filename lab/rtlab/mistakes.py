"""Errors that the user can do something about, and the sentence that says what."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class Mistake(Exception):
    """What was given, what was expected, what to do. Shown without a traceback; exit status 2."""


def unknown_name(kind: str, given: str, known: Iterable[str]) -> Mistake:
    """The error for a name that is not in `known`, with the nearest one that is."""
    names = list(known)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.4)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return Mistake(f"Unknown {kind} '{given}'.{hint} Known: {', '.join(names) or 'none'}.")


def choose(kind: str, given: str | None, known: Iterable[str], default: Iterable[str]) -> list[str]:
    """The names in a comma-separated option, checked; `default` if the option was not given."""
    if given is None:
        return list(default)
    names = list(known)
    chosen = [name.strip() for name in given.split(",") if name.strip()]
    if not chosen:
        raise Mistake(f"No {kind} in '{given}': give names separated by commas, of {names}.")
    for name in chosen:
        if name not in names:
            raise unknown_name(kind, name, names)
    return list(dict.fromkeys(chosen))
