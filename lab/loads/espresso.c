// espresso: two-level logic minimization. Reads generated PLA tables (text), and improves each cover by expand,
// irredundant and reduce until it stops getting smaller. Cubes, covers and text live on the heap: recursion makes and
// drops whole covers like a stack, while the cubes that survive live long.
// R. Brayton et al.: Logic Minimization Algorithms for VLSI Synthesis, 1984; as an allocator load: D. Grunwald,
// B. Zorn, R. Henderson: Improving the cache locality of memory allocation. PLDI 1993.
// espresso [scale]: scale multiplies the functions that are minimized (20).
#include "load.h"

// ---- Cubes ----------------------------------------------------------------------------------------------------

// Positional notation: a variable of k values has k parts, and a cube has a bit for each part it may take. Inputs have
// 2 parts (0, 1); all outputs together are one more variable with a part each. A cube where a variable has no part is
// empty.
struct shape {
    int inputs, outputs; // 1 to MAX_INPUTS, 1 to MAX_OUTPUTS
    int words;           // of 64 parts
};

enum { MAX_INPUTS = 10, MAX_OUTPUTS = 60, MAX_WORDS = 2 };
_Static_assert(2 * MAX_INPUTS + MAX_OUTPUTS <= 64 * MAX_WORDS, "intersects() looks at MAX_WORDS words");
_Static_assert(MAX_INPUTS <= 32, "the inputs are in the first word");

struct cube {
    uint32_t weight; // number of parts: the larger, the fewer literals. Kept by cube_weigh()
    bool covered;    // mark of expand()
    uint64_t parts[];
};

static int variables(const struct shape *s) { return s->inputs + 1; }
static int first_part(const struct shape *s, int v) { return v <= s->inputs ? 2 * v : 2 * s->inputs + s->outputs; }
static int part_count(const struct shape *s) { return 2 * s->inputs + s->outputs; }

static bool has_part(const struct cube *c, int part) { return c->parts[part / 64] >> part % 64 & 1; }
static void add_part(struct cube *c, int part) { c->parts[part / 64] |= UINT64_C(1) << part % 64; }
static void drop_part(struct cube *c, int part) { c->parts[part / 64] &= ~(UINT64_C(1) << part % 64); }

static void cube_weigh(const struct shape *s, struct cube *c) {
    c->weight = 0;
    for (int w = 0; w < s->words; w++) c->weight += (uint32_t)__builtin_popcountll(c->parts[w]);
}

static size_t cube_bytes(const struct shape *s) {
    return sizeof(struct cube) + (size_t)s->words * sizeof(uint64_t);
}

static struct cube *cube_empty(const struct shape *s) {
    struct cube *c = load_alloc(cube_bytes(s));
    memset(c, 0, cube_bytes(s));
    return c;
}

static struct cube *cube_universal(const struct shape *s) {
    struct cube *c = cube_empty(s);
    for (int part = 0; part < part_count(s); part++) add_part(c, part);
    cube_weigh(s, c);
    return c;
}

static struct cube *cube_copy(const struct shape *s, const struct cube *a) {
    struct cube *c = load_alloc(cube_bytes(s));
    memcpy(c, a, cube_bytes(s));
    return c;
}

static bool is_universal(const struct shape *s, const struct cube *c) { return c->weight == (uint32_t)part_count(s); }

static bool is_full(const struct shape *s, const struct cube *c, int v) {
    for (int part = first_part(s, v); part < first_part(s, v + 1); part++)
        if (!has_part(c, part)) return false;
    return true;
}

// Some part in common in every variable.
static bool intersects(const struct shape *s, const struct cube *a, const struct cube *b) {
    uint64_t common[MAX_WORDS] = {0};
    for (int w = 0; w < s->words; w++) common[w] = a->parts[w] & b->parts[w];
    for (int v = 0; v < s->inputs; v++)
        if ((common[0] >> 2 * v & 3) == 0) return false;
    for (int part = first_part(s, s->inputs); part < part_count(s); part++)
        if (common[part / 64] >> part % 64 & 1) return true;
    return false;
}

