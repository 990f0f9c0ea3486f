"""The certificate as one HTML page that needs nothing else, to hand to an auditor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2

from rtmalloc_tools.bound.certificate import Certificate
from rtmalloc_tools.bound.listing import Line
from rtmalloc_tools.bound.show import WORDS, number, verdict_words

TEMPLATE = Path(__file__).with_name("certificate.html")


def render(certificate: Certificate, paths: Mapping[str, Sequence[Line]]) -> str:
    """`paths`: the longest path of each row, by the row's name."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string(TEMPLATE.read_text())
    return template.render(
        certificate=certificate, paths=paths, number=number, words=WORDS, verdict_words=verdict_words, blocks=blocks
    )


def blocks(lines: Sequence[Line]) -> str:
    """The listing as text in columns: count so far, times, address, instruction, function, source."""
    executed = 0
    out: list[str] = []
    for line in lines:
        executed += line.times
        indent = "  " * line.depth
        if line.address:
            times = f"x{line.times}" if line.times > 1 else ""
            code = f"{indent}{line.address:x}  {line.text}"
            out.append(f"{executed:>6} {times:>5}  {code:<64} {line.function}  {line.source}".rstrip())
        else:
            out.append(f"{executed:>6}        {indent}-- {line.text}")
    return "\n".join(out)
