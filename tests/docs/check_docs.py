"""Holds the documentation to the project: README.md, CHANGELOG.md and docs/*.md.

1. Every relative link (its anchor too), and every path of the repository named in backticks, exists.
2. Every test, option and environment variable named exists; every option of src/options.c is in the README, every JSON
   field of src/stats.c in docs/statistics.md.
3. Shell blocks after `<!-- run -->` are run, in a scratch copy of the repository whose `build` is RTM_BUILD; each must
   exit 0. Blocks after `<!-- file: NAME -->` are written there first, in the order of the page.
4. Of the other shell blocks the make targets, scripts, programs, presets and labels must exist.

  RTM_BUILD=build python3 tests/docs/check_docs.py

Exit status 0 if all holds; else each failure in a line `FILE:LINE: what is wrong`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS = 60
LEFT_OUT_OF_COPY = shutil.ignore_patterns("build*", ".git", ".venv", "__pycache__", ".*_cache")
TOP_FOLDERS = ("src", "include", "algorithms", "tests", "fuzz", "lab", "tools", "docs", "cmake", "examples", ".ci")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    marker: str  # "run", "file: NAME" or empty
    text: str


@dataclass(frozen=True)
class Page:
    path: Path
    text: str

    @property
    def prose(self) -> str:
        """The text with the contents of code blocks blanked, lines kept."""
        return re.sub(r"^```.*?^```$", lambda m: "\n" * m[0].count("\n"), self.text, flags=re.M | re.S)

    def line_at(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1 if offset <= len(self.text) else 0


def read(*parts: str) -> str:
    return ROOT.joinpath(*parts).read_text()


def pages() -> list[Page]:
    paths = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [Page(path, path.read_text()) for path in paths]


def blocks(page: Page) -> Iterator[Block]:
    marker, fence, language, start, lines = "", False, "", 0, []
    for number, line in enumerate(page.text.splitlines(), 1):
        if line.startswith("```"):
            if fence:
                yield Block(page.path, start, language, marker, "\n".join(lines) + "\n")
                marker, lines = "", []
            else:
                language, start = line[3:].strip(), number
            fence = not fence
        elif fence:
            lines.append(line)
        elif found := re.fullmatch(r"<!-- (run|file: \S+) -->", line.strip()):
            marker = found[1]
        elif line.strip():
            marker = ""


# ---- 1. links and paths ----


def anchors(path: Path) -> set[str]:
    """As GitHub makes them from headings."""
    headings = re.findall(r"^#+ (.+)$", Page(path, path.read_text()).prose, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def check_links(page: Page) -> Iterator[tuple[int, str]]:
    prose = page.prose
    for match in re.finditer(r"\[[^\]]+\]\(([^)\s]+)\)", prose):
        line, (target, _, anchor) = prose.count("\n", 0, match.start()) + 1, match[1].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        path = (page.path.parent / target).resolve() if target else page.path
        if not path.exists():
            yield line, f"the link leads nowhere: {match[1]}"
        elif anchor and path.suffix == ".md" and anchor not in anchors(path):
            yield line, f"no heading of {path.name} has the anchor #{anchor}"


def in_backticks(page: Page) -> Iterator[tuple[int, str]]:
    prose = page.prose
    for match in re.finditer(r"`([^`]+)`", prose):
        yield prose.count("\n", 0, match.start()) + 1, " ".join(match[1].split())


def check_paths(page: Page, build: Path) -> Iterator[tuple[int, str]]:
    for line, text in in_backticks(page):
        if re.fullmatch(r"build/librtmalloc\S*", text) and not (build / text[6:]).exists():
            yield line, f"not in the build: {text}"
        if re.fullmatch(r"[\w.][\w./-]*", text) and text.split("/")[0] in TOP_FOLDERS and "/" in text and not (ROOT / text).exists():
            yield line, f"no such path: {text}"


# ---- 2. names ----


def test_exists(kind: str, name: str, case: str) -> bool:
    """`kind/name[/part][: case]`, as the tests are registered."""
    if kind.startswith("unit"):
        if name == "machine_code":
            return (ROOT / "tests/unit/machine_code.py").exists()
        source = ROOT / f"tests/unit/{name}_test.c"
        return source.exists() and (not case or f"TEST({case})" in source.read_text())
    name, _, part = name.partition("/")
    sources = [path for path in (ROOT / "tests/preload").glob(f"{name}.c*") if path.stem == name]
    if not sources or not part:
        return bool(sources)
    return part in sources[0].read_text() or f"{name}/{part}" in read("tests", "preload", "CMakeLists.txt")


def check_names(page: Page) -> Iterator[tuple[int, str]]:
    options = set(re.findall(r'"(RTMALLOC_\w+)"', read("src", "options.c")))
    known_functions = read("include", "rtmalloc.h")
    for line, text in in_backticks(page):
        if match := re.fullmatch(r"(unit|preload)(?:-debug)?/([\w/]+?)(?:: ?(\w+))?", text):
            if not test_exists(match[1], match[2], match[3] or ""):
                yield line, f"no such test: {text}"
        for option in re.findall(r"\bRTMALLOC_\w+", text):
            if option not in options:
                yield line, f"the allocator does not read {option}"
        if re.fullmatch(r"rtm_\w+", text) and text != "rtm_no_heap" and not re.search(rf"\b{text}\b", known_functions):
            yield line, f"include/rtmalloc.h has no {text}"
    if page.path.name == "README.md":
        for option in sorted(options):
            if f"| `{option}` |" not in page.text:
                yield 1, f"the table of options lacks {option}"
    if page.path.name == "statistics.md":
        for field in re.findall(r'json_number\(text, "(\w+)"', read("src", "stats.c")):
            if f"`{field}`" not in page.text:
                yield 1, f"the JSON field {field} is not explained"


# ---- 4. commands that are not run ----


def commands(block: Block) -> Iterator[tuple[int, dict[str, str], list[str]]]:
    """Line, variables set before it, and words of each simple command."""
    for offset, line in enumerate(block.text.splitlines(), 1):
        words = shlex.split(line, comments=True)
        variables = {}
        while words and re.fullmatch(r"\w+=.*", words[0]):
            name, _, value = words.pop(0).partition("=")
            variables[name] = value
        if words:
            yield block.line + offset, variables, words


def check_make(words: list[str]) -> Iterator[str]:
    for target in (word for word in words[1:] if "=" not in word and not word.startswith("-")):
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode or f"Nothing to be done for '{target}'" in done.stdout:
            yield f"make has no rule for {target}"


def check_rtlab(words: list[str]) -> Iterator[str]:
    source = read("lab", "rtlab", "cli.py")
    if f"def {words[1]}(" not in source:
        yield f"rtlab has no command {words[1]}"
    for word in words[2:]:
        name = word[2:].removeprefix("no-").replace("-", "_")  # --no-x switches --x off
        if word.startswith("--") and word != "--help" and f"    {name}: Annotated" not in source:
            yield f"rtlab {words[1]} has no option {word}"


def check_steps(words: list[str]) -> Iterator[str]:
    source = "".join(path.read_text() for path in (ROOT / "lab/steps").glob("*.c"))
    own = words[1 : words.index("--")] if "--" in words else words[1:]
    yield from (f"{words[0]} has no option {word}" for word in own if word.startswith("--") and f'"{word}"' not in source)
    if "--" in words and not (ROOT / f"lab/steps/load_{words[words.index('--') + 1]}.c").exists():
        yield f"{words[0]} has no load {words[words.index('--') + 1]}"


def cmake_text() -> str:
    skipped = ("build", ".venv", ".git")
    found = [path for path in ROOT.rglob("CMakeLists.txt") if not path.relative_to(ROOT).parts[0].startswith(skipped)]
    return "\n".join(path.read_text() for path in found)


def check_program(words: list[str], build: Path) -> Iterator[str]:
    program = words[0]
    if program == "make":
        yield from check_make(words)
    elif program == ".venv/bin/rtlab":
        yield from check_rtlab(words)
    elif program in ("build/steps/bounds", "build/steps/stepcount"):
        yield from check_steps(words)
    elif program.startswith("build/fuzz/"):  # only where clang has libFuzzer
        if program.split("/")[-1] not in cmake_text():
            yield f"nothing builds {program}"
    elif match := re.fullmatch(r"build/tests/unit/unit_(\w+?)(?:_debug)?", program):
        yield from (f"unit/{match[1]} has no test {case}" for case in words[1:] if not test_exists("unit", match[1], case))
    elif program.startswith("build/"):
        if not (build / program[6:]).exists():
            yield f"not in the build: {program}"
    elif "/" in program:
        if not os.access(ROOT / program, os.X_OK):
            yield f"no such script: {program}"
    elif shutil.which(program) is None:
        yield f"no such command: {program}"
    for option, value in zip(words, words[1:], strict=False):
        if program == "cmake" and option == "--preset" and f'"name": "{value}"' not in read("CMakePresets.json"):
            yield f"no preset {value}"
        if program == "cmake" and option == "--target" and f"add_custom_target({value} " not in cmake_text():
            yield f"no target {value}"
        if program == "ctest" and option == "-L" and not re.search(rf"LABELS \"?{value}\b", cmake_text()):
            yield f"no test has the label {value}"
    yield from (f"no such path: {word}" for word in words[1:] if word.startswith(("fuzz/", "tests/")) and not (ROOT / word).exists())


def check_commands(page: Page, build: Path) -> Iterator[tuple[int, str]]:
    options = read("src", "options.c")
    for block in blocks(page):
        if block.language != "sh":
            continue
        for line, variables, words in commands(block):
            if block.marker == "run" and not words[0].startswith("build/tests/unit/"):  # it is run instead
                continue
            yield from ((line, problem) for problem in check_program(words, build))
            yield from ((line, f"the allocator does not read {name}") for name in variables if name.startswith("RTMALLOC_") and name not in options)


# ---- 3. commands that are run ----


def copy_if_there(source: str, target: str) -> None:
    """Other tests run meanwhile and remove their temporary files."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, target)


