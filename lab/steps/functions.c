/* Calls and returns in a list of addresses; see functions.h.
 *
 * Layer: lab/steps, implements functions.h.
 */
#include "functions.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FUNCTIONS = 1024, MAX_DEPTH = 256, NAME_BYTES = 96 };

struct calls {
    char name[NAME_BYTES];
    uint32_t *instructions;
    size_t count, capacity;
};

struct functions {
    struct calls of[MAX_FUNCTIONS];
    size_t count;
};

/* A function that has not returned yet. */
struct frame {
    const char *name;
    uint64_t stack; /* pointer at its first instruction; a return leaves it above */
    size_t first;   /* index of that instruction */
};

_Noreturn static void give_up(const char *why)
{
    fprintf(stderr, "stepcount: %s\n", why);
    exit(2);
}

struct functions *functions_new(void)
{
    struct functions *functions = calloc(1, sizeof *functions);
    if (functions == NULL)
        give_up("out of memory for the functions' counts");
    return functions;
}

static void add_call(struct functions *functions, const char *name, size_t instructions)
{
    size_t i = 0;
    while (i < functions->count && strncmp(functions->of[i].name, name, NAME_BYTES - 1) != 0)
        i++;
    if (i == MAX_FUNCTIONS)
        give_up("more functions than it can count");
    struct calls *calls = &functions->of[i];
    if (i == functions->count) {
        functions->count++;
        snprintf(calls->name, NAME_BYTES, "%s", name);
    }
    if (calls->count == calls->capacity) {
        calls->capacity = calls->capacity ? 2 * calls->capacity : 1024;
        calls->instructions = realloc(calls->instructions, calls->capacity * sizeof *calls->instructions);
        if (calls->instructions == NULL)
            give_up("out of memory for the functions' counts");
    }
    calls->instructions[calls->count++] = (uint32_t)instructions;
}

void functions_add(struct functions *functions, const struct symbols *symbols, const uint64_t *trace,
                   const uint64_t *stacks, size_t count)
{
    struct frame frames[MAX_DEPTH];
    size_t depth = 0;
    for (size_t i = 0; i <= count; i++) {
        for (; depth > 0 && (i == count || frames[depth - 1].stack < stacks[i]); depth--)
            add_call(functions, frames[depth - 1].name, i - frames[depth - 1].first);
        if (i == count)
            return;
        struct symbol_place place = symbols_find(symbols, trace[i]);
        if (place.function == NULL || place.offset != 0)
            continue;
        const struct frame *last = depth > 0 ? &frames[depth - 1] : NULL;
        if (last != NULL && last->stack == stacks[i] && strcmp(last->name, place.function) == 0)
            continue; /* a loop that begins with the function */
        if (depth == MAX_DEPTH)
            give_up("calls are nested too deeply to count functions");
        frames[depth++] = (struct frame){place.function, stacks[i], i};
    }
}

void functions_print(const struct functions *functions, FILE *out)
{
    fprintf(out, "function,instructions\n");
    for (size_t i = 0; i < functions->count; i++)
        for (size_t k = 0; k < functions->of[i].count; k++)
            fprintf(out, "%s,%u\n", functions->of[i].name, functions->of[i].instructions[k]);
}
