"""Generated inputs are well-formed and always the same bytes."""

import re
import shutil
import subprocess

import pytest

from rtlab.crates import Crate, cargo_version, stub_manifest
from rtlab.inputs import c_source, git_history, pdf


@pytest.mark.parametrize("make", [lambda: pdf(2), lambda: c_source(5), lambda: git_history(3, 12)])
def test_an_input_is_the_same_each_time(make):
    assert make() == make()


def test_the_offsets_in_the_pdf_point_to_its_objects():
    document = pdf(3)
    table = document[document.index(b"xref\n") :]
    offsets = [int(found) for found in re.findall(rb"(\d{10}) 00000 n", table)]
    assert len(offsets) == 4 + 2 * 3
    for number, offset in enumerate(offsets, start=1):
        assert document[offset:].startswith(f"{number} 0 obj".encode())


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_the_c_file_compiles(tmp_path):
    (tmp_path / "x.c").write_text(c_source(20))
    subprocess.run(["gcc", "-fsyntax-only", tmp_path / "x.c"], check=True)


def test_a_stub_holds_exact_versions_and_names_no_host():
    text = stub_manifest(Crate("some-sys", "1.2.3", (("cc", "1.2.0"),)))
    assert 'some-sys = { version = "=1.2.3", default-features = false }' in text
    assert 'cc = { version = "=1.2.0", default-features = false }' in text
    assert "://" not in text


def test_cargos_version_is_read_from_its_answer():
    assert cargo_version("cargo 1.65.0") == (1, 65)
    assert cargo_version("nonsense") == (0, 0)
