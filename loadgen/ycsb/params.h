/* The spec's workload.params for YCSB, read and checked: the official properties by their names. */
#pragma once

#include "../workload.h"

enum lg_ycsb_operation {
    YCSB_READ,
    YCSB_UPDATE,
    YCSB_INSERT,
    YCSB_SCAN,
    YCSB_READ_MODIFY_WRITE,
    YCSB_OPERATIONS,
};

enum lg_ycsb_distribution {
    YCSB_CONSTANT,
    YCSB_UNIFORM,
    YCSB_ZIPFIAN,
    YCSB_LATEST,
    YCSB_HOTSPOT,
    YCSB_SEQUENTIAL,
    YCSB_EXPONENTIAL,
};

enum {
    YCSB_MAX_FIELDS = 64,
    YCSB_MAX_PADDING = 100,
    YCSB_MAX_FIELD_BYTES = 1 << 20,
    /* "user", padded digits, and what their writer runs over. */
    YCSB_KEY_BYTES = 4 + YCSB_MAX_PADDING + 24,
};

/*
 * What is not given is what the official core (0.17.0) takes then. Ours: data_seed,
 * verify_reads, update (stated in the notes); of task "verify": inserted, inserts_begun.
 */
struct lg_ycsb_params {
    int64_t recordcount, operationcount, insertstart, insertcount, expectednewkeys;
    int64_t fieldcount, fieldlength, minfieldlength;
    int64_t minscanlength, maxscanlength, zeropadding;
    int64_t data_seed, inserted, inserts_begun;
    double proportions[YCSB_OPERATIONS];
    double hotspot_data, hotspot_operations, exponential_percentile, exponential_fraction;
    bool readallfields, writeallfields, verify_reads, ordered;
    enum lg_ycsb_distribution request, field_length, scan_length;
    const char *update;
};

/* Every error names the key. The texts are those of `params`. */
bool lg_ycsb_params_read(struct lg_ycsb_params *read, const json_t *params,
                         struct tb_error *error);

/* Whether records are updated at all. */
static inline bool lg_ycsb_updates(const struct lg_ycsb_params *params)
{
    return params->proportions[YCSB_UPDATE] > 0 ||
           params->proportions[YCSB_READ_MODIFY_WRITE] > 0;
}
