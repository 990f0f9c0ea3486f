/* Runs a load by its name, once or with several seeds; see run.h.
 *
 * Layer: lab/steps, implements run.h.
 */
#define _GNU_SOURCE
#include "run.h"

#include "tracer.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, MAX_WORDS = 128 };

/* A name without a slash is a load beside this program. */
static void find_load(const char *name, char *path)
{
    ssize_t length = strchr(name, '/') == NULL ? readlink("/proc/self/exe", path, PATH_BYTES - 1) : -1;
    if (length < 0) {
        snprintf(path, PATH_BYTES, "%s", name);
        return;
    }
    path[length] = '\0';
    char *file = strrchr(path, '/') + 1;
    snprintf(file, (size_t)(path + PATH_BYTES - file), "%s", name);
}

int run_load(const struct run *run, struct counts *counts, char *error)
{
    char path[PATH_BYTES], seed_text[32];
    char *words[MAX_WORDS + 4];
    size_t count = 0;
    find_load(run->command[0], path);
    words[count++] = path;
    for (char *const *word = run->command + 1; *word != NULL && count < MAX_WORDS; word++)
        words[count++] = *word;
    if (run->seeds > 0) {
        words[count++] = "--seed";
        words[count++] = seed_text;
    }
    words[count] = NULL;

    struct tracer_request request = {
        .preload = run->preload, .command = words, .processor = run->processor,
        .library_only = run->library_only, .watched = run->watched, .left_out = run->left_out,
        .interleave = run->interleave, .keep_trace = run->keep_trace, .functions = run->functions};
    for (uint64_t i = 0; i == 0 || i < run->seeds; i++) {
        /* Fixed width: a longer argument moves the stack, and counts may depend on addresses. */
        snprintf(seed_text, sizeof seed_text, "%020llu", (unsigned long long)(run->first_seed + i));
        counts_new_run(counts, run->first_seed + i);
        if (tracer_run(&request, counts, error) != 0)
            return -1;
    }
    return 0;
}

int run_default_processor(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 0;
    for (int processor = CPU_SETSIZE - 1; processor > 0; processor--)
        if (CPU_ISSET(processor, &set))
            return processor;
    return 0;
}

uint64_t run_number(const char *name, const char *text)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end != '\0') {
        fprintf(stderr, "%s wants a number, got '%s'\n", name, text);
        exit(2);
    }
    return value;
}
