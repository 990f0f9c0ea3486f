// Naturals of any size, for cfrac.c: each operation returns a new heap block that the caller frees.
// The allocations are the point: nothing is done in place, and nothing is kept for reuse.
#ifndef RTMALLOC_LAB_NAT_H
#define RTMALLOC_LAB_NAT_H

#include "load.h"

// sum of limbs[i] * 2^(32 i), without leading zero limbs: 0 has length 0. Never changed once it is made.
struct nat {
    uint32_t length;
    uint32_t limbs[];
};

static struct nat *nat_new(uint32_t length) {
    struct nat *n = load_alloc(sizeof *n + length * sizeof n->limbs[0]);
    n->length = length;
    return n;
}

static struct nat *nat_trim(struct nat *n) {
    while (n->length > 0 && n->limbs[n->length - 1] == 0) n->length--;
    return n;
}

static struct nat *nat_from(uint64_t value) {
    struct nat *n = nat_new(2);
    n->limbs[0] = (uint32_t)value;
    n->limbs[1] = (uint32_t)(value >> 32);
    return nat_trim(n);
}

static struct nat *nat_copy(const struct nat *a) {
    struct nat *n = nat_new(a->length);
    memcpy(n->limbs, a->limbs, a->length * sizeof a->limbs[0]);
    return n;
}

// Frees the old value: what `*variable = value` is in a language with garbage collection.
static void nat_set(struct nat **variable, struct nat *value) {
    free(*variable);
    *variable = value;
}

static bool nat_is(const struct nat *a, uint32_t value) {
    return value == 0 ? a->length == 0 : a->length == 1 && a->limbs[0] == value;
}

static int nat_compare(const struct nat *a, const struct nat *b) {
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    for (uint32_t i = a->length; i-- > 0;)
        if (a->limbs[i] != b->limbs[i]) return a->limbs[i] < b->limbs[i] ? -1 : 1;
    return 0;
}

