"""Ghostscript renders a PDF to the same bytes on the library as on the system's malloc."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import LOADS
from preloaded import Allocator


@pytest.fixture
def pdf(system: Allocator, tmp_path: Path, program: Callable[[str], str]) -> Path:
    path = tmp_path / "document.pdf"
    system.run(program("gs"), "-q", "-dNOPAUSE", "-dBATCH", "-sDEVICE=pdfwrite", "-o", path, LOADS / "document.ps")
    return path


@pytest.mark.parametrize("device", ["png16m", "ppmraw"])
def test_rendering_a_pdf(
    system: Allocator, preloaded: Allocator, scale: int, program: Callable[[str], str], pdf: Path, device: str
) -> None:
    def render(allocator: Allocator, name: str) -> list[bytes]:
        folder = pdf.parent / name
        folder.mkdir()
        flags = ("-q", "-dNOPAUSE", "-dBATCH", "-dTextAlphaBits=4", "-dGraphicsAlphaBits=4", f"-r{30 * scale}")
        output = allocator.run(program("gs"), *flags, f"-sDEVICE={device}", "-o", folder / "page%d", pdf)
        assert output.stdout == b"" and output.stderr == b""
        return [page.read_bytes() for page in sorted(folder.iterdir())]

    expected = render(system, "system")
    assert len(expected) == 3 and min(len(page) for page in expected) > 5_000
    assert render(preloaded, "preloaded") == expected