static bool contains(const struct shape *s, const struct cube *big, const struct cube *small) {
    for (int w = 0; w < s->words; w++)
        if ((small->parts[w] & ~big->parts[w]) != 0) return false;
    return true;
}

// ---- Covers: sums of cubes, which they own --------------------------------------------------------------------

struct cover {
    int count, capacity;
    struct cube **cubes;
};

static struct cover *cover_new(void) {
    struct cover *f = load_alloc(sizeof *f);
    *f = (struct cover){0, 0, NULL};
    return f;
}

static void cover_add(struct cover *f, struct cube *c) {
    if (f->count == f->capacity) {
        f->capacity = f->capacity == 0 ? 4 : 2 * f->capacity;
        f->cubes = load_realloc(f->cubes, (size_t)f->capacity * sizeof *f->cubes);
    }
    f->cubes[f->count++] = c;
}

static void cover_remove(struct cover *f, int i) {
    free(f->cubes[i]);
    memmove(f->cubes + i, f->cubes + i + 1, (size_t)(--f->count - i) * sizeof *f->cubes);
}

static void cover_delete(struct cover *f) {
    for (int i = 0; i < f->count; i++) free(f->cubes[i]);
    free(f->cubes);
    free(f);
}

// What f is inside the cube p, without cube number `skip` (-1: with all).
static struct cover *cofactor(const struct shape *s, const struct cover *f, const struct cube *p, int skip) {
    struct cover *g = cover_new();
    for (int i = 0; i < f->count; i++) {
        if (i == skip || !intersects(s, f->cubes[i], p)) continue;
        struct cube *c = cube_copy(s, f->cubes[i]);
        for (int part = 0; part < part_count(s); part += 64) c->parts[part / 64] |= ~p->parts[part / 64];
        if (part_count(s) % 64 != 0) c->parts[s->words - 1] &= (UINT64_C(1) << part_count(s) % 64) - 1;
        cube_weigh(s, c);
        cover_add(g, c);
    }
    return g;
}

static bool has_universal(const struct shape *s, const struct cover *f) {
    for (int i = 0; i < f->count; i++)
        if (is_universal(s, f->cubes[i])) return true;
    return false;
}

// The variable that most cubes depend on; -1 if none does.
static int busiest_variable(const struct shape *s, const struct cover *f) {
    int best = -1, most = 0;
    for (int v = 0; v < variables(s); v++) {
        int dependent = 0;
        for (int i = 0; i < f->count; i++) dependent += !is_full(s, f->cubes[i], v);
        if (dependent > most) {
            most = dependent;
            best = v;
        }
    }
    return best;
}

// The cube of all points where variable v takes the value `part`.
static struct cube *half_space(const struct shape *s, int v, int part) {
    struct cube *c = cube_universal(s);
    for (int other = first_part(s, v); other < first_part(s, v + 1); other++)
        if (other != part) drop_part(c, other);
    cube_weigh(s, c);
    return c;
}

static bool is_tautology(const struct shape *s, const struct cover *f) {
    if (has_universal(s, f)) return true;
    const int v = busiest_variable(s, f);
    if (v < 0) return false;
    for (int part = first_part(s, v); part < first_part(s, v + 1); part++) {
        struct cube *space = half_space(s, v, part);
        struct cover *g = cofactor(s, f, space, -1);
        const bool full = g->count > 0 && is_tautology(s, g);
        free(space);
        cover_delete(g);
        if (!full) return false;
    }
    return true;
}

