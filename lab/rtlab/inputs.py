"""Inputs of the real programs that are generated: a PDF, a C file, a git repository. Always the same bytes."""

from __future__ import annotations

import random
from pathlib import Path

from rtlab.processes import run_tool

SEED = 2008
WORDS = [
    "page",
    "span",
    "segment",
    "arena",
    "heap",
    "block",
    "class",
    "granule",
    "list",
    "map",
    "word",
    "bit",
    "free",
    "take",
    "give",
]


def sentence(numbers: random.Random, words: int) -> str:
    return " ".join(numbers.choice(WORDS) for _ in range(words))


def page_drawing(numbers: random.Random) -> str:
    """The drawing commands of one page: coloured curves under lines of text in two fonts."""
    commands = []
    for _ in range(60):
        colour = " ".join(f"{numbers.random():.2f}" for _ in range(3))
        points = " ".join(f"{numbers.randrange(50, 550)}" for _ in range(6))
        start = f"{numbers.randrange(50, 550)} {numbers.randrange(50, 780)}"
        commands.append(f"{colour} rg {start} m {points} c f")
    commands.append("0 0 0 rg BT 12 TL 50 780 Td")
    for line in range(58):
        font, size = ("F1", 9) if line % 2 else ("F2", 10)
        commands.append(f"/{font} {size} Tf ({sentence(numbers, 14)}) Tj T*")
    return "\n".join([*commands, "ET"])


def pdf(pages: int) -> bytes:
    """A PDF with that many A4 pages (ISO 32000-1, section 7.5: header, objects, cross-reference table, trailer)."""
    numbers = random.Random(SEED)
    first_page = 5
    kids = " ".join(f"{first_page + 2 * i} 0 R" for i in range(pages))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {pages} /Kids [{kids}] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman >>",
    ]
    for i in range(pages):
        drawing = page_drawing(numbers)
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            f"/Contents {first_page + 2 * i + 1} 0 R "
            "/Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(drawing)} >>\nstream\n{drawing}\nendstream")
    text, offsets = "%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(text))
        text += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(text)}\n%%EOF\n"
    return (text + f"xref\n0 {size}\n0000000000 65535 f \n" + table + trailer).encode("ascii")


def c_source(functions: int) -> str:
    """A C file with that many functions of loops, switches and structures."""
    numbers = random.Random(SEED)
    parts = ["struct record { int a, b; struct record *next; double values[8]; };"]
    for i in range(functions):
        cases = "".join(
            f"    case {case}: total += r->a * {numbers.randrange(1, 99)} - r->b; break;\n"
            for case in range(numbers.randrange(3, 12))
        )
        call = f"total += work_{numbers.randrange(i)}(r->next, n - 1);" if i else "total += n;"
        parts.append(
            f"long work_{i}(struct record *r, int n) {{\n  long total = {i};\n"
            "  for (int i = 0; i < n && r; i++, r = r->next) {\n"
            f"    switch ((r->a + i) % {numbers.randrange(3, 12)}) {{\n{cases}"
            "    default: r->values[i & 7] += total * 0.5;\n    }\n"
            f"    if (n > {numbers.randrange(5, 60)} && r->next) {{ {call} }}\n"
            "  }\n  return total;\n}"
        )
    return "\n".join(parts) + "\n"


def git_history(commits: int, files: int) -> bytes:
    """A history for `git fast-import`: each commit rewrites a few files, some lines each."""
    numbers = random.Random(SEED)
    contents = {f"src/part{i % 20}/file{i}.c": [sentence(numbers, 8) for _ in range(120)] for i in range(files)}
    names = list(contents)
    stream = []
    for commit in range(commits):
        stream.append(
            f"commit refs/heads/main\ncommitter Lab <lab@localhost> {1_200_000_000 + commit * 3600} +0000\n"
            f"data <<END\nChange {commit}: {sentence(numbers, 6)}\nEND\n"
        )
        changed = names if commit == 0 else numbers.sample(names, 6)
        for name in changed:
            lines = contents[name]
            for _ in range(5):
                lines[numbers.randrange(len(lines))] = sentence(numbers, 8)
            text = "\n".join(lines) + "\n"
            stream.append(f"M 100644 inline {name}\ndata {len(text)}\n{text}\n")
    return "".join(stream).encode("ascii")


def make_repository(folder: Path, commits: int, files: int) -> None:
    """A bare repository with that history. Complete once the file `made` exists in it. Raises Failed."""
    if (folder / "made").is_file():
        return
    run_tool(["git", "init", "--bare", "--quiet", "--initial-branch=main", folder])
    history = folder / "history"
    history.write_bytes(git_history(commits, files))
    run_tool(["sh", "-c", 'git -C "$1" fast-import --quiet < "$2"', "sh", folder, history])
    history.unlink()
    (folder / "made").write_text("complete\n")
