#include "clock.h"

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * TB_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t tb_monotonic_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

struct tb_moment tb_moment(void)
{
    struct tb_moment moment = {.monotonic_ns = 0};
    uint64_t closest = UINT64_MAX;
    for (int i = 0; i < 8; i++) { /* the thread may be preempted between two readings */
        uint64_t before = tb_monotonic_ns(), now = read_clock(CLOCK_REALTIME);
        uint64_t apart = tb_monotonic_ns() - before;
        if (apart >= closest)
            continue;
        closest = apart;
        moment = (struct tb_moment){.monotonic_ns = before + apart / 2, .realtime_ns = now};
    }
    return moment;
}

uint64_t tb_process_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t tb_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}
