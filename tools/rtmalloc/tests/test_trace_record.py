"""`rtmalloc trace record` on small C programs: everything is there, in order, whatever becomes of the process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from traces import two_threads

from rtmalloc_tools.trace import trace_format as form
from rtmalloc_tools.trace.blocks import link
from rtmalloc_tools.trace.record import traces_of_children
from rtmalloc_tools.trace.trace_format import read_trace

NATIVE = Path(__file__).resolve().parents[3] / "lab" / "native"
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing")
HEAD = """
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void *volatile keep;
static void take(size_t size) { keep = malloc(size); free(keep); }
"""


@pytest.fixture(scope="session")
def tracer(tmp_path_factory):
    library = tmp_path_factory.mktemp("tracer") / "librtmalloc-trace.so"
    flags = ["-O2", "-g", "-fPIC", "-shared", "-fexceptions", "-fno-builtin", "-ftls-model=initial-exec"]
    command = ["gcc", *flags, "-fvisibility=hidden", NATIVE / "trace.c", "-o", library, "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return library


@pytest.fixture
def traced(tmp_path, tracer):
    """Compiles a C program, records it; status, complaints, and the file."""

    def run(body: str, *options: str, arguments: tuple[str, ...] = ()) -> tuple[int, str, Path]:
        source, program, out = tmp_path / "p.c", tmp_path / "p", tmp_path / "t"
        source.write_text(HEAD + body)
        subprocess.run(["gcc", "-O1", "-fno-builtin", source, "-o", program, "-lpthread"], check=True)
        command = ["trace", "record", "-o", out, "--tracer", tracer, *options, "--", program, *arguments]
        done = subprocess.run(
            [sys.executable, "-m", "rtmalloc_tools", *command], capture_output=True, text=True, check=False, timeout=60
        )
        return done.returncode, done.stderr, out

    return run


def sizes(path: Path, operation: int = form.MALLOC) -> list[int]:
    events = read_trace(path).events
    return events.size[events.operation == operation].tolist()


def test_every_function_of_the_family_is_there(traced):
    status, _, out = traced("""
int main(void) {
  char *a = malloc(1001), *b = calloc(3, 1002), *c = aligned_alloc(256, 1024), *d;
  if (posix_memalign((void **)&d, 4096, 1003)) return 1;
  a = realloc(a, 2001);
  b = reallocarray(b, 2, 2002);
  char *e = realloc(NULL, 1004);
  keep = malloc((size_t)-1 / 4);
  if (keep != NULL || errno != ENOMEM) return 2;
  free(a); free(b); free(c); free(d); free(e); free(NULL);
  return 3;
}""")
    assert status == 3
    trace = read_trace(out)
    events = trace.events
    asked = list(zip(events.operation.tolist(), events.size.tolist(), events.alignment.tolist(), strict=True))
    expected = [
        (form.MALLOC, 1001, 0),
        (form.CALLOC, 3006, 0),
        (form.ALIGNED, 1024, 8),
        (form.ALIGNED, 1003, 12),
        (form.RESIZE_FROM, 0, 0),
        (form.RESIZE_TO, 2001, 0),
        (form.RESIZE_FROM, 0, 0),
        (form.RESIZE_TO, 4004, 0),
        (form.MALLOC, 1004, 0),
        (form.MALLOC, (2**64 - 1) // 4, 0),
        *[(form.FREE, 0, 0)] * 5,
    ]
    at = asked.index(expected[0])
    assert asked[at : at + len(expected)] == expected
    linked = link(events)
    assert (linked.failed, linked.unknown, linked.lost) == (1, 0, 0)
    assert trace.header.status == 3 and trace.header.exited


def test_two_threads_that_pass_blocks_keep_their_order(traced):
    status, _, out = traced("""
enum { BLOCKS = 20000 };
static void *volatile slots[64];
static void *consume(void *unused) {
  for (int i = 0; i < BLOCKS; i++) {
    while (slots[i % 64] == NULL) {}
    void *block = slots[i % 64];
    slots[i % 64] = NULL;
    free(block);
  }
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, consume, NULL);
  for (int i = 0; i < BLOCKS; i++) {
    void *block = malloc(24);
    while (slots[i % 64] != NULL) {}
    slots[i % 64] = block;
  }
  pthread_join(thread, NULL);
}""")
    assert status == 0
    trace = read_trace(out)
    linked = link(trace.events)
    passed = linked.sizes == 24
    assert passed.sum() >= 20000 and (linked.lost, linked.unknown) == (0, 0)
    owner, ender = trace.events.thread[linked.birth[passed]], trace.events.thread[linked.death[passed]]
    assert (owner != ender).sum() >= 20000


def test_a_crash_leaves_everything_up_to_it(traced):
    status, complaint, out = traced("""
