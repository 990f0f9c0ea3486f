/* What all loads share: options, random numbers, memory that does not come from the measured allocator.
 *
 * Layer: lab/steps, included once by each load (load_*.c), above marks.h. A load is one small program:
 * it parses its options, warms up, calls marks_start() and does marked operations. Same seed, same operations.
 */
#ifndef RTSTEPS_LOAD_H
#define RTSTEPS_LOAD_H

#include "marks.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A block that the load holds. */
struct load_block {
    void *address;
    size_t size; /* bytes */
    int owner;   /* which of the load's threads allocated it */
};

_Noreturn static inline void load_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "load: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    _exit(2);
}

/* ---- options: --name N (with K, M or G for powers of 1024), or --name alone, which means 1 ---- */

struct load_option {
    const char *name;
    uint64_t *value; /* holds the default */
    const char *help;
    bool is_flag;
};

static inline uint64_t load_number(const char *name, const char *text)
{
    char *end;
    errno = 0;
    uint64_t value = text != NULL ? strtoull(text, &end, 10) : 0;
    if (text == NULL || end == text || errno != 0)
        load_fail("--%s wants a number, got '%s'", name, text != NULL ? text : "");
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (shift != 0)
        end++;
    if (*end != '\0')
        load_fail("--%s wants a number such as 4096 or 4K, got '%s'", name, text);
    return value << shift;
}

static inline void load_options(char **arguments, const struct load_option *options, size_t count)
{
    for (char **argument = arguments + 1; *argument != NULL; argument++) {
        size_t i = 0;
        while (i < count && !(strncmp(*argument, "--", 2) == 0 && strcmp(*argument + 2, options[i].name) == 0))
            i++;
        if (i == count) {
            fprintf(stderr, "%s: no option '%s'. Options, with their defaults:\n", arguments[0], *argument);
            for (i = 0; i < count; i++)
                fprintf(stderr, "  --%-16s %-10llu %s\n", options[i].name, (unsigned long long)*options[i].value,
                        options[i].help);
            _exit(2);
        }
        if (options[i].is_flag)
            *options[i].value = 1;
        else
            *options[i].value = load_number(options[i].name, *++argument);
    }
}

#define LOAD_OPTIONS(arguments, options) load_options(arguments, options, sizeof(options) / sizeof(options)[0])

/* ---- random numbers: SplitMix64 (Steele, Lea and Flood 2014), one stream a load, or one a thread ---- */

static uint64_t load_random_state;