// Moves the cubes of `from`, restricted to one value of v, into f. Two cubes that differ in v only become one.
static void merge(const struct shape *s, struct cover *f, struct cover *from, int v, int part) {
    for (int i = 0; i < from->count; i++) {
        struct cube *c = from->cubes[i];
        for (int other = first_part(s, v); other < first_part(s, v + 1); other++) drop_part(c, other);
        int k = 0;
        for (; k < f->count; k++) {
            bool same = true;
            for (int w = 0; w < s->words && same; w++) {
                uint64_t differ = f->cubes[k]->parts[w] ^ c->parts[w];
                for (int p = first_part(s, v); p < first_part(s, v + 1); p++)
                    if (p / 64 == w) differ &= ~(UINT64_C(1) << p % 64);
                same = differ == 0;
            }
            if (same) break;
        }
        struct cube *target = k < f->count ? f->cubes[k] : c;
        add_part(target, part);
        cube_weigh(s, target);
        if (k < f->count) free(c);
        else cover_add(f, c);
    }
    from->count = 0; // the cubes have moved
    cover_delete(from);
}

// By Shannon's expansion.
static struct cover *complement(const struct shape *s, const struct cover *f) {
    struct cover *result = cover_new();
    if (f->count == 0) {
        cover_add(result, cube_universal(s));
        return result;
    }
    if (has_universal(s, f)) return result;
    const int v = busiest_variable(s, f);
    for (int part = first_part(s, v); part < first_part(s, v + 1); part++) {
        struct cube *space = half_space(s, v, part);
        struct cover *g = cofactor(s, f, space, -1);
        merge(s, result, complement(s, g), v, part);
        free(space);
        cover_delete(g);
    }
    return result;
}

// ---- The three steps ------------------------------------------------------------------------------------------

static int by_weight(const void *a, const void *b) {
    const struct cube *x = *(struct cube *const *)a, *y = *(struct cube *const *)b;
    if (x->weight != y->weight) return x->weight < y->weight ? -1 : 1;
    return memcmp(x->parts, y->parts, sizeof x->parts[0]);
}

// Makes each cube as large as the off-set allows, smallest first, and drops the cubes that it then contains.
static void expand(const struct shape *s, struct cover *f, const struct cover *off) {
    qsort(f->cubes, (size_t)f->count, sizeof *f->cubes, by_weight);
    for (int i = 0; i < f->count; i++) f->cubes[i]->covered = false;
    for (int i = 0; i < f->count; i++) {
        struct cube *c = f->cubes[i];
        if (c->covered) continue;
        for (int part = 0; part < part_count(s); part++) {
            if (has_part(c, part)) continue;
            add_part(c, part);
            for (int k = 0; k < off->count; k++) {
                if (!intersects(s, c, off->cubes[k])) continue;
                drop_part(c, part);
                break;
            }
        }
        cube_weigh(s, c);
        for (int k = 0; k < f->count; k++)
            if (k != i && contains(s, c, f->cubes[k])) f->cubes[k]->covered = true;
    }
    for (int i = f->count; i-- > 0;)
        if (f->cubes[i]->covered) cover_remove(f, i);
}

// Drops each cube that the others cover.
static void irredundant(const struct shape *s, struct cover *f) {
    for (int i = f->count; i-- > 0;) {
        struct cover *others = cofactor(s, f, f->cubes[i], i);
        if (is_tautology(s, others)) cover_remove(f, i);
        cover_delete(others);
    }
}

// Shrinks each cube to the smallest that holds what no other cube covers: expand() can then take another direction.
static void reduce(const struct shape *s, struct cover *f) {
    for (int i = f->count; i-- > 0;) {
        struct cover *others = cofactor(s, f, f->cubes[i], i), *alone = complement(s, others);
        struct cube *super = cube_empty(s);
        for (int k = 0; k < alone->count; k++)
            for (int w = 0; w < s->words; w++) super->parts[w] |= alone->cubes[k]->parts[w];
        for (int w = 0; w < s->words; w++) f->cubes[i]->parts[w] &= super->parts[w];
        cube_weigh(s, f->cubes[i]);
        if (alone->count == 0) cover_remove(f, i);
        free(super);
        cover_delete(others);
        cover_delete(alone);
    }
}

