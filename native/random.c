#include "random.h"

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
