/*
 * Histogram of durations in nanoseconds, of HdrHistogram's shape: 1 ns … 1 h, 3 digits.
 *
 * A value is recorded with a relative error of at most 1/1000.
 */
#ifndef NATIVE_HDR_H
#define NATIVE_HDR_H

#include "support.h"

#include <stddef.h>
#include <stdint.h>

#define TB_HDR_LOWEST_NS INT64_C(1)
#define TB_HDR_HIGHEST_NS INT64_C(3600000000000)
#define TB_HDR_SUB_BITS 11 /* ceil(log2(2 * 10^3)) */
#define TB_HDR_BUCKETS 32  /* 2^(11 + 31) ns > 1 h */
#define TB_HDR_COUNTERS ((TB_HDR_BUCKETS + 1) << (TB_HDR_SUB_BITS - 1))

struct tb_hdr {
    uint64_t total;
    uint64_t *counts; /* by bucket and sub-bucket */
};

/*
 * The same with a counter for eight of its neighbours: 33 KiB, 8 ns … 1 h, 2 digits, a relative
 * error of at most 1/128. Packed, the counts of a second take about a kilobyte.
 */
#define TB_COARSE_SHIFT 3
#define TB_COARSE_COUNTERS (TB_HDR_COUNTERS >> TB_COARSE_SHIFT)

struct tb_coarse_hdr {
    uint64_t counts[TB_COARSE_COUNTERS];
};

/* The counter of a value; values above one hour count as one hour. */
static inline size_t tb_hdr_index(uint64_t value_ns)
{
    if (value_ns > (uint64_t)TB_HDR_HIGHEST_NS)
        value_ns = (uint64_t)TB_HDR_HIGHEST_NS;
    uint64_t first_mask = ((uint64_t)1 << TB_HDR_SUB_BITS) - 1;
    int bucket = 64 - __builtin_clzll(value_ns | first_mask) - TB_HDR_SUB_BITS;
    return ((size_t)bucket << (TB_HDR_SUB_BITS - 1)) + (size_t)(value_ns >> bucket);
}

static inline void tb_hdr_record(struct tb_hdr *histogram, uint64_t value_ns, uint64_t times)
{
    histogram->counts[tb_hdr_index(value_ns)] += times;
    histogram->total += times;
}

static inline void tb_coarse_hdr_record(struct tb_coarse_hdr *histogram, uint64_t value_ns)
{
    histogram->counts[tb_hdr_index(value_ns) >> TB_COARSE_SHIFT]++;
}

void tb_hdr_init(struct tb_hdr *histogram);
void tb_hdr_free(struct tb_hdr *histogram);
void tb_hdr_add(struct tb_hdr *histogram, const struct tb_hdr *other);
/* HdrHistogram V2, compressed, in base64; the caller frees it. */
char *tb_hdr_encode(const struct tb_hdr *histogram);

/* Appends the counts in a compact form. */
void tb_coarse_hdr_pack(const struct tb_coarse_hdr *histogram, struct tb_text *into);
/* Adds counts that were packed. */
void tb_coarse_hdr_add(struct tb_coarse_hdr *histogram, const char *packed, size_t length);
/* As tb_hdr_encode. */
char *tb_coarse_hdr_encode(const struct tb_coarse_hdr *histogram);

#endif
