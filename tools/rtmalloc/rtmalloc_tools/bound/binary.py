"""What the analysis needs of an ELF file: code, functions, relocated slots, and the facts that identify the build."""

from __future__ import annotations

import bisect
import hashlib
import io
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import NoteSection, Symbol, SymbolTableSection

from rtmalloc_tools.files import read_bytes
from rtmalloc_tools.mistakes import Mistake

RELATIVE, GLOB_DAT, JUMP_SLOT, WORD64 = 8, 6, 7, 1  # R_X86_64_*
FLAG_BIND_NOW, FLAG_1_NOW = 0x8, 0x1  # DF_BIND_NOW, DF_1_NOW

# Pieces and copies that gcc makes of a function; `.part` is kept, as it is less than the function.
PIECE = re.compile(r"\.(cold|constprop|isra|lto_priv|localalias)(\.\d+)?(?=\.|$)")
COLD = re.compile(r"\.cold(\.|$)")
PART = re.compile(r"\.part\.\d+")


def base_name(symbol: str) -> str:
    """The function's name in the source: 'large.constprop.0.cold' is 'large', 'large.part.2' is 'large.part'."""
    return PART.sub(".part", PIECE.sub("", symbol.split("@")[0]))


@dataclass(frozen=True)
class Function:
    name: str
    address: int
    size: int

    @property
    def end(self) -> int:
        return self.address + self.size


@dataclass(frozen=True)
class Slot:
    """A word that the dynamic linker fills before `main`: an address in this file, or another file's symbol."""

    symbol: str | None
    address: int | None


@dataclass
class Binary:
    path: Path
    sha256: str
    build_id: str
    compiler: str
    machine: str
    bind_now: bool
    code: list[tuple[int, bytes]]
    functions: list[Function]  # by address
    slots: dict[int, Slot]  # those that no one can write once the program runs
    names: dict[int, set[str]] = field(default_factory=dict)  # base names of the functions that start there

    @cached_property
    def starts(self) -> list[int]:
        return [function.address for function in self.functions]

    @cached_property
    def several(self) -> frozenset[str]:
        """Names that functions of several source files have. A function's own copies are not told from those of another
        one, so a name with two copies, or with one beside the function, is one of these; a cold piece is a part."""
        whole = (function.name for function in self.functions if not COLD.search(function.name))
        return frozenset(name for name, count in Counter(map(base_name, whole)).items() if count > 1)

    @cached_property
    def by_name(self) -> dict[str, Function]:
        return {function.name: function for function in reversed(self.functions)}

    def function_at(self, address: int) -> Function | None:
        """The function whose extent holds the address."""
        place = bisect.bisect_right(self.starts, address) - 1
        while place >= 0 and place >= bisect.bisect_right(self.starts, address) - 4:
            if self.functions[place].address <= address < self.functions[place].end:
                return self.functions[place]
            place -= 1
        return None

    def bytes_at(self, address: int, most: int) -> bytes:
        for start, contents in self.code:
            if start <= address < start + len(contents):
                return contents[address - start : address - start + most]
        return b""


def read_binary(path: Path) -> Binary:
    contents = read_bytes(path, "library")
    try:
        elf = ELFFile(io.BytesIO(contents))
        return build(path, contents, elf)
    except ELFError as error:
        raise Mistake(f"{path}: is not an ELF file that can be read: {error}.") from None


def build(path: Path, contents: bytes, elf: ELFFile) -> Binary:
    if elf["e_machine"] != "EM_X86_64":
        machine = str(elf["e_machine"]).removeprefix("EM_")
        raise Mistake(f"{path}: is for {machine}; bounds are computed for x86-64 only.")
    if elf["e_type"] == "ET_REL":
        raise Mistake(f"{path}: is an object file, without addresses. Give the library, with --library.")
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        raise Mistake(f"{path}: has no symbol table (it was stripped). Give the library as built, with --library.")
    names: dict[int, set[str]] = {}
    functions = read_functions(elf, table, names)
    return Binary(
        path=path,
        sha256=hashlib.sha256(contents).hexdigest(),
        build_id=read_build_id(elf),
        compiler=read_compiler(elf),
        machine="x86-64",
        bind_now=binds_now(elf),
        code=[(s["sh_addr"], s.data()) for s in elf.iter_sections() if is_code(s)],
        functions=functions,
        slots=read_slots(elf),
        names=names,
    )


