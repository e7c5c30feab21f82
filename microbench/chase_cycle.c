/*
 * The order is drawn as a shuffle of the nodes' numbers, uniform over all orders; walking it
 * around is one cycle by construction (what Sattolo's algorithm draws directly).
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
static void shuffle(uint32_t *numbers, uint64_t count, struct tb_random *random)
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
            drawn[i % AHEAD] = (uint32_t)(((__uint128_t)tb_random_next(random) * bound) >> 64);
            __builtin_prefetch(&numbers[drawn[i % AHEAD]], 1);
        }
    }
}

void mb_cycle_write(char *base, uint64_t lines, struct tb_random *random)
{
    uint32_t *order = tb_allocate(lines, sizeof *order);
    for (uint64_t i = 0; i < lines; i++)
        order[i] = (uint32_t)i;
    shuffle(order, lines, random);
    for (uint64_t i = 0; i < lines; i++) {
        if (i + AHEAD < lines)
            __builtin_prefetch(base + order[i + AHEAD] * MB_LINE, 1);
        char *next = base + order[i + 1 < lines ? i + 1 : 0] * MB_LINE;
        *(char **)(void *)(base + order[i] * MB_LINE) = next;
    }
    free(order);
}
