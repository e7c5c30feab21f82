/* Clocks, in nanoseconds. */
#ifndef NATIVE_CLOCK_H
#define NATIVE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define TB_SECOND UINT64_C(1000000000)
#define TB_MILLISECOND UINT64_C(1000000)

uint64_t tb_monotonic_ns(void);

/* CLOCK_MONOTONIC and CLOCK_REALTIME at one moment: the closest pair of several readings. */
struct tb_moment {
    uint64_t monotonic_ns, realtime_ns;
};
struct tb_moment tb_moment(void);

static inline struct timespec tb_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / TB_SECOND), .tv_nsec = (long)(ns % TB_SECOND)};
}

/* User and system time: of the process, of the calling thread. */
uint64_t tb_process_cpu_ns(void);
uint64_t tb_thread_cpu_ns(void);

#endif
