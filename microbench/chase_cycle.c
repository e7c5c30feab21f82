/*
 * The order is drawn as a shuffle of the elements' numbers, uniform over all orders; walking
 * it around is one cycle by construction (what Sattolo's algorithm draws directly). With
 * blocks, the blocks are shuffled and then the elements within each.
 *
 * Order and range are too big for the caches. The shuffle's swaps are random accesses, but
 * their places are known ahead and are fetched ahead; the pointers are then written in the
 * order of the walk, each to a place known ahead too.
 */
#include "chase_cycle.h"

#include "support.h"

#include <stdlib.h>

enum { AHEAD = 32 };

/* Fisher and Yates, with the draws AHEAD of the swaps. */
static void shuffle(uint32_t *numbers, uint64_t count, struct lg_random *random)
{
    uint32_t drawn[AHEAD];
    for (uint64_t i = 0; i < count + AHEAD; i++) {
        if (i >= AHEAD) {
            uint64_t last = count - 1 - (i - AHEAD), other = drawn[i % AHEAD];
            uint32_t number = numbers[last];
            numbers[last] = numbers[other];
            numbers[other] = number;
        }
        if (i < count) {
            uint64_t bound = count - i;
            drawn[i % AHEAD] = (uint32_t)(((__uint128_t)lg_random_next(random) * bound) >> 64);
            __builtin_prefetch(&numbers[drawn[i % AHEAD]], 1);
        }
    }
}

static uint32_t *order_of(uint64_t elements, uint64_t block, struct lg_random *random)
{
    uint32_t *order = lg_allocate(elements, sizeof *order);
    uint64_t blocks = (elements + block - 1) / block;
    uint32_t *places = lg_allocate(blocks, sizeof *places);
    for (uint64_t i = 0; i < blocks; i++)
        places[i] = (uint32_t)i;
    shuffle(places, blocks, random);
    uint64_t filled = 0;
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t first = places[i] * block;
        uint64_t count = elements - first < block ? elements - first : block;
        for (uint64_t j = 0; j < count; j++)
            order[filled + j] = (uint32_t)(first + j);
        shuffle(order + filled, count, random);
        filled += count;
    }
    free(places);
    return order;
}

void mb_cycle_write(char *base, uint64_t elements, uint64_t stride_bytes, uint64_t locality_bytes,
                    struct lg_random *random)
{
    uint64_t block = locality_bytes / stride_bytes;
    if (block == 0 || block > elements)
        block = elements;
    uint32_t *order = order_of(elements, block, random);
    for (uint64_t i = 0; i < elements; i++) {
        if (i + AHEAD < elements)
            __builtin_prefetch(base + order[i + AHEAD] * stride_bytes, 1);
        char *next = base + order[i + 1 < elements ? i + 1 : 0] * stride_bytes;
        *(char **)(void *)(base + order[i] * stride_bytes) = next;
    }
    free(order);
}

uint64_t mb_cycle_length(const char *base, uint64_t elements, uint64_t stride_bytes)
{
    const char *at = base;
    for (uint64_t steps = 1; steps <= elements; steps++) {
        at = *(char *const *)(const void *)at;
        uint64_t offset = (uint64_t)(at - base);
        if (at < base || offset >= elements * stride_bytes || offset % stride_bytes != 0)
            return 0;
        if (at == base)
            return steps;
    }
    return 0;
}
