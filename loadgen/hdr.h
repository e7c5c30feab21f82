/*
 * Histogram of durations in nanoseconds, of HdrHistogram's shape: 1 ns … 1 h, 3 digits.
 *
 * A value is kept to 1/1000 of itself.
 */
#ifndef LOADGEN_HDR_H
#define LOADGEN_HDR_H

#include <stddef.h>
#include <stdint.h>

#define LG_HDR_LOWEST_NS INT64_C(1)
#define LG_HDR_HIGHEST_NS INT64_C(3600000000000)

struct lg_hdr {
    uint64_t total;
    uint64_t *counts; /* by bucket and sub-bucket */
};

void lg_hdr_init(struct lg_hdr *histogram);
void lg_hdr_free(struct lg_hdr *histogram);
/* What is longer than an hour counts as an hour. */
void lg_hdr_record(struct lg_hdr *histogram, uint64_t value_ns, uint64_t times);
void lg_hdr_add(struct lg_hdr *histogram, const struct lg_hdr *other);
/* HdrHistogram V2, compressed, in base64; the caller frees it. */
char *lg_hdr_encode(const struct lg_hdr *histogram);

#endif
