"""Real programs as entries. Each maker prepares its inputs once and gives the command, about 1 to 4 s on glibc."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from rtlab.entries import Absent, Client, Entry, Maker
from rtlab.inputs import c_source, make_repository, pdf
from rtlab.places import PROGRAM_FILES
from rtlab.processes import Failed, run_tool

SYSTEM_PYTHON = "/usr/bin/python3"  # not a virtual environment's or a version manager's launcher
NO_GIT_CONFIG = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


@dataclass(frozen=True)
class Program:
    name: str
    executables: tuple[str, ...]  # all must be there
    package: str  # the Debian package that has them
    make: Maker


def rounds(scale: float, at_scale_1: int) -> str:
    return str(max(1, round(at_scale_1 * scale)))


def python(work: Path, scale: float) -> Entry:
    return Entry(
        "python3",
        "program",
        (SYSTEM_PYTHON, str(PROGRAM_FILES / "python_work.py"), rounds(scale, 2)),
        {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
    )


def redis(work: Path, scale: float) -> Entry:
    """The server's processor time is compared: its client needs as much again and shares the machine."""
    folder = work / "redis"
    folder.mkdir(parents=True, exist_ok=True)
    socket = Path(f"/tmp/rtlab-redis-{os.getpid()}.sock")  # a socket's path has at most 107 bytes
    server = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", ""]
    server += ["--appendonly", "no", "--daemonize", "no", "--io-threads", "1"]
    load = ["redis-benchmark", "-s", str(socket), "-n", rounds(scale, 130_000), "-q"]
    load += ["-c", "16", "-P", "16", "-r", "100000", "-d", "100"]
    load += ["-t", "set,get,lpush,lpop,sadd,hset,zadd"]
    return Entry(
        "redis",
        "program",
        tuple(server),
        folder=folder,
        output="none",
        time="cpu",
        client=Client(tuple(load), socket),
        own_malloc=True,  # Debian's is linked with jemalloc
    )


def ghostscript(work: Path, scale: float) -> Entry:
    document = work / "document.pdf"
    document.write_bytes(pdf(int(rounds(scale, 50))))
    image = work / "page.ppm"
    command = ["gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", "-sDEVICE=ppmraw", "-r150"]
    return Entry("ghostscript", "program", (*command, "-o", str(image), str(document)), output_file=image)


def lua(work: Path, scale: float) -> Entry:
    return Entry("lua", "program", ("lua5.4", str(PROGRAM_FILES / "lua_work.lua"), rounds(scale, 12)))


def gcc(work: Path, scale: float) -> Entry:
    source, out = work / "big.c", work / "big.o"
    source.write_text(c_source(int(rounds(scale, 110))))
    command = ("gcc", "-O2", "-c", str(source), "-o", str(out))
    return Entry("gcc", "program", command, output_file=out)


def db_bench(work: Path, scale: float) -> Entry:
    folder = work / "db_bench"
    count = rounds(scale, 170_000)
    command = ["db_bench", "--benchmarks=fillrandom,readrandom,readseq", f"--num={count}"]
    command += [f"--reads={count}", f"--db={folder}/db", f"--wal_dir={folder}/db", "--seed=7"]
    command += ["--threads=1", "--disable_wal=1", "--value_size=100", "--cache_size=8388608"]
    return Entry("db_bench", "program", tuple(command), folder=folder, output="none")


def git_repository(work: Path, name: str, commits: str) -> str:
    """Made once. One for each entry: repacking would change what the other one reads."""
    folder = work / f"{name}-{commits}.git"
    make_repository(folder, int(commits), files=300)
    return str(folder)


def git_log(work: Path, scale: float) -> Entry:
    repository = git_repository(work, "log", rounds(scale, 1600))
    command = ("git", "-C", repository, "log", "-p", "--stat", "main")
    return Entry("git_log", "program", command, NO_GIT_CONFIG)


def git_repack(work: Path, scale: float) -> Entry:
    repository = git_repository(work, "repack", rounds(scale, 1000))
    command = ("git", "-C", repository, "-c", "pack.threads=2", "repack", "-a", "-d", "-f", "-q")
    return Entry("git_repack", "program", command, NO_GIT_CONFIG, output="none")


def node(work: Path, scale: float) -> Entry:
    return Entry("node", "program", ("node", str(PROGRAM_FILES / "node_work.js"), rounds(scale, 14)))


def java(work: Path, scale: float) -> Entry | Absent:
    if shutil.which("javac") is None:
        return Absent("java", "no javac")
    classes = work / "java"
    run_tool(["javac", "-d", classes, PROGRAM_FILES / "JavaWork.java"])
    command = ("java", "-Xms64m", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return Entry("java", "program", (*command, "-cp", str(classes), "JavaWork", rounds(scale, 14)))


PROGRAMS = (
    Program("python3", (SYSTEM_PYTHON,), "python3", python),
    Program("redis", ("redis-server", "redis-benchmark"), "redis-server", redis),
    Program("ghostscript", ("gs",), "ghostscript", ghostscript),
    Program("lua", ("lua5.4",), "lua5.4", lua),
    Program("gcc", ("gcc",), "gcc", gcc),
    Program("db_bench", ("db_bench",), "rocksdb-tools", db_bench),
    Program("git_log", ("git",), "git", git_log),
    Program("git_repack", ("git",), "git", git_repack),
    Program("node", ("node",), "nodejs", node),
    Program("java", ("java",), "default-jdk-headless", java),
)
PROGRAM_NAMES = tuple(program.name for program in PROGRAMS)


def program_entry(program: Program, work: Path, scale: float) -> Entry | Absent:
    missing = [name for name in program.executables if shutil.which(name) is None]
    if missing:
        return Absent(program.name, f"no {missing[0]} (Debian package {program.package})")
    work.mkdir(parents=True, exist_ok=True)
    try:
        return program.make(work, scale)
    except Failed as failure:
        return Absent(program.name, str(failure))