static inline uint64_t random_bits_of(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static inline uint64_t random_bits(void) { return random_bits_of(&load_random_state); }

/* In [low, high], both included. */
static inline uint64_t random_uniform(uint64_t low, uint64_t high)
{
    return low + (uint64_t)(((unsigned __int128)random_bits() * (high - low + 1)) >> 64);
}

/* In (0, 1]. */
static inline double random_unit(void) { return ((double)(random_bits() >> 11) + 1) * 0x1p-53; }

/* Each doubling of the size is equally likely. */
static inline uint64_t random_log_uniform(uint64_t low, uint64_t high)
{
    double size = (double)low * exp(random_unit() * log((double)(high + 1) / (double)low));
    return size >= (double)high ? high : (uint64_t)size;
}

static inline double random_normal(double mean, double deviation)
{
    double radius = sqrt(-2 * log(random_unit())); /* Box and Muller 1958 */
    return mean + deviation * radius * cos(6.283185307179586 * random_unit());
}

/* ---- which function a load gets its blocks from (--by) ---- */

enum load_function { BY_MALLOC, BY_CALLOC, BY_ALIGNED_ALLOC, BY_REALLOC, BY_NEW, LOAD_FUNCTIONS };
static const char load_by_help[] =
    "0: malloc, 1: calloc, 2: aligned_alloc, 3: realloc of another block where there is one, 4: operator new";

static uint64_t load_alignment = 4096; /* --alignment */

static void *load_new; /* operator new, if the load may use it: load_look_up_new() */
static inline void load_look_up_new(uint64_t by)
{
    if (by == BY_NEW)
        load_new = marks_look_up("_Znwm");
}

/* A block by one of these but realloc. *size becomes a multiple of the alignment, as C11 asks. */
static inline void *load_allocate(enum load_function by, size_t *size)
{
    if (by == BY_CALLOC)
        return marked_calloc(1, *size);
    if (by == BY_NEW)
        return (void *)marks_call(MARKED_NEW, load_new, *size, 0, *size);
    if (by != BY_ALIGNED_ALLOC)
        return marked_malloc(*size);
    size_t alignment = (size_t)16 << random_uniform(0, 59 - (uint64_t)__builtin_clzll(load_alignment));
    if (alignment > 4096 && *size <= 32 << 10)
        *size = (32 << 10) + 1; /* it gets a span whatever its size is, and is counted as one */
    *size = (*size + alignment - 1) / alignment * alignment;
    return marked_aligned_alloc(alignment, *size);
}

/* Counted where both sizes are of one kind: at most 32 KiB, 2 MiB, or more. */
static inline void *load_realloc(void *block, size_t had, size_t size)
{
    const size_t page_most = 32 << 10, span_most = 2 << 20;
    bool same = (had > page_most) == (size > page_most) && (had > span_most) == (size > span_most);
    bool counting = marks_counting;
    marks_counting = counting && same;
    block = marked_realloc(block, size);
    marks_counting = counting;
    return block;
}

/* ---- which function a load frees its blocks by (--free-by) ---- */

enum load_free { FREE_BY_FREE, FREE_BY_DELETE, FREE_BY_FREE_SIZED, FREE_BY_ALIGNED_DELETE, LOAD_FREES };
static const char load_free_by_help[] =
    "0: free, 1: operator delete with a size, 2: free_sized, 3: operator delete with a size and an alignment of 64";
enum { LOAD_DELETE_ALIGNMENT = 64 };

static const struct {
    enum marked_kind kind, remote; /* by the allocating thread, by any other */
    const char *function;
} load_free[LOAD_FREES] = {
    [FREE_BY_FREE] = {MARKED_FREE, MARKED_REMOTE_FREE, "free"},
    [FREE_BY_DELETE] = {MARKED_SIZED_FREE, MARKED_REMOTE_SIZED_FREE, "_ZdlPvm"},
    [FREE_BY_FREE_SIZED] = {MARKED_FREE_SIZED, MARKED_REMOTE_FREE_SIZED, "free_sized"},
    [FREE_BY_ALIGNED_DELETE] = {MARKED_ALIGNED_DELETE, MARKED_REMOTE_ALIGNED_DELETE, "_ZdlPvmSt11align_val_t"},
};

static uint64_t load_free_by; /* enum load_free: --free-by */
static void *load_free_function;
static inline void load_look_up_free(void)
{
    if (load_free_by >= LOAD_FREES)
        load_fail("wanted --free-by of 0 to %d", LOAD_FREES - 1);
    load_free_function = marks_look_up(load_free[load_free_by].function);
    rtsteps_third = LOAD_DELETE_ALIGNMENT;
}

/* A block that --free-by can free. *size becomes a multiple of the alignment that it is to have. */
static inline void *load_allocate_to_free(enum load_function by, size_t *size)
{
    if (load_free_by != FREE_BY_ALIGNED_DELETE)
        return load_allocate(by, size);
    *size = (*size + LOAD_DELETE_ALIGNMENT - 1) / LOAD_DELETE_ALIGNMENT * LOAD_DELETE_ALIGNMENT;
    return marked_aligned_alloc(LOAD_DELETE_ALIGNMENT, *size);
}

static inline void load_free_marked(enum marked_kind kind, void *block, size_t size)
{
    (void)marks_call(kind, load_free_function, (uintptr_t)block, size, size);
}

/* ---- memory ---- */

/* Zeroed memory for the load's own tables, straight from the system and touched already. */
static inline void *load_table(size_t bytes)
{
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (table == MAP_FAILED)
        load_fail("no memory for a table of %zu bytes: %s", bytes, strerror(errno));
    return table;
}

/* What a program does first with a block: it writes to it. */
static inline void *load_use(void *block, size_t size)
{
    if (block == NULL)
        load_fail("the allocator returned no memory for %zu bytes", size);
    memset(block, 0x5a, size < 16 ? size : 16);
    return block;
}

#endif
