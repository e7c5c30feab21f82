/* What one event loop has counted, by operation; loops are added up at the end. */
#pragma once

#include "workload.h"

#define LG_MAX_CODES 64

/*
 * Latencies over time: a histogram for each stretch of `intervals` intervals. The one that is being
 * counted in is whole; the others are packed.
 */
struct lg_latencies {
    struct tb_coarse_hdr current;
    size_t intervals;
    size_t stretch; /* number of the current one */
    struct tb_text packed;
    size_t *begins; /* of each earlier stretch in `packed` */
    size_t room;    /* in `begins` */
};

/*
 * What is written at each operation lies in the middle: the cache lines at both ends may be shared
 * with another loop.
 */
struct lg_tally {
    struct lg_latencies latencies; /* of `count`, over time */
    atomic_uint_fast64_t finished; /* committed since the beginning; read by others */
    struct tb_hdr latency;         /* by start in the measured window */
    uint64_t count;                /* done in the measured window */
    uint64_t *series;              /* `count` over time */
    size_t interval;               /* the one that was last counted in */
    size_t intervals;
    uint64_t skipped;     /* of `count`, with less to do than belongs to them */
    uint64_t not_found;   /* of `count`, that found no record */
    uint64_t rolled_back; /* in the measured window, as the workload wanted it */
    uint64_t unfinished;  /* started in the window, not done at the drain's end */
    uint64_t retried;     /* attempts that were undone in the measured window */
    uint64_t padding[4];
};

/* Latencies since the beginning, of all operations of a loop; the main thread reads it meanwhile. */
struct lg_live {
    atomic_uint counts[TB_COARSE_COUNTERS];
};

struct lg_codes {
    size_t count;
    struct {
        char code[16];
        uint64_t times;
    } of[LG_MAX_CODES]; /* the last one takes what no longer fits, as "other" */
};

/* `intervals`: of the series, in one histogram of latencies. */
struct lg_tally *lg_tallies_new(size_t operations, size_t intervals);
void lg_tallies_free(struct lg_tally *tallies, size_t operations);
/* The next operations are of this interval; intervals never decrease. */
void lg_tally_enter(struct lg_tally *tally, size_t interval);
/* Adds what was recorded since the call before: `seen` is what that one has left (zeros at first). */
void lg_live_add(const struct lg_live *live, unsigned seen[TB_COARSE_COUNTERS],
                 struct tb_coarse_hdr *into);
/* All but the latencies over time. */
void lg_tally_add(struct lg_tally *tally, const struct lg_tally *other);
/* Adds those of one stretch. */
void lg_tally_latencies(const struct lg_tally *tally, size_t stretch, struct tb_coarse_hdr *into);
void lg_codes_count(struct lg_codes *codes, const char *code, uint64_t times);

static inline void lg_live_record(struct lg_live *live, uint64_t latency_ns)
{
    atomic_uint *count = &live->counts[tb_hdr_index(latency_ns) >> TB_COARSE_SHIFT];
    unsigned so_far = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, so_far + 1, memory_order_relaxed);
}

static inline void lg_tally_done(struct lg_tally *tally, size_t interval, uint64_t latency_ns)
{
    if (interval != tally->interval)
        lg_tally_enter(tally, interval);
    tally->series[interval]++;
    tally->count++;
    tb_coarse_hdr_record(&tally->latencies.current, latency_ns);
}
