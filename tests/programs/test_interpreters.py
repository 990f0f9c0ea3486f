"""Python, Lua, Node and a JVM print the same on the library as on the system's malloc."""

from __future__ import annotations

import sys
from collections.abc import Callable

from conftest import LOADS
from preloaded import Allocator

Find = Callable[[str], str]


def test_python(system: Allocator, preloaded: Allocator, scale: int) -> None:
    command = (sys.executable, LOADS / "load.py", scale)
    env = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    expected = system.run(*command, env=env)
    assert expected.stdout.count(b"\n") == 11 and expected.stderr == b""
    assert preloaded.run(*command, env=env) == expected


def test_lua(system: Allocator, preloaded: Allocator, scale: int, program: Find) -> None:
    command = (program("lua5.4"), LOADS / "load.lua", scale)
    expected = system.run(*command)
    assert expected.stdout.count(b"\n") == 2 and expected.stderr == b""
    assert preloaded.run(*command) == expected


def test_node(system: Allocator, preloaded: Allocator, scale: int, program: Find) -> None:
    command = (program("node"), LOADS / "load.js", scale)
    expected = system.run(*command)
    assert expected.stdout.count(b"\n") == 5 and expected.stderr == b""
    assert preloaded.run(*command) == expected


def test_java(system: Allocator, preloaded: Allocator, scale: int, program: Find) -> None:
    program("javac")  # a Java runtime alone cannot start a source file
    command = (program("java"), "-Xmx256m", LOADS / "Load.java", scale)
    expected = system.run(*command)
    assert expected.stdout.count(b"\n") == 8 and expected.stderr == b""
    assert preloaded.run(*command) == expected
