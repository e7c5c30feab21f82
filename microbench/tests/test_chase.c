/* The order is one cycle through all lines, and random. */
#define mb_chase chase_here /* the program has it as well */
#include "../kernels/chase.c"
#include "check.h"

enum { BYTES = 1 << 20, LINES = BYTES / 64 };

static char *range;

/* Steps from base until it is reached again; 0: a pointer leaves the lines, or there are more. */
static uint64_t length_of(const char *base, uint64_t lines)
{
    const char *at = base;
    for (uint64_t steps = 1; steps <= lines; steps++) {
        at = *(char *const *)(const void *)at;
        uint64_t offset = (uint64_t)(at - base);
        if (at < base || offset >= lines * MB_LINE || offset % MB_LINE)
            return 0;
        if (at == base)
            return steps;
    }
    return 0;
}

static void every_line_once(void)
{
    for (uint64_t lines = 2; lines <= LINES; lines = lines * 3 + 1) {
        struct tb_random random;
        tb_random_seed(&random, 1, lines);
        memset(range, 0xff, BYTES);
        write_cycle(range, lines, &random);
        CHECK_CASE(length_of(range, lines) == lines, lines);
    }
}

static uint64_t step(const char *at)
{
    return (uint64_t)(*(char *const *)(const void *)at - range);
}

static void the_order_is_random(void)
{
    struct tb_random random;
    double sum = 0;
    tb_random_seed(&random, 1, 1);
    write_cycle(range, LINES, &random);
    for (uint64_t i = 0; i < LINES; i++)
        sum += (double)llabs((int64_t)step(range + i * 64) - (int64_t)(i * 64));
    /* A random step goes a third of the range on average. */
    CHECK(sum / LINES > 0.32 * BYTES && sum / LINES < 0.35 * BYTES);
}

static void a_broken_cycle_is_seen(void)
{
    struct tb_random random;
    tb_random_seed(&random, 1, 1);
    write_cycle(range, LINES, &random);
    *(char **)(void *)(range + step(range)) = range;
    CHECK(length_of(range, LINES) == 2);
    *(char **)(void *)(range + 640) = range + 1;
    *(char **)(void *)range = range + 640;
    CHECK(length_of(range, LINES) == 0);
}

static void one_seed_one_order(void)
{
    char *copy = tb_allocate(1, BYTES);
    struct tb_random random;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        for (int again = 0; again < 2; again++) {
            tb_random_seed(&random, seed, 0);
            write_cycle(range, LINES, &random);
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
    every_line_once();
    the_order_is_random();
    a_broken_cycle_is_seen();
    one_seed_one_order();
    free(range);
    return checks_failed();
}
