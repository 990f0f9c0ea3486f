"""The certificate on the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rtmalloc_tools.bound.certificate import Certificate, Entry, OtherName
from rtmalloc_tools.bound.listing import Line

SHARES_SHOWN = 12
COLOURS = {"ok": "green", "loose": "yellow"}
WORDS = {
    "exit": "Exits: a path ends there",
    "linear": "Linear: run, counted apart",
    "outside": "Outside: run, not in the bound",
    "external": "Of another library: counted as declared",
}


def number(value: int | float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def rows_table(certificate: Certificate) -> Table:
    table = Table(title="Most instructions of one operation", title_justify="left")
    for heading in ("mode", "operation", "kind"):
        table.add_column(heading, no_wrap=True)
    for heading in ("proven", "observed", "ratio", "limit"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    for row in certificate.rows:
        colour = COLOURS.get(row.verdict, "red")
        table.add_row(
            row.mode,
            row.operation,
            row.kind,
            number(row.proven),
            number(row.observed),
            number(row.ratio),
            number(row.limit),
            f"[{colour}]{verdict_words(row)}[/]",
        )
    return table


def verdict_words(row: Entry) -> str:
    match row.verdict:
        case "loose":
            return f"loose: ratio above {row.ratio_most:g}"
        case "refused":
            return f"REFUSED: {len(row.problems)} problem{'s' if len(row.problems) > 1 else ''}, below"
        case "below observed":
            return "WRONG: more was observed"
        case "over limit":
            return "OVER the limit"
        case "ok" if row.limit is None:
            return "no limit"
    return row.verdict


def other_names_table(certificate: Certificate) -> Table | None:
    if not certificate.other_names:
        return None
    table = Table(title="The same by other names: at most so many instructions more", title_justify="left")
    table.add_column("function", overflow="fold")
    table.add_column("as the rows of", overflow="fold")
    for heading in ("rows", "more", "limit"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    for other in certificate.other_names:
        colour = COLOURS.get(other.verdict, "red")
        words = {"refused": "REFUSED: below", "over limit": "OVER the limit"}.get(other.verdict, other.verdict)
        table.add_row(
            other.name, other.like, str(other.rows), number(other.more), str(other.limit), f"[{colour}]{words}[/]"
        )
    return table


def reasons_table(certificate: Certificate) -> Table:
    """Each function left out, once for each reason, with the rows that meet it."""
    table = Table(title="What is not counted, or as declared, and why", title_justify="left")
    for heading in ("how", "function", "why", "rows"):
        table.add_column(heading, overflow="fold")
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in certificate.rows:
        for left in row.left:
            found.setdefault((left.how, left.name, left.reason), []).append(row.name)
    order = list(WORDS)
    for (how, name, reason), rows in sorted(found.items(), key=lambda item: (order.index(item[0][0]), item[0][1])):
        shown = in_short(rows, len(certificate.rows))
        table.add_row(how, name, Text(reason), shown)
    return table


def in_short(rows: list[str], of: int) -> str:
    """Which rows; JSON and the page name them all."""
    return f"all {of}" if len(rows) == of else ", ".join(rows) if len(rows) <= 2 else f"{len(rows)} of {of}"


def loops_table(certificate: Certificate) -> Table | None:
    found = {
        (loop.function, loop.source, loop.most, loop.linear, loop.reason)
        for row in certificate.rows
        for loop in row.loops
    }
    if not found:
        return None
    table = Table(title="Declared loops", title_justify="left")
    for heading in ("function", "source", "charged", "why"):
        table.add_column(heading, overflow="fold")
    for function, source, most, linear, reason in sorted(found):
        table.add_row(function, source, f"{most}, linear" if linear else str(most), Text(reason))
    return table


def show(certificate: Certificate, console: Console) -> None:
    facts = certificate.library
    console.print(
        f"{facts['path']}  build-id {facts['build_id'][:16]}  {facts['compiler']}", markup=False, highlight=False
    )
    console.print(rows_table(certificate))
    others = other_names_table(certificate)
    if others:
        console.print(others)
    console.print(reasons_table(certificate))
    loops = loops_table(certificate)
    if loops:
        console.print(loops)
    show_memory(certificate, console)
    show_problems(certificate, console)


def show_memory(certificate: Certificate, console: Console) -> None:
    if certificate.memory is None:
        return
    table = Table(title=escape(f"Most memory, by {certificate.memory['profile']}"), title_justify="left")
    table.add_column("mode")
    for heading in ("bytes", "blocks", "metadata"):
        table.add_column(heading, justify="right")
    table.add_column("what it is")
    for mode in ("pag", "seg"):
        figure = certificate.memory[mode]
        counts = [f"{figure[key]:,}" for key in ("bytes", "blocks_bytes", "metadata_bytes")]
        table.add_row(mode, *counts, figure["meaning"])
    console.print(table)


def complaint(found: Entry | OtherName) -> str | None:
    """About a bound that is proven."""
    match found:
        case Entry(verdict="below observed"):
            seen = f"{found.observed} instructions were observed, {found.proven} are proven"
            return f"WRONG {found.name}: {seen}: a hole in it"
        case Entry(verdict="over limit"):
            return f"OVER {found.name}: {found.proven} instructions are proven, {found.limit} are permitted"
        case OtherName(verdict="over limit"):
            return f"OVER {found.name}: {found.more} instructions more are proven, {found.limit} are permitted"
    return None


def show_problems(certificate: Certificate, console: Console) -> None:
    """Each problem once, with the rows and other names that meet it."""
    meeting: dict[str, list[str]] = {}
    for found in (*certificate.rows, *certificate.other_names):
        for problem in found.problems:
            meeting.setdefault(problem.text, []).append(f"  by {found.name}: {problem.way}")
        if text := complaint(found):
            console.print(text, markup=False, style="red", highlight=False, soft_wrap=True)
    for problem_text, ways in meeting.items():
        console.print(f"REFUSED: {problem_text}", markup=False, style="red", highlight=False, soft_wrap=True)
        more = [f"  and by {len(ways) - 2} more rows"] if len(ways) > 2 else []
        for way in [*ways[:2], *more]:
            console.print(way, markup=False, highlight=False, soft_wrap=True)


def show_path(name: str, lines: Iterable[Line], console: Console) -> None:
    console.print(f"The longest path of {name}:", markup=False)
    executed = 0
    share: dict[str, int] = {}
    for line in lines:
        executed += line.times
        indent = "  " * line.depth
        if not line.address:
            console.print(f"{executed:>6}        {indent}-- {line.text}", markup=False, highlight=False, soft_wrap=True)
            continue
        times = f"x{line.times}" if line.times > 1 else ""
        share[line.function] = share.get(line.function, 0) + line.times
        text = f"{executed:>6} {times:>5}  {indent}{line.address:x}  {line.text:<44} {line.function}  {line.source}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print("Where they are:")
    for function, count in sorted(share.items(), key=lambda item: -item[1])[:SHARES_SHOWN]:
        console.print(f"{count:>6}  {function}", markup=False, highlight=False)
