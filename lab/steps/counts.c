/* The instruction counts of a run, by kind of operation, and their statistics; see counts.h.
 *
 * Layer: lab/steps, implements counts.h.
 */
#include "counts.h"

#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {
    [MARKED_MALLOC] = "malloc",   [MARKED_FREE] = "free",       [MARKED_REMOTE_FREE] = "remote free",
    [MARKED_CALLOC] = "calloc",   [MARKED_REALLOC] = "realloc", [MARKED_ALIGNED_ALLOC] = "aligned_alloc",
    [MARKED_WIDE_ALIGNED_ALLOC] = "wide aligned_alloc",
    [MARKED_NEW] = "operator new",
    [MARKED_SIZED_FREE] = "sized free", [MARKED_FREE_SIZED] = "free_sized",
    [MARKED_ALIGNED_DELETE] = "aligned delete",
    [MARKED_REMOTE_SIZED_FREE] = "remote sized free", [MARKED_REMOTE_FREE_SIZED] = "remote free_sized",
    [MARKED_REMOTE_ALIGNED_DELETE] = "remote aligned delete", [MARKED_FUNCTION] = "function",
};
_Static_assert(sizeof kind_names / sizeof kind_names[0] == MARKED_KINDS, "every kind has a name");

const char *counts_kind_name(enum marked_kind kind) { return kind_names[kind]; }

void counts_new_run(struct counts *counts, uint64_t seed)
{
    counts->seed = seed;
    for (int kind = 0; kind < MARKED_KINDS; kind++)
        counts->of[kind].calls_before_run = counts->of[kind].calls;
}

int counts_add(struct counts *counts, enum marked_kind kind, uint32_t instructions, uint64_t size)
{
    struct operation_counts *operation = &counts->of[kind];
    if (operation->calls == operation->capacity) {
        operation->capacity = operation->capacity ? 2 * operation->capacity : 4096;
        operation->instructions = realloc(operation->instructions, operation->capacity * sizeof *operation->instructions);
        operation->sizes = realloc(operation->sizes, operation->capacity * sizeof *operation->sizes);
        if (operation->instructions == NULL || operation->sizes == NULL) {
            fprintf(stderr, "stepcount: out of memory for %zu counts\n", operation->capacity);
            exit(2);
        }
    }
    size_t index = operation->calls - operation->calls_before_run;
    operation->sizes[operation->calls] = size;
    operation->instructions[operation->calls++] = instructions;

    struct worst_operation *worst = &operation->worst;
    if (operation->calls > 1 && instructions <= worst->instructions)
        return 0;
    free(worst->trace);
    free(worst->maps);
    *worst = (struct worst_operation){.instructions = instructions, .size = size, .index = index, .seed = counts->seed};
    return 1;
}

static int compare_counts(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Nearest rank: the smallest value that at least that share of the values do not exceed. */
static uint32_t percentile(const uint32_t *sorted, size_t n, unsigned per_mille)
{
    size_t rank = (n * per_mille + 999) / 1000;
    return sorted[rank > 0 ? rank - 1 : 0];
}

struct summary counts_summary(const struct operation_counts *operation)
{
    size_t n = operation->calls;
    if (n == 0)
        return (struct summary){0};
    uint32_t *sorted = malloc(n * sizeof *sorted);
    if (sorted == NULL) {
        fprintf(stderr, "stepcount: out of memory to sort %zu counts\n", n);
        exit(2);
    }
    memcpy(sorted, operation->instructions, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_counts);

    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += sorted[i];
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (sorted[i] - mean) * (sorted[i] - mean);
    struct summary summary = {
        .calls = n,
        .min = sorted[0],
        .p50 = percentile(sorted, n, 500),
        .p99 = percentile(sorted, n, 990),
        .p99_9 = percentile(sorted, n, 999),
        .max = sorted[n - 1],
        .mean = mean,
        .variance = squares / (double)n,
    };
    free(sorted);
    return summary;
}

void counts_print_table(const struct counts *counts, FILE *out)
{
    fprintf(out, "%-14s %9s %7s %9s %7s %7s %7s %9s %12s\n", "operation", "calls", "min", "mean", "p50", "p99", "p99.9",
            "max", "variance");
    for (int kind = 0; kind < MARKED_KINDS; kind++) {
        struct summary s = counts_summary(&counts->of[kind]);
        if (s.calls > 0)
            fprintf(out, "%-14s %9zu %7u %9.2f %7u %7u %7u %9u %12.1f\n", kind_names[kind], s.calls, s.min, s.mean, s.p50,
                    s.p99, s.p99_9, s.max, s.variance);
    }
    for (int kind = 0; kind < MARKED_KINDS; kind++) {
        const struct worst_operation *worst = &counts->of[kind].worst;
        if (counts->of[kind].calls > 0)
            fprintf(out, "worst %s: %u instructions, %llu bytes, call %zu of seed %llu%s%s\n", kind_names[kind],
                    worst->instructions, (unsigned long long)worst->size, worst->index, (unsigned long long)worst->seed,
                    worst->note[0] ? ", in " : "", worst->note);
    }
}

void counts_print_json_string(const char *text, FILE *out)
{
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(out, "\\u%04x", *c);
        else
            fputc(*c, out);
    }
    fputc('"', out);
}

void counts_print_json(const struct counts *counts, FILE *out)
{
    const char *separator = "\n";
    fprintf(out, "[");
    for (int kind = 0; kind < MARKED_KINDS; kind++) {
        struct summary s = counts_summary(&counts->of[kind]);
        const struct worst_operation *worst = &counts->of[kind].worst;
        if (s.calls == 0)
            continue;
        fprintf(out,
                "%s    {\"operation\": \"%s\", \"calls\": %zu, \"min\": %u, \"mean\": %.4f, \"p50\": %u, \"p99\": %u, "
                "\"p99_9\": %u, \"max\": %u, \"variance\": %.4f,\n"
                "     \"worst\": {\"instructions\": %u, \"size\": %llu, \"call\": %zu, \"seed\": %llu, \"note\": ",
                separator, kind_names[kind], s.calls, s.min, s.mean, s.p50, s.p99, s.p99_9, s.max, s.variance,
                worst->instructions, (unsigned long long)worst->size, worst->index, (unsigned long long)worst->seed);
        counts_print_json_string(worst->note, out);
        fprintf(out, "}}");
        separator = ",\n";
    }
    fprintf(out, "\n  ]");
}

void counts_free(struct counts *counts)
{
    for (int kind = 0; kind < MARKED_KINDS; kind++) {
        free(counts->of[kind].instructions);
        free(counts->of[kind].sizes);
        free(counts->of[kind].worst.trace);
        free(counts->of[kind].worst.maps);
    }
    *counts = (struct counts){0};
}
