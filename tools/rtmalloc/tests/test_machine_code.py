"""Bounds of small programs, counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import analyse, row

from rtmalloc_tools.bound.binary import base_name, read_binary
from rtmalloc_tools.bound.longest import count
from rtmalloc_tools.bound.rows import Apart, External, LoopBound, Named, Row
from rtmalloc_tools.mistakes import Mistake


def loop(most: int, function: str = "entry", linear: bool = False) -> LoopBound:
    return LoopBound(function, most, "a test", linear=linear)


def problem(result) -> str:
    assert result.proven is None
    return "\n".join(str(problem) for problem in result.problems)


def test_a_straight_line_counts_each_instruction_and_the_return(bound_of):
    assert bound_of("nop\nnop\nnop\nret").proven == 4


def test_a_diamond_counts_its_longer_side(bound_of):
    # test, je, then 1: nop nop nop jmp  or 2: nop; ret
    assert bound_of("test %rdi, %rdi\nje 1f\nnop\nnop\nnop\njmp 2f\n1: nop\n2: ret").proven == 2 + 4 + 1


def test_two_diamonds_add_up_though_they_exclude_each_other(bound_of):
    side = "test %rdi, %rdi\nje {0}f\nnop\nnop\n{0}: "
    assert bound_of(side.format(1) + side.format(2) + "ret").proven == 4 + 4 + 1


def test_a_call_costs_itself_and_the_longest_way_through(bound_of):
    result = bound_of("call inner\nret", inner="test %rdi, %rdi\nje 1f\nnop\n1: ret")
    assert result.proven == 1 + 4 + 1


def test_a_function_called_twice_counts_twice(bound_of):
    assert bound_of("call inner\ncall inner\nret", inner="nop\nret").proven == 3 + 1 + 3


def test_a_tail_call_goes_on_in_the_other_function(bound_of):
    assert bound_of("nop\njmp inner", inner="nop\nnop\nret").proven == 2 + 3


def test_a_cold_part_is_followed_there_and_back(assemble):
    library = assemble(
        {"entry": "test %rdi, %rdi\nje entry.cold\nback: nop\nret", "entry.cold": "nop\nnop\nnop\njmp back"}
    )
    assert analyse(library, row()).proven == 2 + 4 + 2


def test_an_exit_counts_the_jump_to_it_and_nothing_beyond(bound_of):
    result = bound_of("test %rdi, %rdi\nje slow\nnop\nret", row(exits=("slow",)), slow="nop\n" * 50 + "ret")
    assert result.proven == 4
    assert list(result.met) == ["slow"]


def test_an_exit_inside_a_called_function_ends_the_path_of_its_caller(bound_of):
    long = "call inner\n" + "nop\n" * 3 + "ret"
    result = bound_of(
        long, row(exits=("slow",)), inner="test %rdi, %rdi\nje 1f\nret\n1:" + "nop\n" * 9 + "jmp slow", slow="ret"
    )
    assert result.proven == 1 + 2 + 9 + 1  # out by the exit, not back (1 + 3 + 4)


def test_an_exit_is_known_by_its_name_without_the_compilers_suffix(assemble):
    library = assemble({"entry": "jmp slow.constprop.0", "slow.constprop.0": "nop\nret"})
    assert analyse(library, row(exits=("slow",))).proven == 1


def test_part_of_a_function_is_not_the_function(assemble):
    library = assemble({"entry": "jmp slow.part.0", "slow.part.0": "nop\nret"})
    assert analyse(library, row(exits=("slow",))).proven == 3
    assert analyse(library, row(exits=("slow.part",))).proven == 1


def test_an_exit_has_a_name_of_its_own(build, tmp_path):
    leave = 'static __attribute__((noinline)) int leave(int a) { __asm__ volatile(""); return a + %d; }\n'
    other = tmp_path / "other.c"
    other.write_text(leave % 1 + '__attribute__((visibility("hidden"))) int other(int a) { return leave(a) * 2; }')
    source = leave % 2 + "int other(int);\nint entry(int a) { return a ? leave(a) : other(a); }"
    library = build(source, str(other))
    exits = Row("general", "malloc", "page", "entry", {"leave": Named("leave", Apart.EXIT, "in a test")})
    assert "several functions are named leave" in problem(analyse(library, exits))


def test_a_copy_of_another_function_of_the_name_is_not_left_out_unseen(assemble):
    functions = {"entry": "je slow\njmp slow.isra.0", "slow": "ret", "slow.isra.0": "nop\nret"}
    assert "several functions are named slow" in problem(analyse(assemble(functions), row(exits=("slow",))))
    whole = {"entry": "je slow\nret", "slow": "jmp slow.cold", "slow.cold": "ret"}
    assert analyse(assemble(whole), row(exits=("slow",))).proven == 2


def test_what_is_linear_is_called_but_not_counted(bound_of):
    result = bound_of("call copy\nnop\nret", row(linear=("copy",)), copy="1: jmp 1b")
    assert result.proven == 3


def test_a_path_that_traps_ends_there(bound_of):
    assert bound_of("test %rdi, %rdi\nje 1f\nret\n1: ud2").proven == 3


def test_a_call_that_never_returns_ends_the_path(bound_of):
    result = bound_of("test %rdi, %rdi\njne 1f\ncall stop\n1: ret", stop="nop\nud2")
    assert result.proven == 2 + 1 + 2


def test_a_loop_is_refused_with_its_place(bound_of):
    text = problem(bound_of("1: dec %rdi\njne 1b\nret"))
    assert "an undeclared loop" in text and "in entry at 0x" in text and "jne" in text


def test_a_declared_loop_is_charged_its_bound(bound_of):
    # mov; 8 times dec, jne; ret
    assert bound_of("mov $8, %rdi\n1: dec %rdi\njne 1b\nret", loops=(loop(8),)).proven == 1 + 8 * 2 + 1


def test_the_last_time_round_counts_only_as_far_as_the_loop_is_left(bound_of):
    # The test is at the top: 3 runs of cmp, je and 2 of the body.
    result = bound_of("1: cmp $2, %rdi\nje 2f\ninc %rdi\nnop\njmp 1b\n2: ret", loops=(loop(3),))
    assert result.proven == 2 * 5 + 2 + 1
    assert count(result.trail) == result.proven


def test_the_longest_way_round_is_charged(bound_of):
    body = "1: test %rsi, %rsi\nje 2f\nnop\nnop\nnop\n2: dec %rdi\njne 1b\nret"
    assert bound_of(body, loops=(loop(4),)).proven == 4 * 7 + 1


def test_nested_loops_multiply(bound_of):
    # outer 3 times: nop, inner 5 times (dec, jne), dec, jne
    bounds = (LoopBound("entry", 5, "a test", at="jne 2b"), LoopBound("entry", 3, "a test", at="jne 1b"))
    result = bound_of("1: nop\n2: dec %rsi\njne 2b\ndec %rdi\njne 1b\nret", loops=bounds)
    assert result.proven == 3 * (1 + 5 * 2 + 2) + 1
    assert count(result.trail) == result.proven


def test_nested_loops_need_a_declaration_each(bound_of):
    text = problem(bound_of("1: nop\n2: dec %rsi\njne 2b\ndec %rdi\njne 1b\nret", loops=(loop(5),)))
    assert "tell them apart by `at`" in text


def test_a_loop_does_not_go_by_the_bound_of_one_inlined_into_it(build):
    source = """
    static inline __attribute__((always_inline)) void clear(volatile int *p) { for (int i = 0; i < 8; i++) p[i] = 0; }
    void entry(volatile int *p, int n) { do { p += 8; clear(p); } while (--n); }
    """
    library = build(source, "-O1")
    assert "an undeclared loop of entry" in problem(analyse(library, row(), (LoopBound("clear", 9, "a test"),)))
    both = (LoopBound("clear", 9, "a test"), LoopBound("entry", 3, "a test"))
    result = analyse(library, row(), both)
    assert sorted(used.bound.most for used in result.loops.values()) == [3, 9]


def test_nested_loops_told_apart_by_their_source_lines(build):
    source = """
    int entry(volatile int *p) {
      for (int i = 0; i < 3; i++) {
        *p += 1;
        for (int j = 0; j < 5; j++)
          *p += 2;
      }
      return 0;
    }
    """
    library = build(source, "-O1", "-fno-inline")
    both = (LoopBound("entry", 3, "a test", at="i < 3"), LoopBound("entry", 5, "a test", at="j < 5"))
    result = analyse(library, row(), both)
    bounds = sorted(used.bound.most for used in result.loops.values())
    assert bounds == [3, 5] and not result.problems


def test_a_loop_within_a_called_function_counts_for_each_call(bound_of):
    result = bound_of("call inner\ncall inner\nret", loops=(loop(4, "inner"),), inner="1: dec %rdi\njne 1b\nret")
    assert result.proven == 2 * (1 + 8 + 1) + 1


def test_a_linear_loop_is_charged_as_often_as_its_shortest(bound_of):
    assert bound_of("1: dec %rdi\njne 1b\nret", loops=(loop(2, linear=True),)).proven == 5


def test_a_loop_with_two_ways_in_is_refused(bound_of):
    text = problem(bound_of("test %rdi, %rdi\nje 2f\n1: nop\n2: dec %rdi\njne 1b\nret", loops=(loop(4),)))
    assert "a loop with several ways in" in text


def test_a_declared_loop_is_refused_on_a_sealed_path(bound_of):
    assert "a loop on a sealed path" in problem(bound_of("1: dec %rdi\njne 1b\nret", row(mode="pag"), (loop(8),)))


def test_a_compare_and_swap_loop_is_a_loop_and_a_lone_one_is_not(bound_of):
    assert bound_of("lock cmpxchg %rsi, (%rdi)\nret").proven == 2
    assert "an undeclared loop" in problem(bound_of("1: lock cmpxchg %rsi, (%rdi)\njne 1b\nret"))


def test_a_repeated_string_instruction_is_a_loop(bound_of):
    assert "an undeclared loop" in problem(bound_of("rep stosq\nret"))
    assert bound_of("rep stosq\nret", loops=(loop(16),)).proven == 17
    assert bound_of("rep stosq\nret", loops=(loop(1, linear=True),)).proven == 2


@pytest.mark.parametrize("name", ["loop", "loope", "loopne"])
def test_the_loop_instruction_is_one(bound_of, name):
    assert "an undeclared loop" in problem(bound_of(f"1: nop\n{name} 1b\nret"))
    assert bound_of(f"{name} 1f\nnop\n1: ret").proven == 3


@pytest.mark.parametrize(
    "body", ["lret", "lret $8", "iretq", "sysretq", "ljmp *(%rdi)", "lcall *(%rdi)", "xbegin 1f\n1: ret"]
)
def test_what_leaves_for_another_segment_is_refused(bound_of, body):
    assert problem(bound_of(body))


def test_repz_ret_is_a_return(bound_of):
    assert bound_of("nop\nrep ret").proven == 2


@pytest.mark.parametrize("body", ["jmp *%rax", "jmp *(%rdi)", "notrack jmp *%rax"])
def test_an_indirect_jump_is_refused(bound_of, body):
    assert "an indirect jump" in problem(bound_of(body))


@pytest.mark.parametrize("body", ["call *%rax\nret", "call *8(%rdi)\nret"])
def test_an_indirect_call_is_refused(bound_of, body):
    assert "an indirect call" in problem(bound_of(body))


def test_a_call_through_a_pointer_that_can_be_written_is_refused(assemble):
    body = "call *pointer(%rip)\nret\n.data\n.hidden pointer\npointer: .quad entry\n.text"
    assert "an indirect call" in problem(analyse(assemble({"entry": body}), row()))


@pytest.mark.parametrize("body", ["syscall\nret", "int $0x80\nret", "sysenter\nret", "int1\nret"])
def test_a_system_call_is_refused(bound_of, body):
    assert "a system call" in problem(bound_of(body))


def test_a_system_call_counts_as_one_where_a_function_around_it_is_outside_the_bound(build):
    source = """
      static inline __attribute__((always_inline)) long ask(void) {
        long result;
        __asm__ volatile("syscall" : "=a"(result) : "a"(39L) : "rcx", "r11", "memory");
        return result;
      }
      long entry(void) { return ask(); }"""
    outside = Row("general", "malloc", "page", "entry", {"ask": Named("ask", Apart.OUTSIDE, "in a test")})
    result = analyse(build(source), outside)
    assert result.proven == 3  # mov, syscall, ret
    assert list(result.met) == ["ask"]


def test_recursion_is_refused(bound_of):
    assert "recursion" in problem(bound_of("test %rdi, %rdi\nje 1f\ncall entry\n1: ret"))


def test_recursion_by_way_of_another_function_is_refused(bound_of):
    assert "recursion" in problem(bound_of("test %rdi, %rdi\nje 1f\ncall other\n1: ret", other="call entry\nret"))


def test_a_tail_call_to_itself_is_a_loop(bound_of):
    assert "an undeclared loop" in problem(bound_of("dec %rdi\njne entry\nret"))
    assert bound_of("dec %rdi\njne entry\nret", loops=(loop(6),)).proven == 13


def test_running_off_the_end_of_a_function_is_refused(bound_of):
    assert "runs off the end of entry" in problem(bound_of("nop\nnop", other="ret"))


def test_the_complaint_says_how_the_path_gets_there(bound_of):
    (found,) = bound_of("call inner\nret", inner="syscall\nret").problems
    assert (found.function, found.way) == ("inner", "entry > inner")


C_COPY = """
#include <string.h>
void *entry(void *to, const void *from, size_t n) { return memcpy(to, from, n); }
"""


@pytest.mark.parametrize("options", [(), ("-fno-plt",)])
def test_an_external_function_is_outside_the_certified_set(build, options):
    library = build(C_COPY, *options)
    assert "calls memcpy, which is outside the certified set" in problem(analyse(library, row()))


def test_an_external_function_that_is_linear_is_resolved_by_its_relocation(build):
    through_plt, direct = build(C_COPY), build(C_COPY, "-fno-plt")
    of = row(linear=("memcpy",))
    assert analyse(direct, of).proven == 1  # jmp *memcpy@GOT
    assert analyse(through_plt, of).proven == 2  # jmp memcpy@plt; jmp *slot


def test_an_external_function_with_a_declared_count(build):
    result = analyse(build(C_COPY, "-fno-plt"), row(), externals=(External("memcpy", 30, "a test"),))
    assert result.proven == 31
    assert count(result.trail) == 31


def test_a_function_that_another_file_may_replace_is_outside_the_certified_set(build):
    source = ".globl entry, inner\n.type entry, @function\n.type inner, @function\n"
    source += "entry: jmp inner@plt\n.size entry, .-entry\ninner: ret\n.size inner, .-inner\n"
    library = build(source, "-nostdlib", suffix=".s")
    assert "calls inner, which is outside the certified set" in problem(analyse(library, row()))


def test_lazy_binding_is_refused(build):
    text = problem(analyse(build(C_COPY, "-Wl,-z,lazy,-z,norelro"), row()))
    assert "indirect" in text or "bound when it is first called" in text


def test_the_source_line_is_named(build):
    source = "int entry(int n) {\n  int sum = 0;\n  for (int i = 0; i < n; i++)\n    sum += i * i;\n  return sum;\n}\n"
    (found, *_) = analyse(build(source, "-O1"), row()).problems
    assert found.source.startswith("source0.c:")


def test_a_loop_is_declared_for_the_function_that_was_inlined(build):
    source = """
    static inline __attribute__((always_inline)) void clear(volatile int *p) { for (int i = 0; i < 8; i++) p[i] = 0; }
    void entry(volatile int *p) { clear(p); }
    """
    library = build(source, "-O1")
    assert analyse(library, row(), (LoopBound("clear", 9, "a test"),)).proven is not None
    assert "clear, inlined" in problem(analyse(library, row()))


def test_an_unknown_entry_names_the_nearest_function(bound_of):
    with pytest.raises(Mistake, match="Did you mean 'entry'"):
        bound_of("ret", row(entry="entri"))


def test_an_object_file_is_refused(build):
    with pytest.raises(Mistake, match="object file"):
        read_binary(build("int entry(void) { return 1; }", "-r", "-no-pie", "-fno-pie", "-shared", "-nostdlib", "-c"))


def test_a_stripped_library_is_refused_with_advice(assemble):
    with pytest.raises(Mistake, match="stripped"):
        analyse(assemble({"entry": "ret"}, "-s"), row())


def test_a_file_that_is_no_library_is_refused(tmp_path: Path):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(Mistake, match="not an ELF file"):
        analyse(tmp_path / "text", row())


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("large", "large"),
        ("large.cold", "large"),
        ("large.constprop.0.cold", "large"),
        ("large.isra.0", "large"),
        ("large.part.2", "large.part"),
        ("large.part.2.cold", "large.part"),
        ("memcpy@GLIBC_2.14", "memcpy"),
    ],
)
def test_the_compilers_suffixes(symbol, name):
    assert base_name(symbol) == name


@pytest.mark.parametrize(
    "body",
    [
        "lea entry(%rip), %rax\npush %rax\nret",
        "sub $8, %rsp\nret",
        "push %rbx\ntest %rax, %rax\nje 1f\npop %rbx\n1: ret",
        "push %rax\njmp other",
    ],
)
def test_a_return_to_what_the_function_put_on_the_stack_is_refused(assemble, body):
    result = analyse(assemble({"entry": body, "other": "ret"}), row())
    assert "on the stack" in problem(result)


def test_what_leaves_the_stack_as_it_was_is_followed(assemble):
    body = (
        "push %rbx\nsub $24, %rsp\ntest %rax, %rax\nje 1f\nadd $24, %rsp\npop %rbx\nret\n"
        "1: lea 24(%rsp), %rsp\npop %rbx\njmp other"
    )
    assert analyse(assemble({"entry": body, "other": "ret"}), row()).problems == []
