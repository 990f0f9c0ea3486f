"""`rtmalloc bound` as a user and an auditor meet it: table, JSON, page, exit status, mistakes."""

from __future__ import annotations

import json
import os
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rtmalloc_tools.bound.certificate import judge
from rtmalloc_tools.places import LIBRARY, checkout

LIBRARY_BUILT = Path(os.environ.get("RTM_LIBRARY", checkout() / "build" / LIBRARY))

PATHS = """
[group.misuse]
kind = "exit"
[group.misuse.functions]
stop = "ends the <program>"

[[row]]
mode = "pag"
operation = "malloc"
kind = "page"
entry = "entry"
limit = 6
use = ["misuse"]

[[row]]
mode = "general"
operation = "free"
kind = "page"
entry = "entry_free"
use = ["misuse"]
"""


@pytest.fixture
def certificate(assemble, rtmalloc, tmp_path):
    """Runs the command on a library of two functions: malloc in 5 instructions, free in 3."""
    entry, free = "test %rdi, %rdi\nje stop\nnop\nnop\nret", "nop\nnop\nret"
    library = assemble({"entry": entry, "entry_free": free, "stop": "ud2"})
    paths = tmp_path / "paths.toml"
    paths.write_text(PATHS)

    def run(*arguments: object):
        return rtmalloc("bound", "--library", library, "--paths", paths, *arguments)

    return run


def observed(tmp_path: Path, *counts: tuple[str, str, str, int]) -> Path:
    file = tmp_path / "observed.json"
    keys = ("mode", "operation", "kind", "observed")
    file.write_text(json.dumps([dict(zip(keys, count, strict=True)) for count in counts]))
    return file


def test_the_table_shows_what_is_proven_and_the_exits_with_their_reasons(certificate):
    status, out, _ = certificate()
    assert status == 0
    line = next(line for line in out.splitlines() if "pag" in line and "malloc" in line)
    assert [cell.strip() for cell in line.split("│")[1:-1]] == ["pag", "malloc", "page", "5", "-", "-", "6", "ok"]
    assert "stop" in out and "ends the <program>" in out


def test_json_names_the_library_and_each_row(certificate):
    status, out, _ = certificate("--json")
    found = json.loads(out)
    assert status == 0 and found["ok"]
    assert len(found["library"]["sha256"]) == 64 and "GNU" not in found["library"]["build_id"]
    assert [(row["mode"], row["proven"], row["verdict"]) for row in found["rows"]] == [
        ("pag", 5, "ok"),
        ("general", 3, "ok"),
    ]
    assert found["rows"][0]["left"] == [{"name": "stop", "how": "exit", "reason": "ends the <program>"}]


def test_observed_counts_stand_beside_with_their_ratio(certificate, tmp_path):
    file = observed(
        tmp_path, ("pag", "malloc", "page", 4), ("general", "free", "page", 2), ("pag", "malloc", "page", 3)
    )
    status, out, _ = certificate("--json", "--observed", file)
    rows = json.loads(out)["rows"]
    assert [(row["observed"], row["ratio"], row["verdict"]) for row in rows] == [(4, 1.25, "ok"), (2, 1.5, "ok")]
    assert status == 0


@pytest.mark.parametrize(
    ("proven", "seen", "limit", "most", "verdict"),
    [
        (5, 4, None, 1.25, "ok"),
        (5, 3, None, 1.25, "loose"),
        (6, 4, None, 1.5, "ok"),
        (7, 4, None, 1.5, "loose"),
        (5, 6, None, 1.25, "below observed"),
        (5, 5, 4, 1.25, "over limit"),
        (5, None, 5, 1.25, "ok"),
        (None, 5, 5, 1.25, "refused"),
    ],
)
def test_verdicts(proven, seen, limit, most, verdict):
    assert judge(proven, seen, limit, most) == verdict


def test_more_observed_than_proven_fails(certificate, tmp_path):
    status, out, _ = certificate("--observed", observed(tmp_path, ("pag", "malloc", "page", 9)))
    assert status == 1 and "9 instructions were observed, 5 are proven" in out


def test_a_bound_over_its_limit_fails(certificate, tmp_path):
    paths = tmp_path / "tight.toml"
    paths.write_text(PATHS.replace("limit = 6", "limit = 4"))
    status, out, _ = certificate("--paths", paths)
    assert status == 1 and "OVER the limit" in out and "are permitted" in out


def test_a_refused_row_fails_and_says_where(assemble, rtmalloc, tmp_path):
    paths = tmp_path / "paths.toml"
    paths.write_text('[[row]]\nmode = "pag"\noperation = "malloc"\nkind = "page"\nentry = "entry"\n')
    library = assemble({"entry": "syscall\nret"})
    status, out, _ = rtmalloc("bound", "--library", library, "--paths", paths)
    assert status == 1
    assert "REFUSED: a system call on a certified path: in entry at 0x" in out and "source0.s:" in out
    status, out, _ = rtmalloc("bound", "--library", library, "--paths", paths, "--json")
    assert json.loads(out)["rows"][0]["problems"][0]["instruction"] == "syscall"


