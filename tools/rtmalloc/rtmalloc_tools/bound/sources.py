"""From an address to the source: file, line, and the functions that were inlined there (DWARF, read when asked for)."""

from __future__ import annotations

import bisect
import linecache
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from elftools.dwarf.descriptions import describe_form_class
from elftools.elf.elffile import ELFFile

from rtmalloc_tools.mistakes import Mistake


@dataclass(frozen=True)
class Place:
    file: str  # as the compiler saw it; empty if not known
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}" if self.file else ""

    @property
    def text(self) -> str:
        """The line itself, if the source is still there."""
        return linecache.getline(self.file, self.line).strip() if self.file else ""


NOWHERE = Place("", 0)


@dataclass(frozen=True)
class Scope:
    low: int
    high: int
    depth: int
    name: str
    instance: int  # each inlining has its own; the same for all its extents


class Sources:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.chains: dict[int, tuple[tuple[int, str], ...]] = {}

    def place(self, address: int) -> Place:
        addresses, places = self.lines
        at = bisect.bisect_right(addresses, address) - 1
        return places[at] or NOWHERE if at >= 0 else NOWHERE

    def structure_sizes(self, names: Iterable[str]) -> dict[str, int]:
        """Bytes of the named structures, as they were compiled."""
        wanted, sizes = set(names), {}
        with self.path.open("rb") as file:
            for unit in ELFFile(file).get_dwarf_info().iter_CUs():
                for die in unit.get_top_DIE().iter_children():
                    name = die.attributes.get("DW_AT_name")
                    if die.tag != "DW_TAG_structure_type" or name is None or "DW_AT_byte_size" not in die.attributes:
                        continue
                    if name.value.decode() in wanted:
                        sizes[name.value.decode()] = int(die.attributes["DW_AT_byte_size"].value)
        missing = sorted(wanted - set(sizes))
        if missing:
            raise Mistake(f"{self.path}: its debug information has no structure '{missing[0]}'. Build it with -g.")
        return sizes

    def functions(self, address: int) -> list[str]:
        """The function that the address was compiled from, and those that it was inlined into; innermost first."""
        return [name for _, name in reversed(self.chain(address))]

    def chain(self, address: int) -> tuple[tuple[int, str], ...]:
        """Instance and name of each function around the address, outermost first."""
        if address not in self.chains:
            found = [scope for scope in self.scopes if scope.low <= address < scope.high]
            found.sort(key=lambda scope: scope.depth)
            self.chains[address] = tuple((scope.instance, scope.name) for scope in found)
        return self.chains[address]

    def owner(self, addresses: Iterable[int]) -> str | None:
        """The innermost function, or inlining of one, that all the addresses belong to; None if it is not known."""
        chains = [self.chain(address) for address in addresses]
        common = [levels[0] for levels in zip(*chains, strict=False) if len(set(levels)) == 1]
        # Levels past the first that differs cannot agree again: an instance lies in one place.
        return common[-1][1] if common else None

    @cached_property
    def lines(self) -> tuple[list[int], list[Place | None]]:
        rows: dict[int, Place | None] = {}
        with self.path.open("rb") as file:
            elf = ELFFile(file)
            if elf.has_dwarf_info():
                dwarf = elf.get_dwarf_info()
                for unit in dwarf.iter_CUs():
                    add_lines(dwarf, unit, rows)
        addresses = sorted(rows)
        return addresses, [rows[address] for address in addresses]

    @cached_property
    def scopes(self) -> list[Scope]:
        scopes: list[Scope] = []
        with self.path.open("rb") as file:
            elf = ELFFile(file)
            if elf.has_dwarf_info():
                dwarf = elf.get_dwarf_info()
                ranges = dwarf.range_lists()
                for unit in dwarf.iter_CUs():
                    add_scopes(unit.get_top_DIE(), 0, ranges, scopes)
        return scopes


def add_lines(dwarf: Any, unit: Any, rows: dict[int, Place | None]) -> None:
    program = dwarf.line_program_for_CU(unit)
    if program is None:
        return
    header, top = program.header, unit.get_top_DIE()
    folder = attribute_text(top, "DW_AT_comp_dir")
    names = [file_name(header, index, folder) for index in range(len(header["file_entry"]))]
    first = 0 if header["version"] >= 5 else 1  # file numbers before DWARF 5 begin at 1
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        number = state.file - first
        file = names[number] if 0 <= number < len(names) else ""
        # Where a sequence ends, a later one may begin: it wins.
        if state.end_sequence:
            rows.setdefault(state.address, None)
        elif state.line:
            rows[state.address] = Place(file, state.line)


def file_name(header: Any, index: int, folder: str) -> str:
    entry = header["file_entry"][index]
    folders = header["include_directory"]
    number = entry.dir_index if header["version"] >= 5 else entry.dir_index - 1
    inside = folders[number].decode() if 0 <= number < len(folders) else ""
    return str(Path(folder) / inside / entry.name.decode())


def attribute_text(die: Any, name: str) -> str:
    found = die.attributes.get(name)
    return found.value.decode() if found is not None and isinstance(found.value, bytes) else ""


def add_scopes(die: Any, depth: int, ranges: Any, scopes: list[Scope]) -> None:
    if die.tag in ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine"):
        name = name_of(die)
        scopes += [Scope(low, high, depth, name, die.offset) for low, high in extents(die, ranges) if name]
    for child in die.iter_children():
        if child.tag in ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine", "DW_TAG_lexical_block"):
            add_scopes(child, depth + 1, ranges, scopes)


def name_of(die: Any) -> str:
    for _ in range(4):  # concrete copy, abstract instance, declaration
        name = attribute_text(die, "DW_AT_name")
        if name:
            return name
        for link in ("DW_AT_abstract_origin", "DW_AT_specification"):
            if link in die.attributes:
                die = die.get_DIE_from_attribute(link)
                break
        else:
            return ""
    return ""


def extents(die: Any, ranges: Any) -> list[tuple[int, int]]:
    attributes = die.attributes
    if "DW_AT_low_pc" in attributes and "DW_AT_high_pc" in attributes:
        low, high = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
        relative = describe_form_class(high.form) == "constant"
        return [(low, low + high.value if relative else high.value)]
    if "DW_AT_ranges" not in attributes or ranges is None:
        return []
    unit = die.cu
    top = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
    base = top.value if top is not None else 0
    found: list[tuple[int, int]] = []
    for entry in ranges.get_range_list_at_offset(attributes["DW_AT_ranges"].value, cu=unit):
        if type(entry).__name__ == "BaseAddressEntry":
            base = entry.base_address
        else:
            shift = 0 if entry.is_absolute else base
            found.append((entry.begin_offset + shift, entry.end_offset + shift))
    return found
