/* The empty body of operations that are timed alone, for every kind that times some. */
#include "timer_overhead.h"

#include "loops/timed.h"

enum { SAMPLES = 16384 };

int mb_by_cycles(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void mb_timer_overhead_measure(struct mb_timer_overhead *overhead, enum mb_isa isa, char *base)
{
    const struct mb_operation nothing = {.isa = isa, .access = MB_EMPTY};
    struct mb_timed timed = {.span = {.base = base, .count = SAMPLES}};
    uint64_t *cycles = tb_allocate(SAMPLES, sizeof *cycles);
    double sum = 0, ns = 1e9 / mb_cpu.clock_hz;
    for (int round = 0; round < 2; round++) /* the first one warms up */
        mb_timed_loop_of(&nothing, false)(&timed, cycles);
    qsort(cycles, SAMPLES, sizeof *cycles, mb_by_cycles);
    for (int i = 0; i < SAMPLES; i++)
        sum += (double)cycles[i];
    overhead->least = (double)cycles[0] * ns;
    overhead->p50 = (double)cycles[SAMPLES / 2] * ns;
    overhead->mean = sum / SAMPLES * ns;
    free(cycles);
}

void mb_timer_overhead_report(const struct mb_timer_overhead *overhead, json_t *facts)
{
    json_object_set_new(facts, "empty_body_ns", json_real(overhead->p50));
    json_object_set_new(facts, "empty_body_least_ns", json_real(overhead->least));
    json_object_set_new(facts, "empty_body_mean_ns", json_real(overhead->mean));
}

void mb_sampler_prepare(struct mb_sampler *sampler, enum mb_isa isa, char *base)
{
    if (sampler->every > 0)
        mb_timer_overhead_measure(&sampler->overhead, isa, base);
}

void mb_sampler_report(const struct mb_sampler *sampler, json_t *facts)
{
    if (sampler->every > 0)
        mb_timer_overhead_report(&sampler->overhead, facts);
}
