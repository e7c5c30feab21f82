#include "native.h"

#include <math.h>

static uint64_t splitmix(uint64_t *state)
{
    return tb_mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t rotate(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

void tb_random_seed(struct tb_random *random, uint64_t seed, uint64_t stream)
{
    /* Turned, so that seed 1 stream 2 is another sequence than seed 2 stream 1. */
    uint64_t mixed = rotate(splitmix(&seed), 32);
    uint64_t state = mixed ^ splitmix(&stream);
    for (int i = 0; i < 4; i++)
        random->state[i] = splitmix(&state);
}

uint64_t tb_random_next(struct tb_random *random)
{
    uint64_t *s = random->state;
    uint64_t next = rotate(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 45);
    return next;
}

/* Lemire's multiplication (2019): one division in rare cases only. */
int64_t tb_random_between(struct tb_random *random, int64_t low, int64_t high)
{
    uint64_t range = (uint64_t)high - (uint64_t)low + 1;
    uint64_t bits = tb_random_next(random);
    if (range == 0) /* all 2^64 numbers */
        return (int64_t)bits;
    __uint128_t product = (__uint128_t)bits * range;
    if ((uint64_t)product < range) {
        uint64_t threshold = -range % range;
        while ((uint64_t)product < threshold)
            product = (__uint128_t)tb_random_next(random) * range;
    }
    return (int64_t)((uint64_t)low + (uint64_t)(product >> 64));
}

double tb_random_fraction(struct tb_random *random)
{
    return (double)((tb_random_next(random) >> 11) + 1) * 0x1.0p-53;
}

/* ---- "Quickly Generating Billion-Record Synthetic Databases", Gray et al., 1994 ---- */

#define THETA 0.99
/* The official constants: 10^10 + 1 items, and zeta over 10^10 of them. */
#define SCRAMBLED_ITEMS INT64_C(10000000001)
#define SCRAMBLED_ZETAN 26.46902820178302

#define FNV_PRIME UINT64_C(1099511628211)
#define FNV_PRIME_4 (FNV_PRIME * FNV_PRIME * FNV_PRIME * FNV_PRIME)

static inline uint64_t add_octets(uint64_t hash, uint64_t value, int count)
{
    for (int i = 0; i < count; i++) {
        hash = (hash ^ (value & 0xff)) * FNV_PRIME;
        value >>= 8;
    }
    return hash;
}

/* Octets of zero only multiply: of nearly all numbers the upper four do, at once. */
uint64_t tb_fnv(uint64_t value)
{
    static const uint64_t basis = UINT64_C(0xcbf29ce484222325);
    uint64_t hash = value >> 32 ? add_octets(basis, value, 8)
                                : add_octets(basis, value, 4) * FNV_PRIME_4;

    return hash >> 63 ? -hash : hash;
}

/* Up to here terms are added up: after it Euler and Maclaurin's formula is as good. */
enum { DIRECT_TERMS = 1000, FEW_TERMS = 16 };

static double add_up(int64_t first, int64_t last)
{
    double sum = 0;

    for (int64_t i = first; i <= last; i++)
        sum += pow((double)i, -THETA);
    return sum;
}

/* The sum after `a` up to `b` (Euler-Maclaurin, to the third derivative); exact to 1e-15. */
static double tail(double a, double b)
{
    double at_a = pow(a, -THETA), at_b = pow(b, -THETA);
    double integral = a * at_a * expm1((1 - THETA) * log1p((b - a) / a)) / (1 - THETA);
    double first = -THETA * (at_b / b - at_a / a);
    double third = -THETA * (THETA + 1) * (THETA + 2) * (at_b / (b * b * b) - at_a / (a * a * a));

    return integral + (at_b - at_a) / 2 + first / 12 - third / 720;
}

double tb_zeta(int64_t first, int64_t last)
{
    double sum = 0;

    if (last - first < FEW_TERMS || last <= DIRECT_TERMS)
        return add_up(first, last);
    if (first <= DIRECT_TERMS) {
        sum = add_up(first, DIRECT_TERMS);
        first = DIRECT_TERMS + 1;
    }
    return sum + tail((double)(first - 1), (double)last);
}

/* From the items it was opened with, however many there are now: as the official one does. */
static double eta_of(const struct tb_zipfian *zipfian)
{
    double zeta2 = 1 + pow(2, -THETA);

    return (1 - pow(2.0 / (double)zipfian->items, 1 - THETA)) / (1 - zeta2 / zipfian->zetan);
}

void tb_zipfian_open(struct tb_zipfian *zipfian, int64_t least, int64_t most)
{
    int64_t items = most - least + 1;

    *zipfian = (struct tb_zipfian){
        .base = least, .items = items, .counted = items, .zetan = tb_zeta(1, items)};
    zipfian->eta = eta_of(zipfian);
}

void tb_zipfian_open_scrambled(struct tb_zipfian *zipfian)
{
    *zipfian = (struct tb_zipfian){
        .items = SCRAMBLED_ITEMS, .counted = SCRAMBLED_ITEMS, .zetan = SCRAMBLED_ZETAN};
    zipfian->eta = eta_of(zipfian);
}

void tb_zipfian_grow(struct tb_zipfian *zipfian, int64_t items)
{
    if (items <= zipfian->counted)
        return;
    zipfian->zetan += tb_zeta(zipfian->counted + 1, items);
    zipfian->counted = items;
    zipfian->eta = eta_of(zipfian);
}

/* The official alpha, 1 / (1 - THETA), is 100 to 1e-15; a pow() would take thrice as long. */
static double power_alpha(double x)
{
    double x4 = x * x * x * x, x16 = x4 * x4 * x4 * x4, x32 = x16 * x16;

    return x32 * x32 * x32 * x4;
}

int64_t tb_zipfian_at(const struct tb_zipfian *zipfian, int64_t items, double u)
{
    static const double second = 1.5034777750283594; /* 1 + 0.5^THETA */
    double uz = u * zipfian->zetan;

    if (uz < 1)
        return zipfian->base;
    if (uz < second)
        return zipfian->base + 1;
    return zipfian->base +
           (int64_t)((double)items * power_alpha(zipfian->eta * u - zipfian->eta + 1));
}
