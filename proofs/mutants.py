#!/usr/bin/env python3
"""Does the stress find mistakes? Breaks a copy of src in one place at a time, and runs proofs_stress on it.

  proofs/mutants.py                 all of them; minutes
  proofs/mutants.py --only no_recheck --schedules 5000 --seed 2

Each mutant must fail. Exit status 1 if one survives, or if its text is no longer in src (then change the table).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 120

# name: file, text, what it becomes
MUTANTS = {
    "no_recheck": (
        "hint.c",
        "if (!atomic_load_explicit(&word->bits, memory_order_seq_cst)) return true;",
        "return true;",
    ),
    "never_settle": ("hint.c", "if (settle_level(leaf)) settle_level(leaf->parent);", "(void)leaf;"),
    "look_and_zero": (
        "page.c",
        "uint64_t bits = atomic_exchange_explicit(&page->remote[w], 0, memory_order_acq_rel);",
        "uint64_t bits = atomic_load(&page->remote[w]); atomic_store(&page->remote[w], 0);",
    ),
    "no_hint_at_the_top": ("hint.h", "  hint_raise_level(group->parent, group->parent_bit);", ""),
    "claim_blind": (
        "heap.c",
        "return __atomic_compare_exchange_n(&heap->state, &orphan, HEAP_CLAIMED, false,"
        " __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);",
        "if (__atomic_load_n(&heap->state, 0) != orphan) return false;"
        " __atomic_store_n(&heap->state, HEAP_CLAIMED, 0); return true;",
    ),
    "stash_lost": ("heap.c", "hint_empty_stash(&heap->hints);", "heap->hints.stash_bits = 0;"),
}


def build(source: Path, folder: Path) -> Path:
    """proofs_stress, as proofs/CMakeLists.txt makes it."""
    common = ["gcc", "-std=gnu11", "-O1", "-g", "-w", "-fno-strict-aliasing", f"-I{source}", f"-I{ROOT / 'include'}"]
    version = [f"-DRTM_VERSION_{part}=0" for part in ("MAJOR", "MINOR", "PATCH")]
    objects = []
    for path in [*source.glob("*.c"), *source.glob("os/*.c")]:
        objects.append(str(folder / f"{path.stem}.o"))
        subprocess.run([*common, *version, "-fsanitize=thread", "-c", str(path), "-o", objects[-1]], check=True)
    program = folder / "stress"
    own = [str(ROOT / "proofs" / name) for name in ("stress.c", "scheduler.c")]
    subprocess.run(
        [*common, "-DPROOFS_SCHEDULER", *own, *objects, "-Wl,--wrap=os_lock_wait", "-lpthread", "-o", str(program)],
        check=True,
    )
    return program


def run(name: str, mutant: tuple[str, str, str], schedules: int, seed: int) -> tuple[bool, str]:
    file, text, becomes = mutant
    with tempfile.TemporaryDirectory(prefix="rtmalloc-mutant-") as temporary:
        folder = Path(temporary)
        source = folder / "src"
        shutil.copytree(ROOT / "src", source)
        before = (source / file).read_text()
        if before.count(text) != 1:
            return False, f"its text is in src/{file} {before.count(text)} times, not once"
        (source / file).write_text(before.replace(text, becomes))
        program = build(source, folder)
        try:
            done = subprocess.run(
                [str(program), str(schedules), str(seed)], capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return True, f"found: it hangs for {SECONDS} s"
    if done.returncode == 0:
        return False, "survives"
    return True, f"found: {(done.stderr.strip().splitlines() or [f'signal {-done.returncode}'])[-1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutants whose name has this text")
    parser.add_argument("--schedules", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    wrong = 0
    for name, mutant in MUTANTS.items():
        if arguments.only in name:
            good, words = run(name, mutant, arguments.schedules, arguments.seed)
            wrong += not good
            print(f"{'ok   ' if good else 'WRONG'} {name:<22} {words}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
