/* Every order is one cycle through all nodes; the random one is random. */
#include "../chase_cycle.h"
#include "check.h"

enum { BYTES = 1 << 20 };

static char *range;

/* Steps from base until it is reached again; 0: a pointer leaves the nodes, or there are more. */
static uint64_t length_of(const char *base, const struct mb_cycle *cycle)
{
    const char *at = base;
    for (uint64_t steps = 1; steps <= cycle->nodes; steps++) {
        at = *(char *const *)(const void *)at;
        uint64_t offset = (uint64_t)(at - base);
        if (at < base || offset >= cycle->nodes * cycle->node_bytes || offset % cycle->node_bytes)
            return 0;
        if (at == base)
            return steps;
    }
    return 0;
}

static void one_cycle(struct mb_cycle cycle, size_t number)
{
    struct tb_random random;
    tb_random_seed(&random, 1, number);
    memset(range, 0xff, BYTES);
    mb_cycle_write(range, &cycle, &random);
    CHECK_CASE(length_of(range, &cycle) == cycle.nodes, number);
}

static void every_node_once(void)
{
    for (uint64_t bytes = 64, number = 0; bytes <= 4096; bytes *= 2) {
        uint64_t nodes = BYTES / bytes - number % 3;
        one_cycle((struct mb_cycle){nodes, bytes, MB_CHASE_RANDOM, bytes, BYTES}, number++);
        one_cycle((struct mb_cycle){nodes, bytes, MB_CHASE_RANDOM, bytes, 8192}, number++);
        one_cycle((struct mb_cycle){nodes, bytes, MB_CHASE_SEQUENTIAL, bytes, BYTES}, number++);
        one_cycle((struct mb_cycle){nodes, bytes, MB_CHASE_STRIDED, 4 * bytes, BYTES}, number++);
    }
    one_cycle((struct mb_cycle){2, 64, MB_CHASE_RANDOM, 64, BYTES}, 100);
    one_cycle((struct mb_cycle){BYTES / 64, 64, MB_CHASE_RANDOM, 64, 64}, 101);
}

static uint64_t step(const char *at)
{
    return (uint64_t)(*(char *const *)(const void *)at - range);
}

static void orders_are_what_they_say(void)
{
    struct mb_cycle strided = {BYTES / 64, 64, MB_CHASE_STRIDED, 256, BYTES};
    struct tb_random random;
    tb_random_seed(&random, 1, 1);
    mb_cycle_write(range, &strided, &random);
    CHECK(step(range) == 256 && step(range + BYTES - 256) == 64);
    CHECK(step(range + BYTES - 64) == 0);

    /* A random step goes a third of the range on average, within a block a third of that. */
    for (uint64_t locality = BYTES; locality >= 16384; locality /= 8) {
        struct mb_cycle cycle = {BYTES / 64, 64, MB_CHASE_RANDOM, 64, locality};
        double sum = 0;
        uint64_t inside = 0;
        mb_cycle_write(range, &cycle, &random);
        for (uint64_t i = 0; i < cycle.nodes; i++) {
            int64_t far = (int64_t)step(range + i * 64) - (int64_t)(i * 64);
            if (i * 64 / locality != step(range + i * 64) / locality)
                continue;
            sum += (double)llabs(far);
            inside++;
        }
        CHECK(inside >= cycle.nodes - BYTES / locality);
        CHECK(sum / (double)inside > 0.30 * (double)locality);
        CHECK(sum / (double)inside < 0.36 * (double)locality);
    }
}

static void a_broken_cycle_is_seen(void)
{
    struct mb_cycle cycle = {BYTES / 64, 64, MB_CHASE_RANDOM, 64, BYTES};
    struct tb_random random;
    tb_random_seed(&random, 1, 1);
    mb_cycle_write(range, &cycle, &random);
    *(char **)(void *)(range + step(range)) = range;
    CHECK(length_of(range, &cycle) == 2);
    *(char **)(void *)(range + 640) = range + 1;
    *(char **)(void *)range = range + 640;
    CHECK(length_of(range, &cycle) == 0);
}

static void one_seed_one_order(void)
{
    struct mb_cycle cycle = {BYTES / 64, 64, MB_CHASE_RANDOM, 64, BYTES};
    char *copy = tb_allocate(1, BYTES);
    struct tb_random random;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        for (int again = 0; again < 2; again++) {
            tb_random_seed(&random, seed, 0);
            mb_cycle_write(range, &cycle, &random);
            bool same = memcmp(copy, range, BYTES) == 0;
            CHECK_CASE(same == (again == 1), seed);
            memcpy(copy, range, BYTES);
        }
    }
    free(copy);
}

int main(void)
{
    range = aligned_alloc(4096, BYTES);
    every_node_once();
    orders_are_what_they_say();
    a_broken_cycle_is_seen();
    one_seed_one_order();
    free(range);
    return checks_failed();
}
