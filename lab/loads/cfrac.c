// cfrac: factors numbers with the continued-fraction method, on naturals of any size that live on the heap. Every
// sum, product, quotient and remainder is a new block of 4 to 40 bytes, and most die after one use.
// M. Morrison, J. Brillhart: A method of factoring and the factorization of F7. Math. Comp. 29, 1975; as an allocator
// load: D. Barrett, B. Zorn: Using lifetime predictors to improve memory allocation performance. PLDI 1993.
// cfrac [scale]: scale multiplies how many numbers of 30 digits are factored (3).
#include "nat.h"

// Products of two primes of similar size, the case that costs most.
static const char *const targets[] = {
    "324921847383042669531740555309", "638269175239762526669193814981",
    "399590758248564641453195827159", "107354663192300129507586003047",
};
enum { TARGETS_COUNT = sizeof targets / sizeof targets[0] };

enum { BASE_PRIMES = 150, SPARE_RELATIONS = 12 };

// Early abort (Pomerance 1982): a Q of which the first primes leave too much is not worth the other primes.
enum { ABORT_PRIMES = 20, ABORT_BITS = 14 };

// The primes that can divide a Q, as naturals: those of which n is a square.
struct base {
    struct nat *primes[BASE_PRIMES];
};

// a^2 = (-1)^exponents[0] * product of primes[i]^exponents[i + 1], modulo n
struct relation {
    struct nat *a;
    uint8_t exponents[1 + BASE_PRIMES];
};

enum { MAX_RELATIONS = 1 + BASE_PRIMES + SPARE_RELATIONS, ROW_WORDS = (1 + BASE_PRIMES + 63) / 64,
       MEMBER_WORDS = (MAX_RELATIONS + 63) / 64 };

// The state of the expansion of sqrt(n) = [q0; q1, ...]. At step k: a_k^2 = (-1)^(k+1) Q_(k+1) modulo n.
struct expansion {
    struct nat *root;             // floor of sqrt(n)
    struct nat *abort_above;      // root / 2^ABORT_BITS
    struct nat *p, *q, *q_before; // P_k, Q_k, Q_(k-1)
    struct nat *a, *a_before;     // numerators of the convergents, modulo n
    bool odd;
};

static bool is_prime(uint32_t p) {
    for (uint32_t d = 2; d * d <= p; d++)
        if (p % d == 0) return false;
    return true;
}

// Euler's criterion; p is an odd prime.
static bool is_square_modulo(uint64_t value, uint32_t p) {
    uint64_t power = 1;
    for (uint32_t e = (p - 1) / 2; e > 0; e >>= 1) {
        if (e & 1) power = power * value % p;
        value = value * value % p;
    }
    return power <= 1;
}

static void base_make(struct base *base, const struct nat *n) {
    int count = 0;
    for (uint32_t p = 2; count < BASE_PRIMES; p++) {
        if (!is_prime(p)) continue;
        struct nat *prime = nat_from(p), *rest = nat_remainder(n, prime);
        if (p == 2 || is_square_modulo(rest->length > 0 ? rest->limbs[0] : 0, p)) base->primes[count++] = prime;
        else free(prime);
        free(rest);
    }
}

static struct expansion expansion_start(const struct nat *n) {
    struct nat *root = nat_square_root(n), *square = nat_multiply(root, root);
    struct nat *abort_ratio = nat_from(UINT64_C(1) << ABORT_BITS);
    struct expansion e = {.root = root,
                          .abort_above = nat_quotient(root, abort_ratio),
                          .p = nat_copy(root),
                          .q = nat_subtract(n, square),
                          .q_before = nat_from(1),
                          .a = nat_copy(root),
                          .a_before = nat_from(1),
                          .odd = true};
    free(square);
    free(abort_ratio);
    return e;
}

// With c = floor((root + P) / Q): P' = c Q - P, Q' = Q_before + c (P - P'), a' = c a + a_before modulo n.
static void expansion_next(struct expansion *e, const struct nat *n) {
    struct nat *sum = nat_add(e->root, e->p);
    struct nat *c = nat_quotient(sum, e->q);
    struct nat *product = nat_multiply(c, e->q), *p = nat_subtract(product, e->p), *q;
    if (nat_compare(e->p, p) >= 0) {
        struct nat *difference = nat_subtract(e->p, p), *change = nat_multiply(c, difference);
        q = nat_add(e->q_before, change);
        free(difference);
        free(change);
    } else {
        struct nat *difference = nat_subtract(p, e->p), *change = nat_multiply(c, difference);
        q = nat_subtract(e->q_before, change);
        free(difference);
        free(change);
    }
    struct nat *a = nat_multiply(c, e->a);
    nat_set(&a, nat_add(a, e->a_before));
    nat_set(&a, nat_remainder(a, n));
    free(sum);
    free(c);
    free(product);
    nat_set(&e->p, p);
    nat_set(&e->q_before, e->q); // its old value goes, Q moves there
    e->q = q;
    nat_set(&e->a_before, e->a);
    e->a = a;
    e->odd = !e->odd;
}

