"""The Python code has no undefined name, unused import or line that ruff's rules in pyproject.toml refuse."""

import subprocess
import sys

import pytest

from rtlab.places import find_places


@pytest.mark.parametrize("folder", ["lab", "tools/rtmalloc"])
def test_ruff_finds_nothing(folder):
    where = find_places().root / folder
    command = [sys.executable, "-m", "ruff", "check", "."]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
