/*
 * What jobs that make bytes durable have in common: their medium (key "flush"), and which
 * operations are timed alone (key "sample_every").
 */
#pragma once

#include "durable.h"
#include "kernel.h"
#include "timer_overhead.h"

enum {
    MB_MEDIUM_NONE = MB_NO_FLUSH,
    MB_MEDIUM_CLWB = MB_CLWB,
    MB_MEDIUM_CLFLUSHOPT = MB_CLFLUSHOPT,
    MB_MEDIUM_CLFLUSH = MB_CLFLUSH,
    MB_MEDIUM_NTSTORE = MB_FLUSHES,
};
extern const char *const mb_media[];
#define MB_DURABLE_KEYS(struct_, member, usual_flush)                                           \
    TB_WORD_KEY(struct_, "flush", member.flush, mb_media, 0, usual_flush),                        \
    MB_SAMPLER_KEY(struct_, member.sampler)

/* The first member of such a job's params; functions of its kernel. */
struct mb_durable {
    int flush;
    struct mb_sampler sampler;
};
bool mb_durable_fits(const struct mb_job *job, struct tb_error *error);
bool mb_durable_prepare(struct mb_job *job, struct tb_error *error);
bool mb_durable_persists(const struct mb_job *job, struct mb_persist *persist);
void mb_durable_report(const struct mb_job *job, json_t *facts);
/* Whole words, drawn by the thread. */
char *mb_random_bytes(struct mb_thread *thread, size_t bytes);

/* Calls an inlined function with the medium as a constant: work(thread, medium, count). */
#define MB_WITH_MEDIUM(flush, work, thread, count)           \
    do {                                                     \
        if ((flush) == MB_MEDIUM_CLWB)                       \
            work(thread, &mb_medium_clwb, count);            \
        else if ((flush) == MB_MEDIUM_NTSTORE)               \
            work(thread, &mb_medium_ntstore, count);         \
        else if ((flush) == MB_MEDIUM_CLFLUSHOPT)            \
            work(thread, &mb_medium_clflushopt, count);      \
        else if ((flush) == MB_MEDIUM_CLFLUSH)               \
            work(thread, &mb_medium_clflush, count);         \
        else                                                 \
            work(thread, &mb_medium_none, count);            \
    } while (0)
