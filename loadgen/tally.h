/* What one event loop has counted, by operation; loops are added up at the end. */
#ifndef LOADGEN_TALLY_H
#define LOADGEN_TALLY_H

#include "hdr.h"
#include "workload.h"

#include <stdatomic.h>

#define LG_MAX_CODES 64

/* On cache lines of its own: two loops never write to the same one. */
struct lg_tally {
    _Alignas(64) struct tb_hdr latency; /* by start in the measured window */
    uint64_t count;             /* done in the measured window */
    uint64_t skipped;           /* of these, with less to do than belongs to them */
    uint64_t not_found;         /* of these, that found no record */
    uint64_t rolled_back;       /* in the measured window, as the workload wanted it */
    uint64_t retried;           /* attempts that were undone in the measured window */
    uint64_t failed;
    uint64_t unfinished;        /* started in the window, not done at the drain's end */
    uint64_t *series;           /* `count` by interval */
    size_t intervals;
    atomic_uint_fast64_t finished; /* committed since the beginning; read by others */
};

struct lg_codes {
    size_t count;
    struct {
        char code[16];
        uint64_t times;
    } of[LG_MAX_CODES]; /* the last one takes what no longer fits, as "other" */
};

struct lg_tally *lg_tallies_new(size_t operations);
void lg_tallies_free(struct lg_tally *tallies, size_t operations);
void lg_tally_done(struct lg_tally *tally, size_t interval);
void lg_tally_add(struct lg_tally *tally, const struct lg_tally *other);
void lg_codes_count(struct lg_codes *codes, const char *code, uint64_t times);

#endif