static void minimize(const struct shape *s, struct cover *f) {
    struct cover *off = complement(s, f);
    expand(s, f, off);
    irredundant(s, f);
    for (int before = f->count + 1; f->count < before;) {
        before = f->count;
        reduce(s, f);
        expand(s, f, off);
        irredundant(s, f);
    }
    cover_delete(off);
}

// ---- Tables ---------------------------------------------------------------------------------------------------

// Text that grows as it is written.
struct text {
    char *chars;
    size_t length, capacity;
};

static void text_add(struct text *t, char c) {
    if (t->length == t->capacity) {
        t->capacity = t->capacity == 0 ? 64 : t->capacity + t->capacity / 2;
        t->chars = load_realloc(t->chars, t->capacity);
    }
    t->chars[t->length++] = c;
}

// One line for a cube: 0, 1 or - for each input, a blank, 0 or 1 for each output.
static struct text generate_table(const struct shape *s, int rows, struct rng *rng) {
    struct text t = {NULL, 0, 0};
    for (int row = 0; row < rows; row++) {
        for (int v = 0; v < s->inputs; v++) text_add(&t, "01-"[rng_below(rng, 3)]);
        text_add(&t, ' ');
        const uint32_t certain = rng_below(rng, (uint32_t)s->outputs); // no row without an output
        for (uint32_t o = 0; o < (uint32_t)s->outputs; o++)
            text_add(&t, o == certain || rng_below(rng, 4) == 0 ? '1' : '0');
        text_add(&t, '\n');
    }
    text_add(&t, '\0');
    return t;
}

static struct cover *read_table(const struct shape *s, const char *line) {
    struct cover *f = cover_new();
    for (; *line != '\0'; line += s->inputs + s->outputs + 2) {
        struct cube *c = cube_empty(s);
        for (int v = 0; v < s->inputs; v++) {
            if (line[v] != '1') add_part(c, 2 * v);
            if (line[v] != '0') add_part(c, 2 * v + 1);
        }
        for (int o = 0; o < s->outputs; o++)
            if (line[s->inputs + 1 + o] == '1') add_part(c, 2 * s->inputs + o);
        cube_weigh(s, c);
        cover_add(f, c);
    }
    return f;
}

static bool covers_point(const struct shape *s, const struct cover *f, const struct cube *point) {
    for (int i = 0; i < f->count; i++)
        if (contains(s, f->cubes[i], point)) return true;
    return false;
}

// The two covers must be the same function; checked at random points.
static void check_same(const struct shape *s, const struct cover *f, const struct cover *g, struct rng *rng) {
    for (uint32_t n = 0; n < 300; n++) {
        struct cube *point = cube_empty(s);
        for (int v = 0; v < s->inputs; v++) add_part(point, 2 * v + (int)rng_below(rng, 2));
        add_part(point, 2 * s->inputs + (int)rng_below(rng, (uint32_t)s->outputs));
        if (covers_point(s, f, point) != covers_point(s, g, point))
            load_fail("the minimized cover differs, at test", n);
        free(point);
    }
}

int main(int argc, char **argv) {
    const struct load load = load_begin(argc, argv, "espresso", 0);
    const uint64_t functions = load_scaled(&load, 20);
    uint64_t sum = 0;
    for (uint64_t n = 0; n < functions; n++) {
        struct rng rng = rng_stream(n);
        struct shape s;
        s.inputs = (int)rng_between(&rng, 6, MAX_INPUTS);
        s.outputs = (int)rng_between(&rng, 1, MAX_OUTPUTS);
        s.words = (part_count(&s) + 63) / 64;
        struct text table = generate_table(&s, (int)rng_between(&rng, 20, 60), &rng);
        struct cover *given = read_table(&s, table.chars), *minimal = read_table(&s, table.chars);
        free(table.chars);
        minimize(&s, minimal);
        check_same(&s, given, minimal, &rng);
        for (int i = 0; i < minimal->count; i++)
            for (int w = 0; w < s.words; w++) sum = load_mix(sum + minimal->cubes[i]->parts[w]);
        cover_delete(given);
        cover_delete(minimal);
    }
    return load_end(&load, sum);
}
