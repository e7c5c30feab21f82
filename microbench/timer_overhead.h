/*
 * Operations that are timed alone, each between two stamps; and what these cost with nothing
 * between them, which is part of every such time.
 */
#pragma once

#include "kernel.h"

struct mb_timer_overhead {
    double least, p50, mean; /* ns */
};

/* Measured by the thread that calls it; nothing is accessed at `base`. */
void mb_timer_overhead_measure(struct mb_timer_overhead *overhead, enum mb_isa isa, char *base);
/* "sample_every": each n-th operation of a thread is timed alone; 0: none. */
struct mb_sampler {
    int64_t every;
    struct mb_timer_overhead overhead;
};
#define MB_SAMPLER_KEY(struct_, member) \
    TB_INTEGER_KEY(struct_, "sample_every", member.every, 0, INT32_MAX, 0)
void mb_sampler_prepare(struct mb_sampler *sampler, enum mb_isa isa, char *base);
void mb_sampler_report(const struct mb_sampler *sampler, json_t *facts);

/* Whether the next operation is timed alone; `left`: the thread's operations until that one. */
static inline bool mb_sample_due(const struct mb_sampler *sampler, uint64_t *left)
{
    if (*left == 0 || --*left > 0)
        return false;
    *left = (uint64_t)sampler->every;
    return true;
}

/* After an operation that began at the stamp `from`. */
static inline void mb_sample_end(struct mb_thread *thread, uint64_t from)
{
    uint64_t taken = mb_clock_end() - from;
    if (thread->recording)
        tb_hdr_record(&thread->latency, mb_ns(taken), 1);
}

/* Order of qsort: of uint64_t, the cycles of loops/timed.h. */
int mb_by_cycles(const void *a, const void *b);
/* empty_body_ns (the median), empty_body_least_ns, empty_body_mean_ns */
void mb_timer_overhead_report(const struct mb_timer_overhead *overhead, json_t *facts);