def run_blocks(page: Page, build: Path) -> Iterator[tuple[int, str]]:
    marked = [block for block in blocks(page) if block.marker]
    if not marked:
        return
    with tempfile.TemporaryDirectory(prefix="rtmalloc-docs-") as temporary:
        scratch = Path(temporary) / "rtmalloc"
        shutil.copytree(ROOT, scratch, ignore=LEFT_OUT_OF_COPY, copy_function=copy_if_there)
        (scratch / "build").symlink_to(build)
        for block in marked:
            if block.marker.startswith("file: "):
                (scratch / block.marker.removeprefix("file: ")).write_text(block.text)
                continue
            try:
                done = subprocess.run(["sh", "-eu", "-c", block.text], cwd=scratch, stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, errors="replace", timeout=RUN_SECONDS, check=False)
            except subprocess.TimeoutExpired:
                yield block.line, f"took more than {RUN_SECONDS} seconds"
                continue
            if done.returncode:
                yield block.line, f"exit status {done.returncode}: {(done.stdout + done.stderr).strip()[-600:]}"


def main() -> None:
    build = Path(os.environ.get("RTM_BUILD", ROOT / "build")).resolve()
    if not (build / "librtmalloc.so").exists():
        sys.exit(f"no {build}/librtmalloc.so; run make, or set RTM_BUILD to the folder that has it")
    failures = ran = 0
    for page in pages():
        checks = (check_links(page), check_paths(page, build), check_names(page), check_commands(page, build), run_blocks(page, build))
        for line, problem in (found for check in checks for found in check):
            print(f"{page.path.relative_to(ROOT)}:{line}: {problem}")
            failures += 1
        ran += sum(block.marker == "run" for block in blocks(page))
    print(f"{len(pages())} pages, {ran} blocks run, {failures} failures")
    sys.exit(1 if failures or not ran else 0)


if __name__ == "__main__":
    main()
