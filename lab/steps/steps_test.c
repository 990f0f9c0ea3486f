/* Tests of the instruction counter: known counts, repeatability, and what it says when a load goes wrong.
 *
 * Layer: lab/steps, uses run.h as stepcount does. Exit status 0 if all hold.
 */
#include "functions.h"
#include "run.h"
#include "tracer.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void check(bool holds, const char *behaviour, const char *found)
{
    printf("%s %s%s%s\n", holds ? "ok  " : "FAIL", behaviour, holds ? "" : ": ", holds ? "" : found);
    failures += !holds;
}

static int count_load(char *const *command, struct counts *counts, char *error)
{
    struct run run = {.command = command, .processor = run_default_processor()};
    error[0] = '\0';
    return run_load(&run, counts, error);
}

static void expect_count(const char *behaviour, char *which, size_t calls, uint32_t expected)
{
    struct counts counts = {0};
    char error[TRACER_ERROR_BYTES], found[TRACER_ERROR_BYTES + 128];
    int result = count_load((char *[]){"known", "--case", which, NULL}, &counts, error);
    struct summary s = counts_summary(&counts.of[MARKED_FUNCTION]);
    snprintf(found, sizeof found, "wanted %zu calls of %u, found %zu calls of %u to %u %s", calls, expected, s.calls, s.min,
             s.max, error);
    check(result == 0 && s.calls == calls && s.min == expected && s.max == expected, behaviour, found);
    counts_free(&counts);
}

static void expect_error(const char *behaviour, char *which, const char *message)
{
    struct counts counts = {0};
    char error[TRACER_ERROR_BYTES];
    int result = count_load((char *[]){"known", "--case", which, NULL}, &counts, error);
    check(result != 0 && strstr(error, message) != NULL, behaviour, error);
    counts_free(&counts);
}

static void expect_functions(const char *behaviour, char *which, const char *expected)
{
    struct counts counts = {0};
    char error[TRACER_ERROR_BYTES] = "", found[1024] = "";
    struct functions *functions = functions_new();
    struct run run = {.command = (char *[]){"known", "--calls", "1", "--case", which, NULL},
                      .processor = run_default_processor(),
                      .functions = functions};
    int result = run_load(&run, &counts, error);
    FILE *file = fmemopen(found, sizeof found, "w");
    functions_print(functions, file);
    fclose(file);
    check(result == 0 && strcmp(found, expected) == 0, behaviour, result == 0 ? found : error);
    counts_free(&counts);
}

/* Of 400 additions by eight threads: how many times, on average, another thread was faster in one. */
static double times_behind(uint64_t interleave)
{
    enum { ALONE = 406, AGAIN = 4 };
    struct counts counts = {0};
    char error[TRACER_ERROR_BYTES];
    struct run run = {.command = (char *[]){"known", "--case", "12", "--calls", "50", NULL},
                      .processor = run_default_processor(),
                      .interleave = interleave};
    int result = run_load(&run, &counts, error);
    struct summary s = counts_summary(&counts.of[MARKED_FUNCTION]);
    check(result == 0 && s.calls == 400 && s.min >= ALONE, "threads that add to one counter are counted", error);
    counts_free(&counts);
    return (s.mean - ALONE) / AGAIN;
}

static void interleaving_puts_others_first(void)
{
    char found[64];
    double without = times_behind(0), with = times_behind(1);
    snprintf(found, sizeof found, "%g times behind without it, %g with it", without, with);
    check(without < 0.1 && with > 0.2, "interleaving lets other threads be faster at atomic instructions", found);
}

static void expect_left_out(const char *behaviour, const char *functions, size_t calls)
{
    struct counts counts = {0};
    char error[TRACER_ERROR_BYTES];
    struct run run = {.command = (char *[]){"known", "--case", "2", NULL},
                      .processor = run_default_processor(),
                      .left_out = functions};
    int result = run_load(&run, &counts, error);
    check(result == 0 && counts.of[MARKED_FUNCTION].calls == calls, behaviour, error);
    counts_free(&counts);
}

