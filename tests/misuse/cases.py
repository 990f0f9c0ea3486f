"""The table of the misuse suite: each row becomes one small program (misuse.h has what they share).

A row is a group, a name and the body of main. Rows that differ in the size only, or in the number of bytes, are made
from one text by `for_each`: NAME stands for its value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SIZES = {"small": "64", "medium": "(100 * KIB)", "huge": "(5 * MIB)"}
BYTES = {"1": "1", "8": "8", "1_mib": "MIB"}
SIDES = {"behind": "p + SIZE", "before": "p - BYTES"}


@dataclass(frozen=True)
class Case:
    group: str
    name: str
    body: str
    cxx: bool = False

    @property
    def source(self) -> str:
        head = '#include "misuse.h"\n' + ("#include <new>\n" if self.cxx else "")
        return f"{head}int main() {{\n{self.body.strip()}\n}}\n"


def for_each(group: str, name: str, body: str, **choices: dict[str, str]) -> Iterator[Case]:
    """One case for each combination. The words of `name` in capitals and those of `body` are replaced."""
    if not choices:
        yield Case(group, name, body)
        return
    word, values = next(iter(choices.items()))
    rest = {key: value for key, value in choices.items() if key != word}
    for label, text in values.items():
        yield from for_each(group, name.replace(word, label), body.replace(word, text), **rest)


def pick(table: dict[str, str], *names: str) -> dict[str, str]:
    return {name: table[name] for name in names}


def c(group: str, rows: dict[str, str]) -> Iterator[Case]:
    return (Case(group, name, body) for name, body in rows.items())


def cxx(group: str, rows: dict[str, str]) -> Iterator[Case]:
    return (Case(group, name, body, True) for name, body in rows.items())


def overflows() -> Iterator[Case]:
    yield from for_each(
        "overflow",
        "write_BYTES_SIDE_SIZE",
        """
  unsigned char *p = take_among(SIZE);
  misuse(); memset(SIDE, 0xee, BYTES); done();
  finish(SIZE);""",
        SIDE=SIDES,
        SIZE=SIZES,
        BYTES=BYTES,
    )
    yield from for_each(
        "overflow",
        "read_BYTES_SIDE_SIZE",
        """
  unsigned char *p = take_among(SIZE);
  misuse(); bool harm = reads_live(SIDE, BYTES); done();
  verdict(harm);""",
        SIDE=SIDES,
        SIZE=pick(SIZES, "small", "medium"),
        BYTES={"64": "64", "1_mib": "MIB"},
    )


def use_after_free() -> Iterator[Case]:
    yield from for_each(
        "use after free",
        "write_at_once_SIZE",
        """
  unsigned char *p = take_among(SIZE);
  give(p);
  misuse(); memset(p, 0xee, 16); done();
  finish(SIZE);""",
        SIZE=SIZES,
    )
    yield from for_each(
        "use after free",
        "write_all_of_it_SIZE",
        """
  unsigned char *p = take_among(SIZE);
  give(p);
  misuse(); memset(p, 0xee, SIZE); done();
  finish(SIZE);""",
        SIZE=SIZES,
    )
    yield from for_each(
        "use after free",
        "write_after_reuse_SIZE",
        """
  unsigned char *p = take_among(SIZE);
  give(p);
  take_among(SIZE);
  misuse(); memset(p + 16, 0xee, 16); done();
  finish(SIZE);""",
        SIZE=SIZES,
    )
    yield from for_each(
        "use after free",
        "read_at_once_SIZE",
        """
  unsigned char *p = take_among(SIZE), pattern = pattern_of(p);
  give(p);
  misuse(); bool harm = reads(p, SIZE, pattern); done();
  verdict(harm);""",
        SIZE=SIZES,
    )
    yield from for_each(
        "use after free",
        "read_after_reuse_SIZE",
        """
  unsigned char *p = take_among(SIZE);
  give(p);
  take_among(SIZE);
  misuse(); bool harm = reads_live(p, SIZE); done();
  verdict(harm);""",
        SIZE=SIZES,
    )
    yield from c(
        "use after free",
        {
            "call_after_reuse": """
  void (**object)(void) = (void (**)(void))malloc(64);
  *object = misuse;
  free(object);
  for (int i = 0; i < 40; i++) { void (**other)(void) = (void (**)(void))malloc(64); *other = done; }
  misuse(); (*object)();
  verdict(true);""",
            "write_after_free_by_thread": """
  unsigned char *p = take_among(64);
  give_by_thread(p);
  misuse(); memset(p, 0xee, 16); done();
  finish(64);""",
            "write_after_realloc": """
  unsigned char *p = take_among(64);
  unwatch(p);
  unsigned char *q = (unsigned char *)realloc(p, 4000);
  watch(q, 4000);
  misuse(); if (q != p) memset(p, 0xee, 16); done(); /* where it stays, nothing was freed */
  finish(64);""",
        },
    )


def double_frees() -> Iterator[Case]:
    yield from for_each(
        "double free",
        "at_once_SIZE",
        """
  unsigned char *p = take_among(SIZE);
  give(p);
  misuse(); free(p); done();
  finish(SIZE);""",
        SIZE=SIZES,
    )
    yield from for_each(
        "double free",
        "delayed_SIZE",
        """
  unsigned char *p = take(SIZE), *others[20];
  for (int i = 0; i < (int)count_for(SIZE) / 2; i++) others[i] = take(SIZE);
  take(SIZE);
  give(p);
  for (int i = 0; i < (int)count_for(SIZE) / 2; i++) give(others[i]);
  misuse(); free(p); done();
  finish(SIZE);""",
        SIZE=SIZES,
    )
    yield from for_each(
        "double free",
        "interleaved_SIZE",
        """
  unsigned char *p = take(SIZE), *q = take(SIZE);
  take(SIZE);
  give(p); give(q);
  misuse(); free(p); done();
  finish(SIZE);""",
        SIZE=SIZES,
    )
    yield from for_each(
        "double free",
        "after_reuse_SIZE",
        """
  unsigned char *p = take_among(SIZE);
  give(p);
  take_among(SIZE);
  misuse(); free(p); done();
  finish(SIZE);""",
        SIZE=SIZES,
    )
    yield from c(
        "double free",
        {
            "after_1000_others": """
  unsigned char *p = take(64), *others[1000];
  for (int i = 0; i < 1000; i++) others[i] = take(64);
  give(p);
  for (int i = 0; i < 1000; i++) give(others[i]);
  misuse(); free(p); done();
  for (int i = 0; i < 2000; i++) take(64);
  finish(64);""",
            "other_size_between": """
  unsigned char *p = take(64), *q = take(3000);
  take(64);
  give(p); give(q);
  misuse(); free(p); done();
  finish(64);""",
            "own_thread_then_other": """
  unsigned char *p = take_among(64);
  give(p);
  misuse(); give_by_thread(p); done();
  finish(64);""",
            "other_thread_then_own": """
  unsigned char *p = take_among(64);
  give_by_thread(p);
  misuse(); free(p); done();
  finish(64);""",
            "two_other_threads": """
  unsigned char *p = take_among(64);
  give_by_thread(p);
  misuse(); give_by_thread(p); done();
  finish(64);""",
            "medium_other_thread_then_own": """
  unsigned char *p = take_among(100 * KIB);
  give_by_thread(p);
  misuse(); free(p); done();
  finish(100 * KIB);""",
            "of_a_thread_that_exited": """
  unsigned char *p = take_by_thread(64);
  give(p);
  misuse(); free(p); done();
  finish(64);""",
            "after_realloc": """
  unsigned char *p = take_among(64);
  unwatch(p);
  watch(realloc(p, 4000), 4000);
  misuse(); free(p); done();
  finish(64);""",
            "after_realloc_to_0": """
  unsigned char *p = take_among(64);
  unwatch(p);
  void *volatile q = realloc(p, 0);
  misuse(); free(p); done();
  finish(64);""",
        },
    )


def invalid_frees() -> Iterator[Case]:
    interior = {
        "small_interior_16": ("64", "16"),
        "small_interior_last": ("64", "48"),
        "small_misaligned_1": ("64", "1"),
        "small_misaligned_8": ("64", "8"),
        "small_next_to_it": ("64", "64 * 1000"),
        "medium_interior_16": ("(100 * KIB)", "16"),
        "medium_interior_page": ("(100 * KIB)", "8192"),
        "medium_interior_last_page": ("(100 * KIB)", "98304"),
        "huge_interior_16": ("(5 * MIB)", "16"),
        "huge_interior_page": ("(5 * MIB)", "8192"),
        "huge_interior_4_mib": ("(5 * MIB)", "4 * MIB"),
    }
    for name, (size, offset) in interior.items():
        yield Case(
            "invalid free",
            name,
            f"""
  unsigned char *p = take_among({size});
  misuse(); free(p + {offset}); done();
  finish({size});""",
        )
    yield from c(
        "invalid free",
        {
            "small_interior_by_thread": """
  unsigned char *p = take_among(64);
  misuse(); give_by_thread(p + 16); done();
  finish(64);""",
            "small_interior_after_free": """
  unsigned char *p = take_among(64);
  give(p);
  misuse(); free(p + 16); done();
  finish(64);""",
            "stack": """
  unsigned char s[256] __attribute__((aligned(64)));
  keep(s, sizeof s); take(64);
  misuse(); free(s + 64); done();
  finish(64);""",
            "stack_with_forged_header": """
  size_t s[64] __attribute__((aligned(64)));
  keep(s, sizeof s); take(64);
  s[7] = 0x51; s[17] = 0x51; /* sizes as glibc has them */
  misuse(); free(s + 8); done();
  unsigned char *p = (unsigned char *)malloc(64);
  verdict(p >= (unsigned char *)s && p < (unsigned char *)(s + 64));""",
            "static": "  take(64);\n  misuse(); free(trap + 64); done();\n  finish(64);",
            "code": "  take(64);\n  misuse(); free((void *)((uintptr_t)finish & ~15ul)); done();\n  finish(64);",
            "mapped": """
  unsigned char *p = (unsigned char *)mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  keep(p, 16 * MIB); take(64);
  misuse(); free(p + 4096 + 64); done();
  finish(64);""",
            "low": "  take(64);\n  misuse(); free((void *)0x1000); done();\n  finish(64);",
            "unmapped": "  take(64);\n  misuse(); free((void *)0x123450000040); done();\n  finish(64);",
            "far": "  unsigned char *p = take(64);\n  misuse(); free(p + ((size_t)1 << 30)); done();\n  finish(64);",
            "not_canonical": "  take(64);\n  misuse(); free((void *)0x4141414141414140); done();\n  finish(64);",
            "realloc_of_stack": """
  unsigned char s[256] __attribute__((aligned(64)));
  keep(s, sizeof s); take(64);
  misuse(); void *volatile p = realloc(s + 64, 1000); done();
  finish(64);""",
            "realloc_of_interior": """
  unsigned char *p = take_among(64);
  misuse(); void *volatile q = realloc(p + 16, 1000); done();
  finish(64);""",
            "usable_size_of_stack": """
  unsigned char s[256] __attribute__((aligned(64)));
  keep(s, sizeof s); take(64);
  misuse(); size_t size = malloc_usable_size(s + 64); done();
  verdict(size > 0);""",
        },
    )


def mismatches() -> Iterator[Case]:
    yield from cxx(
        "mismatched",
        {
            "new_then_free": """
  char *p = (char *)operator new(64); take(64);
  misuse(); free(p); done();
  finish(64);""",
            "malloc_then_delete": """
  char *p = (char *)malloc(64); take(64);
  misuse(); operator delete(p); done();
  finish(64);""",
            "new_array_then_delete": """
  char *p = (char *)operator new[](64); take(64);
  misuse(); operator delete(p); done();
  finish(64);""",
            "new_then_delete_array": """
  char *p = (char *)operator new(64); take(64);
  misuse(); operator delete[](p); done();
  finish(64);""",
            "aligned_new_then_plain_delete": """
  char *p = (char *)operator new(64, std::align_val_t(256)); take(64);
  misuse(); operator delete(p); done();
  finish(64);""",
            "new_then_aligned_delete": """
  char *p = (char *)operator new(64); take(64);
  misuse(); operator delete(p, std::align_val_t(256)); done();
  finish(64);""",
        },
    )
    sizes = {
        "larger": ("64", "4096"),
        "one_class_larger": ("64", "80"),
        "smaller": ("4096", "64"),
        "small_as_medium": ("64", "100 * KIB"),
        "medium_as_small": ("(100 * KIB)", "64"),
        "small_as_huge": ("64", "16 * MIB"),
        "huge_as_small": ("(5 * MIB)", "64"),
    }
    for name, (size, claimed) in sizes.items():
        yield Case(
            "wrong size",
            f"sized_delete_{name}",
            f"""
  for (int i = 0; i < (int)count_for({size}); i++) watch(operator new({size}), {size});
  void *p = live[live_count - 2].start;
  unwatch(p);
  misuse(); operator delete(p, (size_t){claimed}); done();
  for (int i = 0; i < 3; i++) watch(operator new({claimed}), {claimed});
  finish({size});""",
            True,
        )


def reallocs() -> Iterator[Case]:
    yield from for_each(
        "realloc of freed",
        "at_once_SIZE",
        """
  unsigned char *p = take_among(SIZE);
  give(p);
  misuse(); unsigned char *q = (unsigned char *)realloc(p, 2 * SIZE); done();
  if (q) watch(q, 2 * SIZE);
  finish(SIZE);""",
        SIZE=SIZES,
    )
    yield from c(
        "realloc of freed",
        {
            "to_the_same_size": """
  unsigned char *p = take_among(64);
  give(p);
  misuse(); unsigned char *q = (unsigned char *)realloc(p, 64); done();
  if (q) watch(q, 64);
  finish(64);""",
            "after_reuse": """
  unsigned char *p = take_among(64);
  give(p);
  take_among(64);
  misuse(); unsigned char *q = (unsigned char *)realloc(p, 4000); done();
  if (q) watch(q, 4000);
  finish(64);""",
        },
    )


def forged_links() -> Iterator[Case]:
    start = "  unsigned char *p = take_among(64), *q = take(64), *r = take(64);\n  take(64); give(q); give(p);\n"
    targets = {
        "to_static": "*(void **)p = trap + 64;",
        "to_stack": "*(void **)p = s + 64;",
        "to_live_block": "*(void **)p = r;",
        "second_word": "((void **)p)[1] = trap + 64;",
        "every_word": "for (int i = 0; i < 8; i++) ((void **)p)[i] = trap + 64;",
        "low_byte": "*p ^= 16;",
        "as_glibc_encodes_it": "*(uintptr_t *)p = (uintptr_t)p >> 12 ^ (uintptr_t)(trap + 64);",
        "to_itself": "*(void **)p = p;",
    }
    for name, forge in targets.items():
        yield Case(
            "forged link",
            name,
            f"""
  unsigned char s[256] __attribute__((aligned(64)));
  keep(s, sizeof s);
{start}  misuse(); {forge} done();
  finish(64);""",
        )
    yield from c(
        "forged link",
        {
            "medium": """
  unsigned char *p = take_among(100 * KIB);
  give(p);
  misuse(); for (int i = 0; i < 8; i++) ((void **)p)[i] = trap + 64; done();
  finish(100 * KIB);""",
            "by_overflow": """
  unsigned char *p = take_among(64), *q = p + 64, *last = p;
  for (int tries = 0; q != last && tries < 200; tries++) { /* two blocks that lie close to each other */
    last = q;
    for (unsigned i = 0; i < live_count; i++) for (unsigned j = 0; j < live_count; j++) if (live[i].pattern &&
      live[j].start > live[i].start && live[j].start < live[i].start + 256) p = live[i].start, last = q = live[j].start;
    if (pattern_of(q) == 0) take(64), last = p;
  }
  bool close = pattern_of(q) != 0; /* where each block stands alone, no two do */
  if (close) give(q);
  misuse(); for (void **w = (void **)(p + 64); close && w <= (void **)q; w++) *w = trap + 64; done();
  finish(64);""",
        },
    )


def contents() -> Iterator[Case]:
    yield from for_each(
        "contents",
        "secret_in_new_block_SIZE",
        """
  unsigned char *p = take_among(SIZE), pattern = pattern_of(p);
  give(p);
  misuse();
  bool harm = false;
  for (unsigned i = 0; i < count_for(SIZE); i++) harm |= reads((unsigned char *)malloc(SIZE), SIZE, pattern);
  done();
  verdict(harm);""",
        SIZE=SIZES,
    )
    yield from for_each(
        "contents",
        "calloc_after_use_SIZE",
        """
  for (int i = 0; i < 3; i++) give(take_among(SIZE));
  misuse(); bool harm = !zeroes(SIZE); done();
  verdict(harm);""",
        SIZE=SIZES,
    )
    yield from for_each(
        "contents",
        "calloc_after_write_to_freed_SIZE",
        """
  unsigned char *p = take_among(SIZE);
  give(p);
  malloc_trim(0);
  misuse(); memset(p + 32, 0xee, 16); done();
  verdict(!zeroes(SIZE));""",
        SIZE=SIZES,
    )
    yield from c(
        "contents",
        {
            "secret_in_realloc": """
  unsigned char *p = take_among(4000), pattern = pattern_of(p), *q;
  give(p);
  misuse();
  bool harm = false;
  for (int i = 0; i < 40; i++) { q = (unsigned char *)realloc(malloc(16), 4000); harm |= reads(q + 16, 3984, pattern); }
  done();
  verdict(harm);""",
        },
    )


def execution() -> Iterator[Case]:
    yield from for_each(
        "executable heap",
        "SIZE",
        """
  unsigned char *p = take(SIZE);
