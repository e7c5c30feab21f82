/* The medium of a job that makes bytes durable: its key "flush". */
#ifndef MICROBENCH_DURABLE_JOB_H
#define MICROBENCH_DURABLE_JOB_H

#include "durable.h"
#include "kernel.h"

enum {
    MB_MEDIUM_NONE = MB_NO_FLUSH,
    MB_MEDIUM_CLWB = MB_CLWB,
    MB_MEDIUM_CLFLUSHOPT = MB_CLFLUSHOPT,
    MB_MEDIUM_CLFLUSH = MB_CLFLUSH,
    MB_MEDIUM_NTSTORE = MB_FLUSHES,
};
extern const char *const mb_medium_names[];

bool mb_medium_read(const struct mb_job *job, int otherwise, int *flush, struct tb_error *error);
void mb_medium_persists(int flush, struct mb_persist *persist);

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

#endif
