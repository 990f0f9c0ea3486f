/* The command `bounds`: runs the rows of the design's section 5 for an allocator and says which bounds it keeps.
 *
 * Layer: lab/steps, top: a table of loads and bounds over run.h. Exit status 1 if a bound is passed.
 */
#include "run.h"
#include "tracer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum statistic { MEAN, WORST };

/* One load under one row's bounds. A bound of 0: not judged. */
struct measurement {
    const char *row;
    const char *load; /* words, parted by blanks; MAX stands for the largest size below huge */
    uint64_t seeds;
    enum statistic statistic;
    unsigned malloc_bound, free_bound, remote_free_bound;
    bool large; /* minutes: only with --large */
};

static const struct measurement measurements[] = {
    {"warm, 8..1024", "taskset --min 8 --max 1024 --mallocs 18000 --warmup 20000", 3, MEAN, 18, 22, 0, false},
    {"warm, 8..20480", "taskset --min 8 --max 20480 --mallocs 18000 --warmup 20000", 3, MEAN, 28, 28, 0, false},
    {"any size, worst", "taskset --min 8 --max 20480 --mallocs 6000", 1, WORST, 300, 220, 0, false},
    {"any size, worst", "synthetic --mallocs 18000", 1, WORST, 300, 220, 0, false},
    {"any size, worst", "anysize --live 100 --cold --max MAX", 2, WORST, 300, 220, 0, false},
    {"any size, worst", "anysize --live 10000 --cold --max MAX", 1, WORST, 300, 220, 0, false},
    {"any size, worst", "anysize --live 1000000 --max MAX", 1, WORST, 300, 220, 0, true},
    {"any size, worst", "adversary --max MAX", 4, WORST, 300, 220, 60, false},
    {"any size, worst", "adversary --max 65536", 4, WORST, 300, 220, 60, false},
    {"remote free", "remote --threads 1", 1, WORST, 0, 0, 60, false},
    {"remote free", "remote --threads 8 --max 65536", 2, WORST, 0, 0, 60, false},
    {"remote free", "remote --threads 64 --blocks 50", 1, WORST, 0, 0, 60, false},
    {"remote free", "remote --threads 8 --keep-allocating", 1, WORST, 300, 0, 60, false},
    {"remote free", "remote --threads 8 --orphan", 1, WORST, 0, 0, 60, false},
};

static const char usage[] =
    "usage: bounds [options]\n"
    "  --preload LIB        the allocator, a library that defines malloc; none: libc's\n"
    "  --row TEXT           only the rows, or loads, whose name contains this text\n"
    "  --below-huge BYTES   largest size below huge (default 2097152)\n"
    "  --seeds N            seeds for each load, instead of the table's\n"
    "  --large              also a million live blocks (minutes)\n"
    "  --report-only        exit status 0 even if a bound is passed\n"
    "  --json FILE          write the results as JSON too\n"
    "  --processor N        run on this processor; the default is the last one allowed\n";

struct options {
    const char *preload, *row, *json;
    char *below_huge;
    uint64_t seeds;
    bool large, report_only;
    int processor;
};

static struct options parse(char **arguments)
{
    struct options options = {.row = "", .below_huge = "2097152", .processor = run_default_processor()};
    for (char **argument = arguments + 1; *argument != NULL; argument++) {
        const char *name = *argument;
        if (strcmp(name, "--large") == 0) {
            options.large = true;
            continue;
        }
        if (strcmp(name, "--report-only") == 0) {
            options.report_only = true;
            continue;
        }
        char *value = strcmp(name, "--help") == 0 ? NULL : argument[1];
        if (value != NULL && strcmp(name, "--preload") == 0)
            options.preload = value;
        else if (value != NULL && strcmp(name, "--row") == 0)
            options.row = value;
        else if (value != NULL && strcmp(name, "--json") == 0)
            options.json = value;
        else if (value != NULL && strcmp(name, "--below-huge") == 0)
            options.below_huge = value;
        else if (value != NULL && strcmp(name, "--seeds") == 0)
            options.seeds = run_number(name, value);
        else if (value != NULL && strcmp(name, "--processor") == 0)
            options.processor = (int)run_number(name, value);
        else {
            fprintf(stderr, "bounds: what is '%s'?\n%s", name, usage);
            exit(2);
        }
        argument++;
    }
    return options;
}

