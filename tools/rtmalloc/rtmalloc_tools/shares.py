"""A share as people write it."""

from __future__ import annotations

import re

from rtmalloc_tools.mistakes import Mistake


def share(text: str) -> float:
    """'5%' or '0.05' as a fraction."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text)
    if not found:
        raise Mistake(f"Headroom '{text}' is not understood; expected a share such as 5% or 0.05.")
    value = float(found[1]) / (100 if found[2] else 1)
    if value > 1:
        raise Mistake(f"Headroom '{text}' is more than the profile itself; expected a share such as 5% or 0.05.")
    return value