#if defined(__aarch64__)
  *(uint32_t *)p = 0xd65f03c0;
  __builtin___clear_cache((char *)p, (char *)p + 4);
#else
  *p = 0xc3;
#endif
  misuse(); ((void (*)(void))p)(); done();
  verdict(true);""",
        SIZE=SIZES,
    )


def sizes() -> Iterator[Case]:
    null = "  misuse(); void *volatile p = {call}; done();\n  verdict(p != NULL);"
    calls = {
        "malloc_size_max": "malloc(SIZE_MAX)",
        "malloc_ptrdiff_max_1": "malloc((size_t)PTRDIFF_MAX + 1)",
        "malloc_wraps_to_0": "malloc(SIZE_MAX - 7)",
        "calloc_overflow": "calloc(SIZE_MAX / 2, 4)",
        "calloc_wraps_to_small": "calloc(((size_t)1 << 60) + 1, 16)",
        "reallocarray_overflow": "reallocarray(malloc(64), SIZE_MAX / 2, 4)",
        "aligned_alloc_2_to_62": "aligned_alloc((size_t)1 << 62, 64)",
        "memalign_size_max": "memalign(64, SIZE_MAX - 32)",
        "pvalloc_size_max": "pvalloc(SIZE_MAX)",
    }
    yield from c("impossible size", {name: null.format(call=call) for name, call in calls.items()})
    yield from c(
        "impossible size",
        {
            "posix_memalign_3": """
  void *p = NULL;
  misuse(); int error = posix_memalign(&p, 3, 64); done();
  verdict(error == 0);""",
            "realloc_size_max": """
  unsigned char *p = take(64);
  misuse(); void *volatile q = realloc(p, SIZE_MAX); done();
  verdict(q != NULL || damaged());""",
        },
    )
    yield from cxx(
        "impossible size",
        {
            "new_size_max": """
  void *volatile p = NULL;
  misuse();
  try { p = operator new(SIZE_MAX - 64); } catch (const std::bad_alloc &) {}
  done();
  verdict(p != NULL);""",
        },
    )


CASES: tuple[Case, ...] = (
    *overflows(),
    *use_after_free(),
    *double_frees(),
    *invalid_frees(),
    *mismatches(),
    *reallocs(),
    *forged_links(),
    *contents(),
    *execution(),
    *sizes(),
)
