/* The command `stepcount`: counts the instructions of each marked operation of a load.
 *
 * Layer: lab/steps, top: command line and output over run, counts and worst_trace. Usage: stepcount --help.
 */
#define _GNU_SOURCE
#include "counts.h"
#include "run.h"
#include "tracer.h"
#include "worst_trace.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: stepcount [options] -- LOAD [load options]\n"
    "  --preload LIB      the allocator, a library that defines malloc; none: libc's\n"
    "  --seeds N          run the load N times, with --seed 1 to N added, and put the counts together\n"
    "  --first-seed S     begin with S instead of 1 (implies --seeds 1)\n"
    "  --json FILE        write the statistics as JSON too; '-' for standard output instead of the table\n"
    "  --each FILE        write count and size of each operation as CSV, kind by kind in the order of the calls\n"
    "  --functions FILE   write the count of each call of each function inside the operations, callees included, as CSV\n"
    "  --max-trace FILE   write where the instructions of the worst operation of each kind went\n"
    "  --library-only     leave out what the library calls in others: zeroing and copying\n"
    "  --watch FUNCTION   count the calls of that function of the library, too, as `function`: from the first marked call on,\n"
    "                     in its thread and in those that start later\n"
    "  --interleave SEED  stop each thread before or behind atomic instructions of the library, by chance, until an operation\n"
    "                     of another one has ended; SEED from 1 on; for loads whose threads run at once\n"
    "  --leave-out F,G    do not count operations that come to one of these functions of the library\n"
    "  --processor N      run on this processor; the default is the last one allowed\n"
    "LOAD is a path, or a name in the folder of stepcount: taskset, synthetic, anysize, remote, adversary, threads.\n"
    "Its options: stepcount -- LOAD --help\n";

struct options {
    const char *preload, *json, *trace, *each, *functions, *watched, *left_out;
    uint64_t interleave; /* 0: not at all */
    uint64_t seeds, first_seed; /* seeds 0: run once, the load's own --seed */
    int processor;
    bool library_only;
    char **command;
};

_Noreturn static void wrong_usage(const char *problem, const char *what)
{
    fprintf(stderr, "stepcount: %s%s\n%s", problem, what, usage);
    exit(2);
}

static uint64_t seed_number(const char *name, const char *text)
{
    uint64_t seed = run_number(name, text);
    if (seed == 0)
        wrong_usage("wanted 1 or more for ", name);
    return seed;
}

static struct options parse(char **arguments)
{
    struct options options = {.first_seed = 1, .processor = run_default_processor()};
    char **argument = arguments + 1;
    for (; *argument != NULL && strcmp(*argument, "--") != 0; argument += 2) {
        if (strcmp(*argument, "--library-only") == 0) {
            options.library_only = true;
            argument--;
            continue;
        }
        if (strcmp(*argument, "--help") == 0) {
            printf("%s", usage);
            exit(0);
        }
        const char *name = *argument, *value = argument[1];
        if (value == NULL || strcmp(value, "--") == 0)
            wrong_usage("a value is missing after ", name);
        if (strcmp(name, "--preload") == 0)
            options.preload = value;
        else if (strcmp(name, "--json") == 0)
            options.json = value;
        else if (strcmp(name, "--each") == 0)
            options.each = value;
        else if (strcmp(name, "--functions") == 0)
            options.functions = value;
        else if (strcmp(name, "--max-trace") == 0)
            options.trace = value;
        else if (strcmp(name, "--watch") == 0)
            options.watched = value;
        else if (strcmp(name, "--leave-out") == 0)
            options.left_out = value;
        else if (strcmp(name, "--interleave") == 0)
            options.interleave = seed_number(name, value);
        else if (strcmp(name, "--seeds") == 0)
            options.seeds = run_number(name, value);
        else if (strcmp(name, "--first-seed") == 0)
            options.first_seed = run_number(name, value);
        else if (strcmp(name, "--processor") == 0)
            options.processor = (int)run_number(name, value);
        else
            wrong_usage("unknown option ", name);
    }
    if (options.library_only && options.preload == NULL)
        wrong_usage("--library-only wants a library: ", "--preload");
    if (options.watched != NULL && options.preload == NULL)
        wrong_usage("--watch wants a library: ", "--preload");
    if (*argument == NULL || argument[1] == NULL)
        wrong_usage("no load given; it comes after ", "--");
    options.command = argument + 1;
    return options;
}

static FILE *open_output(const char *path)
{
    FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    return file;
}

static void print_json(const struct options *options, const struct counts *counts)
{
    FILE *out = open_output(options->json);
    fprintf(out, "{\n  \"preload\": ");
    if (options->preload != NULL)
        counts_print_json_string(options->preload, out);
    else
        fprintf(out, "null");
    fprintf(out, ",\n  \"command\": [");
    for (char **word = options->command; *word != NULL; word++) {
        fprintf(out, "%s", word == options->command ? "" : ", ");
        counts_print_json_string(*word, out);
    }
    fprintf(out, "],\n  \"first_seed\": %llu, \"seeds\": %llu,\n  \"operations\": ", (unsigned long long)options->first_seed,
            (unsigned long long)options->seeds);
    counts_print_json(counts, out);
    fprintf(out, "\n}\n");
    if (out != stdout)
        fclose(out);
}

static void print_each(const char *path, const struct counts *counts)
{
    FILE *out = open_output(path);
    fprintf(out, "operation,instructions,bytes\n");
    for (int kind = 0; kind < MARKED_KINDS; kind++)
        for (size_t i = 0; i < counts->of[kind].calls; i++)
            fprintf(out, "%s,%u,%llu\n", counts_kind_name(kind), counts->of[kind].instructions[i],
                    (unsigned long long)counts->of[kind].sizes[i]);
    if (out != stdout)
        fclose(out);
}

int main(int argument_count, char **arguments)
{
    (void)argument_count;
    struct options options = parse(arguments);
    struct counts counts = {0};
    struct run run = {
        .preload = options.preload,
        .command = options.command,
        .seeds = options.seeds,
        .first_seed = options.first_seed,
        .processor = options.processor,
        .library_only = options.library_only,
        .watched = options.watched,
        .left_out = options.left_out,
        .interleave = options.interleave,
        .keep_trace = options.trace != NULL,
        .functions = options.functions != NULL ? functions_new() : NULL,
    };
    char error[TRACER_ERROR_BYTES];
    if (run_load(&run, &counts, error) != 0) {
        fprintf(stderr, "stepcount: %s\n", error);
        return 1;
    }
    if (options.json == NULL || strcmp(options.json, "-") != 0)
        counts_print_table(&counts, stdout);
    if (options.json != NULL)
        print_json(&options, &counts);
    if (options.each != NULL)
        print_each(options.each, &counts);
    if (options.functions != NULL) {
        FILE *out = open_output(options.functions);
        functions_print(run.functions, out);
        if (out != stdout)
            fclose(out);
    }
    if (options.trace != NULL) {
        FILE *out = open_output(options.trace);
        worst_trace_print(&counts, out);
        if (out != stdout)
            fclose(out);
    }
    counts_free(&counts);
    return 0;
}
