/* Running one measurement, and what comes of it. */
#pragma once

#include "kernel.h"
#include "target.h"

/* What one thread did, from a common start on. Times: CLOCK_MONOTONIC. */
struct mb_worker {
    struct mb_thread thread;
    struct mb_repeat *repeat;
    pthread_t id;
    uint64_t operations;  /* its share of the job's; 0: no limit */
    uint64_t step;        /* operations from one look at the clock to the next */
    uint64_t begin_ns, end_ns, cpu_ns;
    struct mb_faults faults; /* while it was measured */
    /* As the first of all threads ended: what is after that was not done next to all others. */
    struct mb_counts window;
    uint64_t window_ns;   /* 0: that has not happened yet */
};

/* One repeat of a measurement: all threads of all its jobs. */
struct mb_repeat {
    const struct mb_measurement *measurement;
    uint32_t number;
    struct mb_worker *workers;
    uint32_t worker_count;
    pthread_barrier_t barrier;
    atomic_bool failed;        /* a thread could not be pinned: none is measured */
    atomic_uint counted_left;  /* threads with a number of operations that are not done */
    atomic_uint_fast64_t first_end_ns;
    uint64_t start_ns, stop_ns; /* 0: no time is set */
    uint64_t begin_ns, duration_ns;
    int64_t stolen_ns;         /* -1: unknown */
    double core_hz;
};

/* False with the error; the repeat's workers are to be freed in either case. */
bool mb_repeat_run(struct mb_repeat *repeat, const struct mb_measurement *measurement,
                   uint32_t number, struct tb_error *error);
void mb_repeat_free(struct mb_repeat *repeat);

/*
 * Could that be? False with the error where a thread moved more than the core's ports to
 * the cache can carry: then the loop did not do what it should have done.
 */
bool mb_plausible(const struct mb_job *job, const struct mb_counts *done, uint64_t duration_ns,
                  double core_hz, struct tb_error *error);

/* The result of a repeat, as printed; NULL with the error. */
json_t *mb_repeat_result(const struct mb_repeat *repeat, struct tb_error *error);
json_t *mb_cpu_facts(void);
