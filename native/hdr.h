/*
 * Histogram of durations in nanoseconds, of HdrHistogram's shape: 1 ns … 1 h, 3 digits.
 *
 * A value is recorded with a relative error of at most 1/1000.
 */
#ifndef NATIVE_HDR_H
#define NATIVE_HDR_H

#include <stddef.h>
#include <stdint.h>

#define TB_HDR_LOWEST_NS INT64_C(1)
#define TB_HDR_HIGHEST_NS INT64_C(3600000000000)

struct tb_hdr {
    uint64_t total;
    uint64_t *counts; /* by bucket and sub-bucket */
};

void tb_hdr_init(struct tb_hdr *histogram);
void tb_hdr_free(struct tb_hdr *histogram);
/* Values above one hour count as one hour. */
void tb_hdr_record(struct tb_hdr *histogram, uint64_t value_ns, uint64_t times);
void tb_hdr_add(struct tb_hdr *histogram, const struct tb_hdr *other);
/* HdrHistogram V2, compressed, in base64; the caller frees it. */
char *tb_hdr_encode(const struct tb_hdr *histogram);

#endif