/* One judged operation of one measurement. */
struct verdict {
    const struct measurement *measurement;
    enum marked_kind kind;
    unsigned bound;
    double observed;
    bool over;
};

static void print_verdict(const struct verdict *v, const struct worst_operation *worst)
{
    const struct measurement *m = v->measurement;
    printf("%-16s %-62s %-12s %-6s %6u %10.2f  %s", m->row, m->load, counts_kind_name(v->kind),
           m->statistic == MEAN ? "mean" : "worst", v->bound, v->observed, v->over ? "OVER" : "ok");
    if (v->over && m->statistic == WORST)
        printf("  (%llu bytes, seed %llu%s%s)", (unsigned long long)worst->size, (unsigned long long)worst->seed,
               worst->note[0] ? ", in " : "", worst->note);
    printf("\n");
    fflush(stdout);
}

static void print_json(const char *path, const struct options *options, const struct verdict *verdicts, size_t count)
{
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        perror(path);
        exit(2);
    }
    fprintf(out, "{\"preload\": ");
    if (options->preload != NULL)
        counts_print_json_string(options->preload, out);
    else
        fprintf(out, "null");
    fprintf(out, ", \"bounds\": [");
    for (const struct verdict *v = verdicts; v < verdicts + count; v++)
        fprintf(out,
                "%s\n  {\"row\": \"%s\", \"load\": \"%s\", \"operation\": \"%s\", \"statistic\": \"%s\", \"bound\": %u, "
                "\"observed\": %.4f, \"ok\": %s}",
                v == verdicts ? "" : ",", v->measurement->row, v->measurement->load, counts_kind_name(v->kind),
                v->measurement->statistic == MEAN ? "mean" : "worst", v->bound, v->observed, v->over ? "false" : "true");
    fprintf(out, "\n]}\n");
    fclose(out);
}

/* The words of a measurement's load; they live in text[]. */
static void split(const struct measurement *m, char *below_huge, char *text, size_t bytes, char **words)
{
    size_t count = 0;
    snprintf(text, bytes, "%s", m->load);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        words[count++] = strcmp(word, "MAX") == 0 ? below_huge : word;
    words[count] = NULL;
}

int main(int argument_count, char **arguments)
{
    (void)argument_count;
    struct options options = parse(arguments);
    struct verdict verdicts[3 * sizeof measurements / sizeof measurements[0]];
    size_t count = 0, over = 0;
    printf("%-16s %-62s %-12s %-6s %6s %10s\n", "row", "load", "operation", "", "bound", "observed");
    for (size_t i = 0; i < sizeof measurements / sizeof measurements[0]; i++) {
        const struct measurement *m = &measurements[i];
        if ((m->large && !options.large) || (strstr(m->row, options.row) == NULL && strstr(m->load, options.row) == NULL))
            continue;
        char text[128], *words[32], error[TRACER_ERROR_BYTES];
        split(m, options.below_huge, text, sizeof text, words);
        struct run run = {.preload = options.preload,
                          .command = words,
                          .seeds = options.seeds ? options.seeds : m->seeds,
                          .first_seed = 1,
                          .processor = options.processor};
        struct counts counts = {0};
        if (run_load(&run, &counts, error) != 0) {
            fprintf(stderr, "bounds: %s: seed %llu: %s\n", m->load, (unsigned long long)counts.seed, error);
            return 2;
        }
        const struct { enum marked_kind kind; unsigned bound; } judged[] = {
            {MARKED_MALLOC, m->malloc_bound}, {MARKED_FREE, m->free_bound}, {MARKED_REMOTE_FREE, m->remote_free_bound}};
        for (int j = 0; j < 3; j++) {
            struct summary s = counts_summary(&counts.of[judged[j].kind]);
            if (judged[j].bound == 0 || s.calls == 0)
                continue;
            double observed = m->statistic == MEAN ? s.mean : s.max;
            struct verdict v = {m, judged[j].kind, judged[j].bound, observed, observed > judged[j].bound};
            print_verdict(&v, &counts.of[v.kind].worst);
            over += v.over;
            verdicts[count++] = v;
        }
        counts_free(&counts);
    }
    if (count == 0) {
        fprintf(stderr, "bounds: no row or load contains '%s'\n", options.row);
        return 2;
    }
    printf("%zu of %zu bounds kept\n", count - over, count);
    if (options.json != NULL)
        print_json(options.json, &options, verdicts, count);
    return over > 0 && !options.report_only;
}