static void same_seed_counts_the_same(const char *behaviour, char *const *command)
{
    struct counts first = {0}, second = {0};
    char error[TRACER_ERROR_BYTES];
    bool same = count_load(command, &first, error) == 0 && count_load(command, &second, error) == 0;
    for (int kind = 0; same && kind < MARKED_KINDS; kind++) {
        struct operation_counts *a = &first.of[kind], *b = &second.of[kind];
        same = a->calls == b->calls &&
               (a->calls == 0 || memcmp(a->instructions, b->instructions, a->calls * sizeof *a->instructions) == 0);
    }
    check(same && first.of[MARKED_MALLOC].calls + first.of[MARKED_REMOTE_FREE].calls > 0, behaviour, error);
    counts_free(&first);
    counts_free(&second);
}

static void statistics_are_right(void)
{
    struct counts counts = {0};
    for (uint32_t i = 1000; i > 0; i--)
        counts_add(&counts, MARKED_MALLOC, i, 0);
    struct summary s = counts_summary(&counts.of[MARKED_MALLOC]);
    check(s.calls == 1000 && s.min == 1 && s.p50 == 500 && s.p99 == 990 && s.p99_9 == 999 && s.max == 1000 &&
              s.mean == 500.5 && s.variance > 83333.2 && s.variance < 83333.3 && counts.of[MARKED_MALLOC].worst.index == 0,
          "statistics of 1 .. 1000", "other values");
    counts_free(&counts);
}

int main(void)
{
    statistics_are_right();
    expect_count("a function that only returns counts 1", "0", 10, 1);
    expect_count("a loop counts each turn", "1", 10, 22);
    expect_count("a call inside counts on both sides", "2", 10, 3);
    expect_count("a repeated string instruction counts 1", "3", 10, 5);
    expect_count("a system call counts 1", "4", 10, 3);
    expect_count("recursion counts to the outermost return", "5", 10, 45);
    expect_count("signal handlers run and are not counted", "6", 10, 20002);
    expect_count("threads at once are counted apart", "7", 80, 22);

    expect_left_out("what comes to a function that is left out is not counted", "known_22,known_1", 0);
    expect_left_out("nor is what begins with it", "known_3_call", 0);
    expect_left_out("what comes to another one is", "known_22", 10);
    interleaving_puts_others_first();

    expect_functions("a called function is counted by itself and in its caller", "2",
                     "function,instructions\nknown_1,1\nknown_3_call,3\n");
    expect_functions("recursion counts each call", "5",
                     "function,instructions\nknown_recursive,3\nknown_recursive,9\nknown_recursive,15\n"
                     "known_recursive,21\nknown_recursive,27\nknown_recursive,33\nknown_recursive,39\n"
                     "known_recursive,45\n");

    struct counts counts = {0};
    char error[TRACER_ERROR_BYTES];
    int result = count_load((char *[]){"known", "--case", "8", NULL}, &counts, error);
    check(result == 0 && counts.of[MARKED_FUNCTION].calls == 1, "a stepped thread gets a lock that another held", error);
    counts_free(&counts);

    expect_error("a crash in an operation names it", "9", "in function (0 bytes) after 1 instructions");
    expect_error("a load that fails is reported", "10", "ended with status 3");
    expect_error("an exit in an operation is reported", "11", "a thread ended inside function");
    expect_error("a load that refuses its options is reported", "99", "ended with status 2");

    same_seed_counts_the_same("task set: the same seed gives the same counts",
                              (char *[]){"taskset", "--mallocs", "500", NULL});
    same_seed_counts_the_same("adversary: the same seed gives the same counts",
                              (char *[]){"adversary", "--operations", "1000", NULL});
    same_seed_counts_the_same("remote: the same seed gives the same counts",
                              (char *[]){"remote", "--threads", "8", "--keep-allocating", "--blocks", "10", NULL});
    return failures != 0;
}
