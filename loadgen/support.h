/* Memory, clocks and progress for the core itself. */
#ifndef LOADGEN_SUPPORT_H
#define LOADGEN_SUPPORT_H

#include "workload.h"

#define LG_SECOND UINT64_C(1000000000)
#define LG_MILLISECOND UINT64_C(1000000)

/* Zeroed memory; the process ends where there is none. */
void *lg_allocate(size_t count, size_t size);

uint64_t lg_monotonic_ns(void);
uint64_t lg_realtime_ns(void);
/* Both at one moment: the closest of some tries, for the thread may stand still in between. */
struct lg_moment {
    uint64_t monotonic_ns, realtime_ns;
};
struct lg_moment lg_moment(void);
/* User and system time of the whole process, and of the thread that asks. */
uint64_t lg_process_cpu_ns(void);
uint64_t lg_thread_cpu_ns(void);

/* What stands on stdin behind the spec: reads some of it, waiting where there is none. */
enum lg_rest { LG_REST_BLANK, LG_REST_WORDS, LG_REST_END };
enum lg_rest lg_read_rest(void);

/* Before anything else is opened: is there a descriptor 3 that takes progress? */
void lg_progress_open(void);
/*
 * Nothing more is told. It may be the same pipe as stdout (on a client host: ssh has no third
 * descriptor), and the result waits for its reader.
 */
void lg_progress_close(void);

#endif
