/* Addresses by Zipf's law. */
#include "zipf.h"

#include <math.h>

#define LEAST_DRAWS (UINT64_C(1) << 16)
#define MOST_DRAWS (UINT64_C(1) << 24)
#define LEAST_CACHE (32 * MB_MIB)

/*
 * Zipf's ranks 1 … n, by rejection-inversion (Hörmann and Derflinger, 1996): no table, and
 * any exponent. H is the integral of x^-s, shifted so that it is 0 at 1.
 */
struct zipf {
    double s, n, h_first, h_last, squeeze;
};

static double zipf_h(double s, double x)
{
    double log_x = log(x), t = (1 - s) * log_x;
    return fabs(t) < 1e-8 ? log_x * (1 + t / 2) : expm1(t) / (1 - s);
}

static double zipf_h_inverse(double s, double y)
{
    double t = y * (1 - s);
    if (t < -1) /* rounding, next to the last rank */
        t = -1;
    return fabs(t) < 1e-8 ? exp(y * (1 - t / 2)) : exp(log1p(t) / (1 - s));
}

static void zipf_init(struct zipf *zipf, double s, uint64_t n)
{
    zipf->s = s;
    zipf->n = (double)n;
    zipf->h_first = zipf_h(s, 1.5) - 1;
    zipf->h_last = zipf_h(s, (double)n + 0.5);
    zipf->squeeze = 2 - zipf_h_inverse(s, zipf_h(s, 2.5) - pow(2, -s));
}

static uint64_t zipf_rank(const struct zipf *zipf, struct tb_random *random)
{
    for (;;) {
        double u = zipf->h_last + tb_random_fraction(random) * (zipf->h_first - zipf->h_last);
        double x = zipf_h_inverse(zipf->s, u), k = floor(x + 0.5);
        k = k < 1 ? 1 : k > zipf->n ? zipf->n : k;
        if (k - x <= zipf->squeeze || u >= zipf_h(zipf->s, k + 0.5) - pow(k, -zipf->s))
            return (uint64_t)k;
    }
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Ranks are spread over the range, as a hash would: 1:1, by a factor without common divisor. */
static uint64_t spreading_factor(uint64_t slots)
{
    uint64_t factor = (uint64_t)((double)slots * 0.6180339887498949) | 1;
    while (greatest_divisor(factor, slots) != 1)
        factor++;
    return factor;
}

uint64_t mb_zipf_draws(uint64_t access_bytes)
{
    uint64_t cache = mb_cpu.llc_bytes > LEAST_CACHE ? mb_cpu.llc_bytes : LEAST_CACHE;
    uint64_t draws = LEAST_DRAWS;
    while (draws < MOST_DRAWS && draws * access_bytes < 8 * cache)
        draws *= 2;
    return draws;
}

void mb_zipf_fill(struct mb_cursor *cursor, uint64_t slots)
{
    uint64_t factor = spreading_factor(slots);
    struct zipf zipf;
    zipf_init(&zipf, cursor->pattern.zipf_exponent, slots);
    for (uint64_t i = 0; i < cursor->ring_count; i++) {
        uint64_t rank = zipf_rank(&zipf, &cursor->random) - 1;
        uint64_t slot = (uint64_t)((__uint128_t)rank * factor % slots);
        cursor->ring[i] = cursor->base + slot * cursor->access_bytes;
    }
}
