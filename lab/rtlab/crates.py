"""Allocator sources from crates: a stub project names one crate, and cargo fetches it with its few dependencies.

Nothing is compiled by Rust. The dependencies (build helpers that we do not use) are held at versions that Debian 12's
cargo (1.65) can still read. That cargo needs the sparse protocol switched on, which is faster too.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from rtlab.processes import run_tool

SPARSE_SINCE = (1, 68)  # from this cargo on, the sparse protocol is stable and the default
OLD_CARGO = {
    "RUSTC_BOOTSTRAP": "1",
    "CARGO_UNSTABLE_SPARSE_REGISTRY": "true",
    "CARGO_REGISTRIES_CRATES_IO_PROTOCOL": "sparse",
}


@dataclass(frozen=True)
class Crate:
    name: str
    version: str
    held: tuple[tuple[str, str], ...] = ()  # versions of its dependencies, (name, version)

    @property
    def origin(self) -> str:
        return f"crate {self.name} {self.version.partition('+')[0]}"


def stub_manifest(crate: Crate) -> str:
    """A Cargo.toml that depends on exactly this crate."""
    lines = [
        "[package]",
        f'name = "fetch-{crate.name}"',
        'version = "0.0.0"',
        'edition = "2018"',
        "[lib]",
        'path = "empty.rs"',
        "[dependencies]",
    ]
    for name, version in ((crate.name, crate.version), *crate.held):
        lines.append(f'{name} = {{ version = "={version}", default-features = false }}')
    return "\n".join(lines) + "\n"


def cargo_version(answer: str) -> tuple[int, int]:
    """`cargo 1.65.0 (…)` gives (1, 65)."""
    found = re.search(r"cargo (\d+)\.(\d+)", answer)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def fetch_crate(crate: Crate, folder: Path) -> Path:
    """The crate's unpacked source, below `folder`. Fetched once; raises Failed."""
    source = folder / "vendor" / crate.name
    manifest = folder / "Cargo.toml"
    wanted = stub_manifest(crate)
    complete = (source / ".cargo-checksum.json").is_file()
    if complete and manifest.is_file() and manifest.read_text() == wanted:
        return source
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    manifest.write_text(wanted)
    (folder / "empty.rs").write_text("")
    version = cargo_version(run_tool(["cargo", "--version"]))
    run_tool(
        ["cargo", "vendor", "vendor"],
        cwd=folder,
        environment=OLD_CARGO if version < SPARSE_SINCE else None,
    )
    return source


def crate_checksum(source: Path) -> str:
    """The checksum of the crate as published, for the record."""
    return str(json.loads((source / ".cargo-checksum.json").read_text()).get("package") or "")