static void expansion_end(struct expansion *e) {
    struct nat *all[] = {e->root, e->abort_above, e->p, e->q, e->q_before, e->a, e->a_before};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

// Divides Q by every prime of the base. NULL if something is left, or (early abort) will be.
static struct relation *relation_try(const struct expansion *e, const struct base *base) {
    uint8_t exponents[1 + BASE_PRIMES] = {e->odd};
    struct nat *left = nat_copy(e->q);
    for (int i = 0; i < BASE_PRIMES && !nat_is(left, 1);) {
        struct nat *quotient, *remainder;
        nat_divide(left, base->primes[i], &quotient, &remainder);
        if (nat_is(remainder, 0)) {
            exponents[i + 1]++;
            nat_set(&left, quotient);
        } else {
            free(quotient);
            i++;
        }
        free(remainder);
        if (i == ABORT_PRIMES && nat_compare(left, e->abort_above) > 0) break;
    }
    struct relation *relation = NULL;
    if (nat_is(left, 1)) {
        relation = load_alloc(sizeof *relation);
        relation->a = nat_copy(e->a);
        memcpy(relation->exponents, exponents, sizeof exponents);
    }
    free(left);
    return relation;
}

// Parities of the exponents (row) and which relations were added up for them (members).
struct equation {
    uint64_t row[ROW_WORDS], members[MEMBER_WORDS];
};

static bool bit(const uint64_t *words, int i) { return words[i / 64] >> i % 64 & 1; }

// x^2 = y^2 modulo n from the product of the members. Returns gcd(x - y, n), a factor of n, though it may be 1 or n.
static struct nat *factor_from(const struct equation *equation, struct relation *const *relations,
                               const struct base *base, const struct nat *n) {
    struct nat *x = nat_from(1), *y = nat_from(1);
    uint32_t exponents[1 + BASE_PRIMES] = {0};
    for (int r = 0; r < MAX_RELATIONS; r++) {
        if (!bit(equation->members, r)) continue;
        nat_set(&x, nat_multiply_modulo(x, relations[r]->a, n));
        for (int i = 0; i <= BASE_PRIMES; i++) exponents[i] += relations[r]->exponents[i];
    }
    for (int i = 0; i < BASE_PRIMES; i++)
        for (uint32_t k = 0; k < exponents[i + 1] / 2; k++) nat_set(&y, nat_multiply_modulo(y, base->primes[i], n));
    struct nat *difference = nat_compare(x, y) >= 0 ? nat_subtract(x, y) : nat_subtract(y, x);
    struct nat *factor = nat_gcd(difference, n);
    free(x);
    free(y);
    free(difference);
    return factor;
}

// Gaussian elimination modulo 2. Returns the first proper factor, or NULL if no dependency gives one.
static struct nat *solve(struct relation *const *relations, const struct base *base, const struct nat *n) {
    struct equation *equations[MAX_RELATIONS];
    for (int r = 0; r < MAX_RELATIONS; r++) {
        equations[r] = load_alloc(sizeof *equations[r]);
        memset(equations[r], 0, sizeof *equations[r]);
        equations[r]->members[r / 64] |= UINT64_C(1) << r % 64;
        for (int i = 0; i <= BASE_PRIMES; i++)
            equations[r]->row[i / 64] |= (uint64_t)(relations[r]->exponents[i] & 1) << i % 64;
    }
    int rank = 0;
    for (int column = 0; column <= BASE_PRIMES; column++) {
        int pivot = rank;
        while (pivot < MAX_RELATIONS && !bit(equations[pivot]->row, column)) pivot++;
        if (pivot == MAX_RELATIONS) continue;
        struct equation *chosen = equations[pivot];
        equations[pivot] = equations[rank];
        equations[rank++] = chosen;
        for (int r = rank; r < MAX_RELATIONS; r++) {
            if (!bit(equations[r]->row, column)) continue;
            for (int w = 0; w < ROW_WORDS; w++) equations[r]->row[w] ^= chosen->row[w];
            for (int w = 0; w < MEMBER_WORDS; w++) equations[r]->members[w] ^= chosen->members[w];
        }
    }
    struct nat *found = NULL;
    for (int r = rank; r < MAX_RELATIONS && found == NULL; r++) {
        struct nat *factor = factor_from(equations[r], relations, base, n);
        if (nat_is(factor, 1) || nat_compare(factor, n) == 0) free(factor);
        else found = factor;
    }
    for (int r = 0; r < MAX_RELATIONS; r++) free(equations[r]);
    return found;
}

// Returns a proper factor of n.
static struct nat *factor(const struct nat *n) {
    struct base base;
    struct relation *relations[MAX_RELATIONS];
    base_make(&base, n);
    struct expansion e = expansion_start(n);
    struct nat *found = NULL;
    while (found == NULL) {
        for (int count = 0; count < MAX_RELATIONS; expansion_next(&e, n)) {
            struct relation *relation = relation_try(&e, &base);
            if (relation != NULL) relations[count++] = relation;
        }
        found = solve(relations, &base, n);
        for (int r = 0; r < MAX_RELATIONS; r++) {
            free(relations[r]->a);
            free(relations[r]);
        }
    }
    expansion_end(&e);
    for (int i = 0; i < BASE_PRIMES; i++) free(base.primes[i]);
    return found;
}

int main(int argc, char **argv) {
    const struct load load = load_begin(argc, argv, "cfrac", 0);
    const uint64_t numbers = load_scaled(&load, 3);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < numbers; i++) {
        struct nat *n = nat_parse(targets[i % TARGETS_COUNT]);
        struct nat *one = factor(n), *other = nat_quotient(n, one), *product = nat_multiply(one, other);
        if (nat_compare(product, n) != 0) load_fail("a factor does not divide its number", i);
        const struct nat *smaller = nat_compare(one, other) < 0 ? one : other;
        for (uint32_t k = 0; k < smaller->length; k++) sum = load_mix(sum + smaller->limbs[k]);
        free(one);
        free(other);
        free(product);
        free(n);
    }
    return load_end(&load, sum);
}
