/* What two stamps cost with nothing between them: part of every operation that is timed alone. */
#ifndef MICROBENCH_EMPTY_H
#define MICROBENCH_EMPTY_H

#include "kernel.h"

struct mb_empty {
    double least, p50, mean; /* ns */
};

/* Measured by the thread that calls it; nothing is accessed at `base`. */
void mb_empty_measure(struct mb_empty *empty, enum mb_isa isa, char *base);
/* Order of qsort: of uint64_t, as the loops of timed.h tell cycles. */
int mb_by_cycles(const void *a, const void *b);
/* empty_body_ns (the median), empty_body_least_ns, empty_body_mean_ns */
void mb_empty_report(const struct mb_empty *empty, json_t *facts);

#endif
