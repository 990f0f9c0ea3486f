"""`rtmalloc check` from its options to its exit status."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rtmalloc_tools.check import kernel, limits, program
from rtmalloc_tools.check.findings import BAD, GOOD, UNKNOWN, WARN, Finding, System
from rtmalloc_tools.printable import printable

COLOURS = {GOOD: "green", WARN: "yellow", BAD: "red", UNKNOWN: "dim"}


def findings_table(title: str, findings: Sequence[Finding]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in ("what", "found", ""):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row(
            finding.what, Text(printable(finding.found)), Text(finding.verdict, style=COLOURS[finding.verdict])
        )
    return table


def show_advice(findings: Sequence[Finding], console: Console) -> None:
    """Below the table, worst first, each on a line of its own, so that commands can be copied."""
    order = [BAD, WARN]
    advised = sorted((f for f in findings if f.advice and f.verdict in order), key=lambda f: order.index(f.verdict))
    if advised:
        console.print("What to do:")
    for finding in advised:
        line = Text(f"  {finding.verdict:<5}", style=COLOURS[finding.verdict])
        line.append(f"{finding.what}: {printable(finding.advice)}", style="default")
        console.print(line, soft_wrap=True)


def summary(findings: Sequence[Finding]) -> str:
    counts = {verdict: sum(f.verdict == verdict for f in findings) for verdict in (BAD, WARN, UNKNOWN, GOOD)}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)


def run(root: Path, command: Sequence[str], strict: bool, console: Console) -> int:
    system = System(root)
    machine = [*limits.findings(system), *kernel.findings(system)]
    of_program = program.findings(program.inspect(command[0])) if command else []
    console.print(findings_table("This machine", machine))
    if of_program:
        console.print(findings_table("The program", of_program))
    found = [*machine, *of_program]
    show_advice(found, console)
    console.print(summary(found), highlight=False)
    return 1 if strict and any(finding.verdict in (WARN, BAD) for finding in found) else 0