ALIAS = '\n[[alias]]\nname = "free[]"\nentry = "entry_other"\nlike = "entry_free"\nmore = {more}\n'


@pytest.mark.parametrize(
    ("code", "more", "status", "verdict", "words"),
    [
        ("nop\nnop\nnop\nnop\nret", 2, 0, "ok", "entry_free"),
        ("nop\nnop\nnop\nnop\nret", 1, 1, "over limit", "OVER free[]: 2 instructions more are proven, 1 are permitted"),
        ("1: jmp 1b", 1, 1, "refused", "by free[]: entry_other"),
    ],
)
def test_other_names_follow_the_rows_of_an_entry(assemble, rtmalloc, tmp_path, code, more, status, verdict, words):
    paths, page = tmp_path / "paths.toml", tmp_path / "page.html"
    paths.write_text(PATHS + ALIAS.format(more=more))
    functions = {"entry": "test %rdi, %rdi\nje stop\nret", "entry_free": "nop\nnop\nret", "stop": "ud2"}
    library = assemble(functions | {"entry_other": code})
    found, out, _ = rtmalloc("bound", "--library", library, "--paths", paths, "--html", page)
    assert found == status and words in out
    assert ("1 of 1 other names are not certified" in page.read_text()) == bool(status)
    assert ("All 2 rows are certified" in page.read_text()) != bool(status)
    _, out, _ = rtmalloc("bound", "--library", library, "--paths", paths, "--json")
    (other,) = json.loads(out)["other_names"]
    assert (other["verdict"], other["rows"], other["limit"]) == (verdict, 1, more)


def test_a_function_of_another_library_stands_with_its_declared_count(rtmalloc):
    if not LIBRARY_BUILT.is_file():
        pytest.skip("the library is not built")
    _, out, _ = rtmalloc("bound", "--library", LIBRARY_BUILT, "--only", "pag/thread start", "--json")
    (row,) = json.loads(out)["rows"]
    (external,) = (left for left in row["left"] if left["how"] == "external")
    assert external["name"] == "pthread_setspecific" and "counted as 35" in external["reason"]


def test_the_longest_path_is_printed_instruction_by_instruction(certificate):
    status, out, _ = certificate("--path", "malloc/pag")
    lines = [line.split() for line in out.splitlines() if line.strip() and line.strip()[0].isdigit()]
    *lines, share = lines
    assert status == 0 and share == ["5", "entry"]
    assert [line[0] for line in lines] == ["1", "2", "3", "4", "5"]
    assert [line[2] for line in lines] == ["testq", "je", "nop", "nop", "retq"]


class Outline(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.listings: list[str] = []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if tag == "a" else []
        self.loaded += [values[name] for name in ("src", "href") if name in values and tag != "a"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "pre":
            self.listings.append(data)


def test_the_page_is_whole_and_needs_nothing_else(certificate, tmp_path):
    page = tmp_path / "certificate.html"
    status, _, _ = certificate("--html", page)
    text = page.read_text()
    outline = Outline()
    outline.feed(text)
    assert status == 0 and not outline.open and not outline.loaded
    assert {link.removeprefix("#") for link in outline.links} == set(outline.ids)
    assert [listing.count("\n") + 1 for listing in outline.listings] == [5, 3]
    for expected in ("SHA-256", "All 2 rows are certified.", "ends the &lt;program&gt;", "testq", "Caches"):
        assert expected in text
    assert "ends the <program>" not in text


def test_the_page_cannot_be_written(certificate, tmp_path):
    status, _, complaint = certificate("--html", tmp_path)
    assert status == 2 and str(tmp_path) in complaint and "is a directory" in complaint
    status, _, complaint = certificate("--html", tmp_path / "no" / "page.html")
    assert status == 2 and "no such file or directory" in complaint


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "{}",
        "[1]",
        "[" * 100_000,
        f"[{'[' * 900}{']' * 900}]",
        '[{"mode":[],"operation":"free","kind":"page","observed":1}]',
        '[{"mode": "pag"}]',
        '[{"mode":"pag","operation":"malloc","kind":"page","observed":-1}]',
    ],
)
def test_observed_counts_that_make_no_sense_are_refused(certificate, tmp_path, content):
    file = tmp_path / "observed.json"
    file.write_text(content)
    status, _, complaint = certificate("--observed", file)
    assert status == 2 and str(file) in complaint


def test_observed_counts_of_an_unknown_row_name_the_nearest(certificate, tmp_path):
    status, _, complaint = certificate("--observed", observed(tmp_path, ("pag", "mallok", "page", 4)))
    assert status == 2 and "Did you mean 'pag/malloc/page'" in complaint


def test_an_unknown_row_names_the_nearest(certificate):
    status, _, complaint = certificate("--only", "mallok")
    assert status == 2 and "Did you mean 'malloc'?" in complaint
    status, _, complaint = certificate("--only", "free/pag")
    assert status == 2 and "Unknown row 'free/pag'" in complaint


def test_a_missing_library_says_what_to_do(rtmalloc, tmp_path):
    status, _, complaint = rtmalloc("bound", "--library", tmp_path / "none.so")
    assert status == 2 and "there is no such library" in complaint
