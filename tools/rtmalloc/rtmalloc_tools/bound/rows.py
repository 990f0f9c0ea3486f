"""What paths.toml says: the rows of the certificate, and what each of their paths may do. Checked when it is read."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from rtmalloc_tools.files import read_bytes
from rtmalloc_tools.mistakes import Mistake, unknown_name

MODES = ("general", "seg", "pag")
OPERATIONS = (
    "malloc",
    "operator new",
    "free",
    "remote free",
    "orphan free",
    "remote sized free",
    "remote free_sized",
    "remote aligned delete",
    "common malloc",
    "common operator new",
    "common calloc",
    "common realloc",
    "common aligned_alloc",
    "common wide aligned_alloc",
    "common first malloc",
    "sized free",
    "free_sized",
    "aligned delete",
    "calloc",
    "realloc",
    "aligned_alloc",
    "wide aligned_alloc",
    "thread create",
    "thread start",
    "thread takeover",
    "first malloc",
    "first operator new",
    "first calloc",
    "first realloc",
    "first aligned_alloc",
    "common first operator new",
    "common first calloc",
    "common first realloc",
    "common first aligned_alloc",
    "thread exit",
)
KINDS = ("page", "span", "huge", "any")
PATHS_FILE = Path(__file__).with_name("paths.toml")


class Apart(Enum):
    """How a function that a path meets is left out of the count."""

    EXIT = "exit"  # the path ends there: it cannot be reached in this row
    LINEAR = "linear"  # runs, in time linear in the block's size; counted apart
    OUTSIDE = "outside"  # runs, but general mode's bound is stated without it: the system, a thread's first call


@dataclass(frozen=True)
class Named:
    """A function that is left out, and why that is right."""

    name: str
    apart: Apart
    reason: str


@dataclass(frozen=True)
class External:
    """A function of another library with a known, constant count."""

    name: str
    instructions: int
    reason: str


@dataclass(frozen=True)
class LoopBound:
    function: str
    most: int  # times that the loop's first instruction is executed each time the loop is entered
    reason: str
    at: str = ""  # part of the source line of its test, where a function has several loops
    linear: bool = False  # so many are charged, as for a block of one segment; it is listed with the linear part


@dataclass(frozen=True)
class Row:
    mode: str
    operation: str
    kind: str
    entry: str
    named: Mapping[str, Named]
    limit: int | None = None
    note: str = ""

    @property
    def title(self) -> str:
        return f"{self.operation}/{self.kind}"

    @property
    def key(self) -> tuple[str, str, str]:
        return self.mode, self.operation, self.kind

    @property
    def sealed(self) -> bool:
        return self.mode != "general"


@dataclass(frozen=True)
class Alias:
    """Another function that does what an entry does: it follows each row with the entry, with a little more."""

    name: str  # for people: 'operator new[]'
    entry: str
    like: str  # the entry whose rows it follows
    more: int  # instructions, at most
    named: Mapping[str, Named]

    def row(self, base: Row) -> Row:
        return replace(base, entry=self.entry, named={**base.named, **self.named}, limit=None)


@dataclass(frozen=True)
class Paths:
    rows: tuple[Row, ...]
    loops: tuple[LoopBound, ...]
    externals: Mapping[str, External]
    aliases: tuple[Alias, ...] = ()


def read_paths(path: Path = PATHS_FILE) -> Paths:
    try:
        return parse(tomllib.loads(read_bytes(path, "list of paths").decode()), str(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Mistake(f"{path}: is not TOML: {error}.") from None


def parse(content: Mapping[str, Any], name: str) -> Paths:
    known = ("group", "row", "alias", "loop", "external")
    for key in content:
        if key not in known:
            raise Mistake(f"{name}: {unknown_name('table', key, known)}")
    groups = {title: read_group(name, title, group) for title, group in content.get("group", {}).items()}
    rows = tuple(read_row(name, row, groups) for row in content.get("row", []))
    aliases = tuple(read_alias(name, alias, rows) for alias in content.get("alias", []))
    loops = tuple(read_loop(name, loop) for loop in content.get("loop", []))
    externals = [read_external(name, external) for external in content.get("external", [])]
    for row in rows:
        if sum(other.key == row.key for other in rows) > 1:
            raise Mistake(f"{name}: the row {' '.join(row.key)} is there twice.")
    return Paths(rows, loops, {external.name: external for external in externals}, aliases)


def take(
    name: str, what: str, table: Mapping[str, Any], required: Mapping[str, type], optional: Mapping[str, type]
) -> None:
    """Every key is known, nothing is missing, and each value has its type."""
    types = {**required, **optional}
    for key, value in table.items():
        if key not in types:
            raise Mistake(f"{name}: {what}: {unknown_name('key', key, types)}")
        if not isinstance(value, types[key]) or (types[key] is int and isinstance(value, bool)):
            raise Mistake(f"{name}: {what}: '{key}' is {value!r}; expected {types[key].__name__}.")
    for key in required:
        if key not in table:
            raise Mistake(f"{name}: {what}: '{key}' is missing.")
        if table[key] == "":
            raise Mistake(f"{name}: {what}: '{key}' is empty.")


def read_functions(name: str, what: str, apart: Apart, functions: Mapping[str, Any]) -> dict[str, Named]:
    for function, reason in functions.items():
        if not isinstance(reason, str) or not reason.strip():
            raise Mistake(f"{name}: {what}: '{function}' needs a reason why it may be left out.")
    return {function: Named(function, apart, reason) for function, reason in functions.items()}


def read_group(name: str, title: str, table: Mapping[str, Any]) -> dict[str, Named]:
    what = f"group '{title}'"
    take(name, what, table, {"kind": str, "functions": dict}, {})
    kinds = [apart.value for apart in Apart]
    if table["kind"] not in kinds:
        raise Mistake(f"{name}: {what}: {unknown_name('kind', table['kind'], kinds)}")
    return read_functions(name, what, Apart(table["kind"]), table["functions"])


def read_row(name: str, table: Mapping[str, Any], groups: Mapping[str, dict[str, Named]]) -> Row:
    what = "row " + " ".join(str(table.get(key, "?")) for key in ("mode", "operation", "kind"))
    optional = {"limit": int, "use": list, "note": str, **{apart.value: dict for apart in Apart}}
    take(name, what, table, {"mode": str, "operation": str, "kind": str, "entry": str}, optional)
    for key, known in (("mode", MODES), ("operation", OPERATIONS), ("kind", KINDS)):
        if table[key] not in known:
            raise Mistake(f"{name}: {what}: {unknown_name(key, table[key], known)}")
    named: dict[str, Named] = {}
    for group in table.get("use", []):
        if group not in groups:
            raise Mistake(f"{name}: {what}: {unknown_name('group', group, groups)}")
        named |= groups[group]
    for apart in Apart:
        named |= read_functions(name, what, apart, table.get(apart.value, {}))
    named.pop(table["entry"], None)
    row = Row(
        table["mode"],
        table["operation"],
        table["kind"],
        table["entry"],
        named,
        table.get("limit"),
        table.get("note", ""),
    )
    outside = [function.name for function in named.values() if function.apart is Apart.OUTSIDE]
    if row.sealed and outside:
        raise Mistake(f"{name}: {what}: a sealed bound leaves nothing out, but '{outside[0]}' is named as outside it.")
    return row


def read_alias(name: str, table: Mapping[str, Any], rows: Sequence[Row]) -> Alias:
    what = f"alias '{table.get('name', '?')}'"
    apart = {apart.value: dict for apart in Apart}
    take(name, what, table, {"name": str, "entry": str, "like": str, "more": int}, apart)
    if table["like"] not in {row.entry for row in rows}:
        raise Mistake(f"{name}: {what}: {unknown_name('entry', table['like'], {row.entry for row in rows})}")
    named: dict[str, Named] = {}
    for how in Apart:
        named |= read_functions(name, what, how, table.get(how.value, {}))
    return Alias(table["name"], table["entry"], table["like"], table["more"], named)


def read_loop(name: str, table: Mapping[str, Any]) -> LoopBound:
    what = f"loop in '{table.get('function', '?')}'"
    required = {"function": str, "most": int, "reason": str}
    take(name, what, table, required, {"at": str, "linear": bool})
    if table["most"] < 1:
        raise Mistake(f"{name}: {what}: 'most' is {table['most']}; a loop that is entered runs at least once.")
    return LoopBound(**table)


def read_external(name: str, table: Mapping[str, Any]) -> External:
    what = f"external '{table.get('name', '?')}'"
    take(name, what, table, {"name": str, "instructions": int, "reason": str}, {})
    return External(**table)
