/*
 * Random numbers: xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64.
 *
 * A stream is a pair (seed, number). Each terminal and each thread has its own, so that what
 * it draws does not depend on how terminals are spread over threads and processes.
 */
#ifndef NATIVE_RANDOM_H
#define NATIVE_RANDOM_H

#include <stdint.h>

/* splitmix64's finalizer (Stafford's variant 13): each bit in changes half of those out. */
static inline uint64_t tb_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

struct tb_random {
    uint64_t state[4];
};

void tb_random_seed(struct tb_random *random, uint64_t seed, uint64_t stream);
uint64_t tb_random_next(struct tb_random *random);
/* Uniform in [low, high], without bias. */
int64_t tb_random_between(struct tb_random *random, int64_t low, int64_t high);
/* Uniform in (0, 1]. */
double tb_random_fraction(struct tb_random *random);

#endif
