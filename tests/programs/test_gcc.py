"""gcc compiles the core itself to the same bytes on the library as on the system's malloc."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from conftest import ROOT
from preloaded import Allocator

FLAGS = ("-O2", "-g", "-std=gnu11", "-fPIC", f"-I{ROOT}/include", f"-I{ROOT}/src")


def generated_source(folder: Path) -> Path:
    """Something to compile while the core is empty."""
    functions = (
        f"int f{i}(int n, int *a) {{ int s = {i}; for (int k = 0; k < n; k++) s += a[k] * (k ^ {i}); return s; }}"
        for i in range(500)
    )
    path = folder / "generated.c"
    path.write_text("\n".join(functions) + "\n")
    return path


def sources(folder: Path, most: int) -> list[Path]:
    core = sorted((ROOT / "src").rglob("*.c"))[:most]
    return core or [generated_source(folder)]


def test_compiling_the_core(
    system: Allocator, preloaded: Allocator, scale: int, program: Callable[[str], str], tmp_path: Path
) -> None:
    gcc = program("gcc")
    files = sources(tmp_path, most=1000 if scale > 1 else 4)

    def compile_all(allocator: Allocator) -> list[tuple[str, bytes, bytes]]:
        objects = []
        for number, source in enumerate(files):
            target = tmp_path / f"{number}.o"
            output = allocator.run(gcc, *FLAGS, "-c", source, "-o", target)
            objects.append((source.name, output.stderr, target.read_bytes()))
            target.unlink()
        return objects

    assert compile_all(preloaded) == compile_all(system)