static struct nat *nat_add(const struct nat *a, const struct nat *b) {
    if (a->length < b->length) return nat_add(b, a);
    struct nat *sum = nat_new(a->length + 1);
    uint64_t carry = 0;
    for (uint32_t i = 0; i < a->length; i++) {
        carry += (uint64_t)a->limbs[i] + (i < b->length ? b->limbs[i] : 0);
        sum->limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
    sum->limbs[a->length] = (uint32_t)carry;
    return nat_trim(sum);
}

// a - b, for a >= b.
static struct nat *nat_subtract(const struct nat *a, const struct nat *b) {
    struct nat *difference = nat_new(a->length);
    uint64_t borrow = 0;
    for (uint32_t i = 0; i < a->length; i++) {
        const uint64_t d = (uint64_t)a->limbs[i] - (i < b->length ? b->limbs[i] : 0) - borrow;
        difference->limbs[i] = (uint32_t)d;
        borrow = d >> 63;
    }
    return nat_trim(difference);
}

static struct nat *nat_multiply(const struct nat *a, const struct nat *b) {
    struct nat *product = nat_new(a->length + b->length);
    memset(product->limbs, 0, product->length * sizeof product->limbs[0]);
    for (uint32_t i = 0; i < a->length; i++) {
        uint64_t carry = 0;
        for (uint32_t k = 0; k < b->length; k++) {
            carry += (uint64_t)a->limbs[i] * b->limbs[k] + product->limbs[i + k];
            product->limbs[i + k] = (uint32_t)carry;
            carry >>= 32;
        }
        product->limbs[i + b->length] = (uint32_t)carry;
    }
    return nat_trim(product);
}

static struct nat *nat_shift_left(const struct nat *a, unsigned bits) { // bits < 32; one limb longer, not trimmed
    struct nat *n = nat_new(a->length + 1);
    uint64_t carry = 0;
    for (uint32_t i = 0; i < a->length; i++) {
        carry |= (uint64_t)a->limbs[i] << bits;
        n->limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
    n->limbs[a->length] = (uint32_t)carry;
    return n;
}

// One step of long division: subtracts digit * divisor from the limbs at `window`, adds it back while that is negative.
static uint32_t divide_step(uint32_t *window, const struct nat *divisor) {
    const uint32_t n = divisor->length;
    const uint64_t top = (uint64_t)window[n] << 32 | window[n - 1];
    uint64_t digit = top / divisor->limbs[n - 1];
    if (digit > UINT32_MAX) digit = UINT32_MAX;
    uint64_t carry = 0, borrow = 0;
    for (uint32_t i = 0; i <= n; i++) {
        if (i < n) carry += digit * divisor->limbs[i];
        const uint64_t d = (uint64_t)window[i] - (uint32_t)carry - borrow;
        window[i] = (uint32_t)d;
        borrow = d >> 63;
        carry >>= 32;
    }
    while (borrow != 0) { // at most twice, as the divisor's top bit is set (Knuth, volume 2, 4.3.1, theorem B)
        uint64_t sum = 0;
        digit--;
        for (uint32_t i = 0; i <= n; i++) {
            sum += (uint64_t)window[i] + (i < n ? divisor->limbs[i] : 0);
            window[i] = (uint32_t)sum;
            sum >>= 32;
        }
        borrow -= sum;
    }
    return (uint32_t)digit;
}

// Sets *quotient and *remainder to new naturals. b must not be 0.
static void nat_divide(const struct nat *a, const struct nat *b, struct nat **quotient, struct nat **remainder) {
    if (nat_compare(a, b) < 0) {
        *quotient = nat_new(0);
        *remainder = nat_copy(a);
        return;
    }
    *quotient = nat_new(a->length - b->length + 1);
    if (b->length == 1) {
        uint64_t rest = 0;
        for (uint32_t i = a->length; i-- > 0;) {
            rest = rest << 32 | a->limbs[i];
            (*quotient)->limbs[i] = (uint32_t)(rest / b->limbs[0]);
            rest %= b->limbs[0];
        }
        *remainder = nat_new(1);
        (*remainder)->limbs[0] = (uint32_t)rest;
    } else {
        const unsigned shift = (unsigned)__builtin_clz(b->limbs[b->length - 1]);
        struct nat *divisor = nat_trim(nat_shift_left(b, shift)), *rest = nat_shift_left(a, shift);
        for (uint32_t i = (*quotient)->length; i-- > 0;)
            (*quotient)->limbs[i] = divide_step(rest->limbs + i, divisor);
        free(divisor);
        *remainder = nat_new(b->length);
        for (uint32_t i = 0; i < b->length; i++)
            (*remainder)->limbs[i] = (uint32_t)(((uint64_t)rest->limbs[i + 1] << 32 | rest->limbs[i]) >> shift);
        free(rest);
    }
    nat_trim(*quotient);
    nat_trim(*remainder);
}

static struct nat *nat_quotient(const struct nat *a, const struct nat *b) {
    struct nat *quotient, *remainder;
    nat_divide(a, b, &quotient, &remainder);
    free(remainder);
    return quotient;
}

static struct nat *nat_remainder(const struct nat *a, const struct nat *b) {
    struct nat *quotient, *remainder;
    nat_divide(a, b, &quotient, &remainder);
    free(quotient);
    return remainder;
}

static struct nat *nat_multiply_modulo(const struct nat *a, const struct nat *b, const struct nat *modulus) {
    struct nat *product = nat_multiply(a, b);
    nat_set(&product, nat_remainder(product, modulus));
    return product;
}

static struct nat *nat_gcd(const struct nat *a, const struct nat *b) {
    struct nat *x = nat_copy(a), *y = nat_copy(b);
    while (!nat_is(y, 0)) {
        struct nat *rest = nat_remainder(x, y);
        free(x);
        x = y;
        y = rest;
    }
    free(y);
    return x;
}

// Newton's iteration from above.
static struct nat *nat_square_root(const struct nat *a) {
    struct nat *root = nat_copy(a), *two = nat_from(2);
    for (;;) {
        struct nat *next = nat_quotient(a, root);
        nat_set(&next, nat_add(next, root));
        nat_set(&next, nat_quotient(next, two));
        if (nat_compare(next, root) >= 0) {
            free(next);
            free(two);
            return root;
        }
        nat_set(&root, next);
    }
}

static struct nat *nat_parse(const char *digits) {
    struct nat *n = nat_from(0), *ten = nat_from(10);
    for (; *digits != '\0'; digits++) {
        struct nat *digit = nat_from((uint64_t)(*digits - '0'));
        nat_set(&n, nat_multiply(n, ten));
        nat_set(&n, nat_add(n, digit));
        free(digit);
    }
    free(ten);
    return n;
}

#endif
