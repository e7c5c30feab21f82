/*
 * The order is drawn as a shuffle of the nodes' numbers, uniform over all orders; walking it
 * around is one cycle by construction (what Sattolo's algorithm draws directly). With blocks,
 * the blocks are shuffled and then the nodes within each. Strided, each lap begins one node
 * further than the lap before.
 *
 * Order and range are too big for the caches. The shuffle's swaps are random accesses, but
 * their places are known ahead and are fetched ahead; the pointers are then written in the
 * order of the walk, each to a place known ahead too.
 */
#include "chase_cycle.h"

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

static void draw_random(uint32_t *order, uint64_t nodes, uint64_t block, struct tb_random *random)
{
    uint64_t blocks = (nodes + block - 1) / block, filled = 0;
    uint32_t *places = tb_allocate(blocks, sizeof *places);
    for (uint64_t i = 0; i < blocks; i++)
        places[i] = (uint32_t)i;
    shuffle(places, blocks, random);
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t first = places[i] * block;
        uint64_t count = nodes - first < block ? nodes - first : block;
        for (uint64_t j = 0; j < count; j++)
            order[filled + j] = (uint32_t)(first + j);
        shuffle(order + filled, count, random);
        filled += count;
    }
    free(places);
}

static void step_through(uint32_t *order, uint64_t nodes, uint64_t step)
{
    uint64_t filled = 0;
    for (uint64_t first = 0; first < step && first < nodes; first++)
        for (uint64_t node = first; node < nodes; node += step)
            order[filled++] = (uint32_t)node;
}

void mb_cycle_write(char *base, const struct mb_cycle *cycle, struct tb_random *random)
{
    uint64_t nodes = cycle->nodes, bytes = cycle->node_bytes;
    uint32_t *order = tb_allocate(nodes, sizeof *order);
    if (cycle->order == MB_CHASE_RANDOM) {
        uint64_t block = cycle->locality_bytes / bytes;
        draw_random(order, nodes, block == 0 || block > nodes ? nodes : block, random);
    } else {
        step_through(order, nodes,
                     cycle->order == MB_CHASE_STRIDED ? cycle->stride_bytes / bytes : 1);
    }
    for (uint64_t i = 0; i < nodes; i++) {
        if (i + AHEAD < nodes)
            __builtin_prefetch(base + order[i + AHEAD] * bytes, 1);
        char *next = base + order[i + 1 < nodes ? i + 1 : 0] * bytes;
        *(char **)(void *)(base + order[i] * bytes) = next;
    }
    free(order);
}