def is_code(section: object) -> bool:
    return section["sh_type"] == "SHT_PROGBITS" and bool(section["sh_flags"] & 4)  # type: ignore[index]  # SHF_EXECINSTR


def read_functions(elf: ELFFile, table: SymbolTableSection, names: dict[int, set[str]]) -> list[Function]:
    """One function for each address; the name without a suffix where several share it."""
    best: dict[int, Function] = {}
    for symbol in table.iter_symbols():
        if symbol["st_info"]["type"] not in ("STT_FUNC", "STT_GNU_IFUNC") or symbol["st_shndx"] == "SHN_UNDEF":
            continue
        function = Function(symbol.name.split("@")[0], symbol["st_value"], symbol["st_size"])
        names.setdefault(function.address, set()).add(base_name(function.name))
        known = best.get(function.address)
        if known is None or (known.name.count("."), len(known.name)) > (function.name.count("."), len(function.name)):
            best[function.address] = function
    return [best[address] for address in sorted(best)]


def read_slots(elf: ELFFile) -> dict[int, Slot]:
    """Relocated words in memory that is read-only once the program runs (RELRO)."""
    fixed = [(s["p_vaddr"], s["p_vaddr"] + s["p_memsz"]) for s in elf.iter_segments() if s["p_type"] == "PT_GNU_RELRO"]
    slots: dict[int, Slot] = {}
    for section in elf.iter_sections():
        if not isinstance(section, RelocationSection) or section["sh_type"] != "SHT_RELA":
            continue
        table = elf.get_section(section["sh_link"])
        for relocation in section.iter_relocations():
            where, kind = relocation["r_offset"], relocation["r_info_type"]
            if not any(low <= where < high for low, high in fixed):
                continue
            if kind == RELATIVE:
                slots[where] = Slot(None, relocation["r_addend"])
            elif kind in (GLOB_DAT, JUMP_SLOT, WORD64) and isinstance(table, SymbolTableSection):
                symbol = table.get_symbol(relocation["r_info_sym"])
                own = symbol["st_shndx"] != "SHN_UNDEF"
                inside = symbol["st_value"] if own and stays_inside(symbol) else None
                slots[where] = Slot(symbol.name.split("@")[0], inside)
    return slots


def stays_inside(symbol: Symbol) -> bool:
    """Whether no other file's function of that name can take its place (-Bsymbolic leaves no such relocation)."""
    return bool(symbol["st_other"]["visibility"] != "STV_DEFAULT" or symbol["st_info"]["bind"] == "STB_LOCAL")


def binds_now(elf: ELFFile) -> bool:
    dynamic = elf.get_section_by_name(".dynamic")
    if dynamic is None:
        return True  # nothing to bind
    tags = {tag.entry.d_tag: tag.entry.d_val for tag in dynamic.iter_tags()}
    now = tags.get("DT_FLAGS", 0) & FLAG_BIND_NOW or tags.get("DT_FLAGS_1", 0) & FLAG_1_NOW
    return bool(now) or "DT_BIND_NOW" in tags


def read_build_id(elf: ELFFile) -> str:
    section = elf.get_section_by_name(".note.gnu.build-id")
    if isinstance(section, NoteSection):
        for note in section.iter_notes():
            if note["n_type"] == "NT_GNU_BUILD_ID":
                return str(note["n_desc"])
    return "none"


def read_compiler(elf: ELFFile) -> str:
    section = elf.get_section_by_name(".comment")
    if section is None:
        return "not known"
    return ", ".join(sorted({part.decode("utf-8", "replace") for part in section.data().split(b"\0") if part}))
