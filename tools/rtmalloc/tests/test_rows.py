"""paths.toml: what it may say, and what is said about what it may not."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rtmalloc_tools.bound.rows import PATHS_FILE, Apart, parse, read_paths
from rtmalloc_tools.mistakes import Mistake

ROW = '[[row]]\nmode = "pag"\noperation = "malloc"\nkind = "page"\nentry = "malloc"\n'


def read(text: str):
    return parse(tomllib.loads(text), "paths.toml")


def test_the_packages_own_list_is_valid_and_each_reason_is_given():
    paths = read_paths()
    assert len({row.key for row in paths.rows}) == len(paths.rows) > 0
    for row in paths.rows:
        assert all(len(named.reason) > 10 for named in row.named.values()), row.key


def test_what_leaves_the_quarantine_counts_where_blocks_lie_in_pages():
    without = {row.mode for row in read_paths().rows if "release_local" in row.named}
    assert without == {"pag"}


def test_groups_and_the_rows_own_functions_come_together():
    groups = '[group.g]\nkind = "linear"\n[group.g.functions]\nmemset = "linear"\n'
    (row,) = read(groups + ROW + 'use = ["g"]\nexit.slow = "never"\n').rows
    assert {name: named.apart for name, named in row.named.items()} == {"memset": Apart.LINEAR, "slow": Apart.EXIT}


def test_the_entry_is_never_an_exit():
    (row,) = read(ROW + 'exit.malloc = "never"\n').rows
    assert not row.named


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rows]]\n", "Unknown table 'rows'. Did you mean 'row'?"),
        (ROW.replace('"pag"', '"page"'), "Unknown mode 'page'. Did you mean 'pag'?"),
        (ROW.replace("entry", "entri"), "Unknown key 'entri'. Did you mean 'entry'?"),
        (ROW.replace('entry = "malloc"', ""), "'entry' is missing"),
        (ROW + "limit = 'many'\n", "'limit' is 'many'; expected int"),
        (ROW + '[[alias]]\nname = "a"\nentry = "a"\nlike = "mallok"\nmore = 1\n', "Did you mean 'malloc'?"),
        (ROW + '[[alias]]\nname = "a"\nentry = "a"\nlike = "malloc"\n', "'more' is missing"),
        (ROW + "limit = true\n", "'limit' is True; expected int"),
        (ROW + 'use = ["none"]\n', "Unknown group 'none'"),
        (ROW + 'exit.slow = ""\n', "'slow' needs a reason"),
        (ROW + 'outside.mmap = "asks the system"\n', "a sealed bound leaves nothing out, but 'mmap'"),
        (ROW + ROW, "the row pag malloc page is there twice"),
        ('[[loop]]\nfunction = "f"\nmost = 0\nreason = "r"\n', "'most' is 0"),
        ('[[loop]]\nfunction = "f"\nmost = 3\n', "'reason' is missing"),
        ('[group.g]\nkind = "exits"\nfunctions = {}\n', "Unknown kind 'exits'. Did you mean 'exit'?"),
    ],
)
def test_what_makes_no_sense_is_refused(text, message):
    with pytest.raises(Mistake) as mistake:
        read(text)
    assert message in str(mistake.value)


def test_a_file_that_is_not_toml_is_named(tmp_path: Path):
    file = tmp_path / "paths.toml"
    file.write_text("= 3")
    with pytest.raises(Mistake, match=r"paths\.toml: is not TOML"):
        read_paths(file)
    with pytest.raises(Mistake, match="cannot be read"):
        read_paths(tmp_path / "none.toml")


def test_the_list_is_part_of_the_package():
    assert PATHS_FILE.is_file()
