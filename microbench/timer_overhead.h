/*
 * What the two stamps around an operation that is timed alone cost with nothing between them: it is
 * part of every such time.
 */
#ifndef MICROBENCH_TIMER_OVERHEAD_H
#define MICROBENCH_TIMER_OVERHEAD_H

#include "kernel.h"

struct mb_timer_overhead {
    double least, p50, mean; /* ns */
};

/* Measured by the thread that calls it; nothing is accessed at `base`. */
void mb_timer_overhead_measure(struct mb_timer_overhead *overhead, enum mb_isa isa, char *base);
/* Order of qsort: of uint64_t, the cycles of loops/timed.h. */
int mb_by_cycles(const void *a, const void *b);
/* empty_body_ns (the median), empty_body_least_ns, empty_body_mean_ns */
void mb_timer_overhead_report(const struct mb_timer_overhead *overhead, json_t *facts);

#endif
