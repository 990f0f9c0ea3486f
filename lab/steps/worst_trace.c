/* Writes where the instructions of the worst operation of each kind went; see worst_trace.h.
 *
 * Layer: lab/steps, implements worst_trace.h.
 */
#include "worst_trace.h"

#include "symbols.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 160, MAX_STRETCHES = 2000 };

/* Instructions of one function, over the whole operation. */
struct total {
    char name[NAME_BYTES];
    uint32_t instructions;
};

/* `function [module]`; code without a symbol of its own is put under the symbol below it. */
static void name_of(const struct symbol_place *place, char *name)
{
    if (place->function != NULL)
        snprintf(name, NAME_BYTES, "%s [%s]", place->function, place->module);
    else if (place->before != NULL)
        snprintf(name, NAME_BYTES, "(no symbol, after %s) [%s]", place->before, place->module);
    else
        snprintf(name, NAME_BYTES, "(no symbol) [%s]", place->module);
}

static int compare_totals(const void *left, const void *right)
{
    const struct total *a = left, *b = right;
    if (a->instructions != b->instructions)
        return a->instructions > b->instructions ? -1 : 1;
    return strcmp(a->name, b->name);
}

static void print_totals(const struct worst_operation *worst, const struct symbols *symbols, FILE *out)
{
    struct total *totals = NULL;
    size_t count = 0;
    for (uint32_t i = 0; i < worst->instructions; i++) {
        char name[NAME_BYTES];
        struct symbol_place place = symbols_find(symbols, worst->trace[i]);
        name_of(&place, name);
        size_t t = 0;
        while (t < count && strcmp(totals[t].name, name) != 0)
            t++;
        if (t == count) {
            struct total *grown = realloc(totals, (count + 1) * sizeof *totals);
            if (grown == NULL)
                break;
            totals = grown;
            memset(&totals[count], 0, sizeof totals[count]);
            memcpy(totals[count++].name, name, NAME_BYTES);
        }
        totals[t].instructions++;
    }
    qsort(totals, count, sizeof *totals, compare_totals);
    fprintf(out, "%12s %7s  function\n", "instructions", "share");
    for (size_t t = 0; t < count; t++)
        fprintf(out, "%12u %6.1f%%  %s\n", totals[t].instructions, 100.0 * totals[t].instructions / worst->instructions,
                totals[t].name);
    free(totals);
}

/* A stretch is a run of instructions in one function; its offset is that of its first, as addr2line takes it. */
static void print_stretches(const struct worst_operation *worst, const struct symbols *symbols, FILE *out)
{
    fprintf(out, "%12s  in order, from offset in module\n", "instructions");
    uint32_t i = 0;
    for (int stretch = 0; i < worst->instructions && stretch < MAX_STRETCHES; stretch++) {
        char name[NAME_BYTES], next[NAME_BYTES];
        struct symbol_place first = symbols_find(symbols, worst->trace[i]);
        name_of(&first, name);
        uint32_t from = i;
        bool same = true;
        while (same && ++i < worst->instructions) {
            struct symbol_place place = symbols_find(symbols, worst->trace[i]);
            name_of(&place, next);
            same = strcmp(name, next) == 0;
        }
        fprintf(out, "%12u  0x%" PRIx64 "  %s+%" PRIu64 "\n", i - from, first.module_offset, name, first.offset);
    }
    if (i < worst->instructions)
        fprintf(out, "%12u  left off\n", worst->instructions - i);
}

void worst_trace_print(const struct counts *counts, FILE *out)
{
    for (int kind = 0; kind < MARKED_KINDS; kind++) {
        const struct worst_operation *worst = &counts->of[kind].worst;
        if (worst->trace == NULL)
            continue;
        struct symbols *symbols = symbols_open(worst->maps);
        fprintf(out, "# worst %s: %u instructions, %" PRIu64 " bytes, call %zu of seed %" PRIu64 "%s%s\n",
                counts_kind_name((enum marked_kind)kind), worst->instructions, worst->size, worst->index, worst->seed,
                worst->note[0] ? ", in " : "", worst->note);
        print_totals(worst, symbols, out);
        print_stretches(worst, symbols, out);
        fprintf(out, "\n");
        symbols_close(symbols);
    }
}