int main(void) {
  for (int i = 0; i < 10000; i++) take(777);
  *(volatile int *)8 = 1;
}""")
    assert status == 128 + 11 and "was ended by SIGSEGV" in complaint
    assert sizes(out).count(777) == 10000 and not read_trace(out).header.exited


FORKS = """
int main(void) {
  void *before = malloc(111);
  if (fork() == 0) { free(before); take(222); exit(0); }
  wait(NULL);
  take(333);
  return 0;
}"""


def test_a_forked_child_does_not_write_to_its_parents_trace(traced):
    status, _, out = traced(FORKS)
    assert status == 0 and traces_of_children(out) == []
    assert 222 not in sizes(out) and {111, 333} <= set(sizes(out))


def test_a_forked_child_gets_a_trace_of_its_own_if_asked(traced):
    status, _, out = traced(FORKS, "--children")
    (child,) = traces_of_children(out)
    assert status == 0 and 222 in sizes(child) and 333 not in sizes(child)
    trace = read_trace(child)
    assert trace.header.forked and link(trace.events).unknown == 1
    assert trace.header.finished and trace.header.ending == "ended normally"


def test_after_exec_the_trace_is_the_new_programs(traced):
    status, _, out = traced(
        """
int main(int count, char **arguments) {
  if (count == 1) { take(222); execl(arguments[0], arguments[0], "again", NULL); }
  take(333);
  return 0;
}"""
    )
    assert status == 0 and 333 in sizes(out) and 222 not in sizes(out)


def test_many_short_threads_share_chunks(traced):
    status, _, out = traced("""
static void *work(void *unused) { take(99); return unused; }
int main(void) {
  for (int i = 0; i < 500; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
  }
}""")
    assert status == 0 and sizes(out).count(99) == 500
    assert out.stat().st_size < 1 << 20  # 500 chunks would be 32 MiB
    assert len(set(read_trace(out).events.thread.tolist())) == 501


def test_a_program_that_closes_every_file_is_recorded_to_its_end(traced):
    status, _, out = traced("""
int main(void) {
  for (int i = 3; i < 100; i++) close(i);
  for (int i = 0; i < 50000; i++) take(55);
}""")
    assert status == 0 and sizes(out).count(55) == 50000


def test_at_the_limit_the_recording_stops_and_the_program_goes_on(traced):
    status, complaint, out = traced(
        """
int main(void) { for (int i = 0; i < 100000; i++) take(55); return 5; }""",
        "--limit",
        "1M",
    )
    assert status == 5 and out.stat().st_size <= 1 << 20
    header = read_trace(out).header
    assert header.stopped and header.dropped > 100000
    assert "the trace ends here" in complaint and "the limit was reached" in complaint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("record", "-o", "/no/such/t", "--", "true"), "its folder /no/such does not exist"),
        (("record", "-o", "t", "--limit", "much", "--", "true"), "Limit 'much' is not understood"),
        (("record", "-o", "t", "--", "no-such-program"), "no-such-program: there is no such program"),
        (("record", "-o", "app.c", "--", "true"), "app.c: is there, and is not a trace"),
        (("record", "-o", "", "--", "true"), "The name of the file to write is empty"),
        (("record", "-o", "t", "--tracer", "/dev/null", "--", "true"), "/dev/null: is no regular file"),
        (("record", "-o", "t", "--tracer", "/no.so", "--", "true"), "/no.so: there is no such library"),
        (("show", "/no/such"), "/no/such: the trace cannot be read"),
        (("shwo", "t"), "Did you mean 'show'?"),
    ],
)
def test_bad_input_is_answered_with_what_to_do(rtmalloc, tracer, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("app.c").write_text("int main(void) {}\n")
    chosen = ("--tracer", tracer) if arguments[0] == "record" and "--tracer" not in arguments else ()
    status, _, complaint = rtmalloc("trace", arguments[0], *chosen, *arguments[1:])
    assert status == 2 and message in complaint
    assert Path("app.c").read_text() == "int main(void) {}\n"


def test_show_says_what_is_in_it(rtmalloc, tmp_path):
    status, text, _ = rtmalloc("trace", "show", two_threads(tmp_path / "t"))
    assert status == 0
    words = " ".join(text.replace("│", " ").split())
    assert "10 records over 90 µs; the process ended with status 0" in words
    assert "malloc 1 100 B 100" in words and "free 3" in words
    assert "2 2 2 1 364 B 30 µs 90 µs" in words  # thread 2: two blocks, two frees, one of thread 1's block
    assert "Live at most: 300 B (300 bytes asked for, in 1 blocks) after 71 µs; at the end 300 B." in words
    assert "1 requests got no memory." in words and "1 frees of blocks that the trace did not see" in words
