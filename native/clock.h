/* Clocks, in nanoseconds. */
#ifndef NATIVE_CLOCK_H
#define NATIVE_CLOCK_H

#include <stdint.h>

#define TB_SECOND UINT64_C(1000000000)
#define TB_MILLISECOND UINT64_C(1000000)

uint64_t tb_monotonic_ns(void);
uint64_t tb_realtime_ns(void);

/* Both clocks at one moment: the closest pair of several readings. */
struct tb_moment {
    uint64_t monotonic_ns, realtime_ns;
};
struct tb_moment tb_moment(void);

/* User and system time: of the process, of the calling thread. */
uint64_t tb_process_cpu_ns(void);
uint64_t tb_thread_cpu_ns(void);

#endif
